"""Build both wheels, `farhand` and `farhand-daemon`, into a folder, when a source has changed.

    python scripts/build_wheels.py FOLDER

Uses the build backend of this environment (hatchling, in the `dev` extra), so it needs no network.
"""

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
            command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
            command += ["--no-build-isolation", "--wheel-dir", str(folder), str(project)]
            subprocess.run(command, check=True, cwd=folder)
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
