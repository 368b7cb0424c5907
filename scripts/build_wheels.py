"""Build both wheels, `farhand` and `farhand-daemon`, into a folder, when a source has changed.

    python scripts/build_wheels.py FOLDER

With the `dev` extra the build backend (hatchling) is here and no network is needed; in the
environment of `scripts/up` it is not, and pip fetches it for the build alone.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTIONS = {"farhand": ROOT, "farhand_daemon": ROOT / "endpoint_daemon"}
SOURCES = ("control_plane/farhand_control_plane", "endpoint_daemon", "shared", "deploy", "scripts")


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
            command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
            if importlib.util.find_spec("hatchling") is not None:
                command += ["--no-index", "--no-build-isolation"]
            command += ["--wheel-dir", str(folder), str(project)]
            if subprocess.run(command, check=False, cwd=folder).returncode != 0:
                sys.exit(f"build_wheels: cannot build {name}: pip's reason stands above")
            found = sorted(folder.glob(f"{name}-[0-9]*.whl"))
        wheels += found
    return wheels


def newest_source() -> float:
    """When anything that ends up in a wheel was last changed."""
    files = [ROOT / "pyproject.toml", ROOT / "README.md", ROOT / "LICENSE"]
    for name in SOURCES:
        files += [
            path
            for path in (ROOT / name).rglob("*")
            if path.is_file() and path.suffix != ".pyc" and "__pycache__" not in path.parts
        ]
    return max(path.stat().st_mtime for path in files)


if __name__ == "__main__":
    for wheel in build(Path(sys.argv[1]).resolve()):
        print(wheel)
