"""Build the page into `control_plane/farhand_control_plane/_page/`, when its sources have changed.

    python scripts/build_dashboard.py            build, then say how large it is
    python scripts/build_dashboard.py --into X   elsewhere

The build hook of the wheel, scripts/test and `farhand up` in a checkout use the functions. Standard
library only: it runs before anything is installed.
"""

import argparse
import gzip
import os
import sys
import time
from pathlib import Path

import building
import npm

PAGE = building.ROOT / "control_plane" / "farhand_control_plane" / "_page"
TOP_FILES = ("package.json", "package-lock.json", "index.html", "tsconfig.json", "vite.config.ts")


def sources() -> list[Path]:
    """Return the files that the page is made of."""
    found = [npm.DASHBOARD / name for name in TOP_FILES]
    found += npm.DASHBOARD.glob("postcss.config.*")
    for folder in ("public", "src"):
        found += [path for path in (npm.DASHBOARD / folder).rglob("*") if path.is_file()]
    return [path for path in found if ships(path)]


def ships(path: Path) -> bool:
    """Whether a file can make a difference to the page: no test, no note, no editor's leftovers."""
    name = path.name
    return not (name.startswith(".") or name.endswith(("~", ".md")) or ".test." in name)


def content_hash() -> str:
    """Return the hash of everything that decides what the page becomes."""
    return building.hash_of(sources(), salt=npm.NODE)


def is_current(folder: Path = PAGE) -> bool:
    """Whether a folder holds the page of the sources as they are."""
    return building.was_built_from(folder, content_hash())


def build(folder: Path = PAGE) -> bool:
    """Make a folder hold the page of the sources as they are; False when it does already.

    A second build waits for the first and finds its work done.
    """
    if is_current(folder):
        return False
    with building.locked(npm.DASHBOARD):
        source = content_hash()  # before: what changes meanwhile is built next time
        if building.was_built_from(folder, source):
            return False
        with building.replacing(folder, source) as fresh:
            npm.install_modules()
            command, environ = npm.npm_command()
            command += ["run", "build", "--", "--outDir", str(fresh), "--emptyOutDir"]
            building.run(command, "build the page", cwd=npm.DASHBOARD, environ=environ)
            if not (fresh / "index.html").is_file():
                raise building.CannotBuildError(
                    "cannot build the page: Vite wrote no index.html; see control_plane/dashboard"
                )
    return True


def report(folder: Path = PAGE) -> str:
    """Return a table of the page's files with their sizes, plain and compressed."""
    rows = [("file", "bytes", "gzip")]
    totals = [0, 0]
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.name == building.SOURCE:
            continue
        content = path.read_bytes()
        sizes = (len(content), len(gzip.compress(content, 9)))
        totals = [total + size for total, size in zip(totals, sizes, strict=True)]
        rows.append((path.relative_to(folder).as_posix(), f"{sizes[0]:,}", f"{sizes[1]:,}"))
    rows.append(("all", f"{totals[0]:,}", f"{totals[1]:,}"))
    width = max(len(name) for name, _, _ in rows)
    return "\n".join(f"{name:{width}} {plain:>12} {packed:>12}" for name, plain, packed in rows)


def main() -> int:
    """Build, and say how large the page is."""
    parser = argparse.ArgumentParser(description="Build the page of the control plane.")
    parser.add_argument("--into", type=Path, default=PAGE, help=f"default: {PAGE}")
    folder = parser.parse_args().into.resolve()
    began = time.monotonic()
    try:
        built = build(folder)
    except building.CannotBuildError as error:
        print(f"{error.output}build_dashboard: {error}", file=sys.stderr)
        return 1
    print(report(folder))
    took = f"built in {time.monotonic() - began:.1f} s" if built else "current, nothing to build"
    print(f"{os.path.relpath(folder)}: {took}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
