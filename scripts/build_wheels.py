"""Build both wheels, `farhand` and `farhand-daemon`, into a folder, when a source has changed.

    python scripts/build_wheels.py FOLDER

Also `dist`, what the control plane hands to new machines. With hatchling here (every environment
that scripts/up or scripts/test made has it) no network is needed for the daemon's wheel.
"""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import build_dashboard
import building
from building import ROOT

DISTRIBUTIONS = {"farhand": ROOT, "farhand_daemon": ROOT / "endpoint_daemon"}
SOURCES = ("control_plane/farhand_control_plane", "endpoint_daemon", "shared", "deploy", "scripts")
DIST = ROOT / "control_plane" / "farhand_control_plane" / "_dist"
RELEASES = ROOT / "releases"  # signed releases to carry, not of the repository; scripts/release.py
LOCK = ROOT / "endpoint_daemon" / "requirements.lock"
INSTALLER = ROOT / "deploy" / "install.sh"


def build(folder: Path) -> list[Path]:
    """Return the two wheels in `folder`, built from the sources as they are now."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = newest_source()
    wheels = []
    for name, project in DISTRIBUTIONS.items():
        found = sorted(folder.glob(f"{name}-[0-9]*.whl"))
        if len(found) != 1 or found[0].stat().st_mtime < changed:
            for old in found:
                old.unlink()
            if subprocess.run(wheel_command(project, folder), check=False).returncode != 0:
                sys.exit(f"build_wheels: cannot build {name}: pip's reason stands above")
            found = sorted(folder.glob(f"{name}-[0-9]*.whl"))
        wheels += found
    return wheels


def wheel_command(project: Path, folder: Path) -> list[str]:
    """Return the command that builds one wheel, without the network where that can be."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-input"]
    command += ["--disable-pip-version-check", "--wheel-dir", str(folder), str(project)]
    if importlib.util.find_spec("hatchling") is not None:
        command += ["--no-index", "--no-build-isolation"]
    return command


def newest_source() -> float:
    """When anything that ends up in a wheel was last changed."""
    files = [ROOT / "pyproject.toml", ROOT / "README.md", ROOT / "LICENSE"]
    files += build_dashboard.sources()
    for name in SOURCES:
        files += sources_under(ROOT / name)
    return max(path.stat().st_mtime for path in files)


def sources_under(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that people wrote: no byte code, nothing built."""
    for path in folder.rglob("*"):
        built = any(
            part == "__pycache__" or part.startswith(("_page", "_dist"))
            for part in path.relative_to(ROOT).parts
        )
        if not built and path.is_file() and path.suffix != ".pyc":
            yield path


def dist_parts() -> list[Path]:
    """Return what goes into `_dist` as it is: the installer's template, its pip, the locked
    dependencies."""
    parts = [*sorted((ROOT / "scripts").glob("pip-*.whl")), INSTALLER, LOCK]
    return [path for path in parts if path.exists()]


def release_files() -> list[Path]:
    """Return the files of the releases that are to be carried, beneath RELEASES."""
    return [path for path in sorted(RELEASES.glob("[0-9]*/*")) if path.is_file()]


def dist(folder: Path = DIST) -> bool:
    """Make a folder hold what new machines are given; False when it does already.

    The daemon's wheel, built from the sources as they are, `dist_parts`, and `release_files`.
    """
    daemon = ROOT / "endpoint_daemon"
    if building.was_built_from(folder, dist_source()):
        return False
    with building.locked(daemon):
        source = dist_source()
        if building.was_built_from(folder, source):
            return False
        with building.replacing(folder, source) as fresh:
            building.run(wheel_command(daemon, fresh), "build the daemon's wheel", cwd=fresh)
            for path in dist_parts():
                shutil.copy(path, fresh)
            for path in release_files():
                target = fresh / "releases" / path.relative_to(RELEASES)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
    return True


def dist_source() -> str:
    """Return the hash of everything that decides what `_dist` becomes."""
    files = [*sources_under(ROOT / "endpoint_daemon"), *sources_under(ROOT / "shared")]
    return building.hash_of([*files, *dist_parts(), *release_files()])


if __name__ == "__main__":
    for wheel in build(Path(sys.argv[1]).resolve()):
        print(wheel)
