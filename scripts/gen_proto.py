"""Generate the committed stubs in shared/farhand_proto from proto/, with a pinned generator.

    python scripts/gen_proto.py                  in a throw-away environment
    python scripts/gen_proto.py --python PATH    with an interpreter that has grpcio-tools
    python scripts/gen_proto.py --into FOLDER    elsewhere, to compare (tests/packaging does)

The generator writes its version into the code, and that version is the lowest runtime that may
load it: raise GENERATOR and the floors of grpcio and protobuf in both pyprojects in one commit.
"""

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
STUBS = ROOT / "shared"
GENERATOR = "grpcio-tools==1.85.1"


def generate(python: Path, into: Path) -> list[Path]:
    """Write the stubs under `into` and return the files written."""
    sources = sorted(PROTO.glob("farhand_proto/**/*.proto"))
    if not sources:
        raise SystemExit(f"cannot generate stubs: no .proto file under {PROTO}")
    common = [str(python), "-m", "grpc_tools.protoc", "-I", str(PROTO)]
    subprocess.run(
        [*common, f"--python_out={into}", f"--pyi_out={into}", *map(str, sources)], check=True
    )
    services = [source for source in sources if has_service(source)]
    if services:
        subprocess.run([*common, f"--grpc_python_out={into}", *map(str, services)], check=True)
    return stubs(into)


def stubs(folder: Path) -> list[Path]:
    """Return the generated files under a folder."""
    found = folder.glob("farhand_proto/**/*_pb2*")
    return sorted(path for path in found if path.suffix in (".py", ".pyi"))


def has_service(source: Path) -> bool:
    """Whether gRPC code is wanted for this file: else the plugin writes an empty module."""
    return any(line.startswith("service ") for line in source.read_text().splitlines())


def make_generator(folder: Path) -> Path:
    """Return an interpreter with the pinned generator, in a new environment under `folder`."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", GENERATOR],
        check=True,
    )
    return python


def main() -> int:
    """Generate, and say which files were written."""
    parser = argparse.ArgumentParser(description="Generate shared/farhand_proto from proto/.")
    parser.add_argument("--python", type=Path, help="an interpreter that has grpcio-tools")
    parser.add_argument("--into", type=Path, default=STUBS, help="default: shared/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        python = options.python or make_generator(Path(scratch))
        for path in generate(python, options.into):
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
