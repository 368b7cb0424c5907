"""Fill `.wheelhouse/` with every wheel that tests install from, so that they use no network.

It holds the dependencies of both distributions in the versions of this environment (pip's cache
has them already) and the pinned generator of the stubs; the tests that want our two wheels have
them built into it. Run through scripts/test; it does nothing while nothing has changed.
"""

import subprocess
import sys
from importlib.metadata import distributions, requires
from pathlib import Path

import gen_proto

ROOT = Path(__file__).resolve().parent.parent
WHEELHOUSE = ROOT / ".wheelhouse"


def wanted() -> list[str]:
    """Requirements of what tests install: the product's, and the stub generator."""
    product = [line for line in requires("farhand") or [] if "extra ==" not in line]
    return [*product, gen_proto.GENERATOR]


def frozen() -> str:
    """The exact versions here, as pip constraints: one set of versions, downloaded once."""
    lines = {f"{d.name}=={d.version}" for d in distributions() if not d.name.startswith("farhand")}
    return "\n".join(sorted(lines, key=str.lower)) + "\n"


def fill(program: str) -> None:
    """Make the wheelhouse complete and current."""
    WHEELHOUSE.mkdir(exist_ok=True)
    constraints = WHEELHOUSE / "constraints.txt"
    complete = WHEELHOUSE / "complete"
    content = f"{sys.version}\n{wanted()}\n{frozen()}"
    if not complete.exists() or complete.read_text() != content:
        print(f"{program}: filling {WHEELHOUSE}", file=sys.stderr, flush=True)
        complete.unlink(missing_ok=True)
        for old in WHEELHOUSE.glob("*.whl"):
            old.unlink()
        constraints.write_text(frozen())
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"]
        command += ["--constraint", str(constraints), "--dest", str(WHEELHOUSE), *wanted()]
        subprocess.run(command, check=True, cwd=WHEELHOUSE)
        complete.write_text(content)


if __name__ == "__main__":
    try:
        fill(sys.argv[1])
    except subprocess.CalledProcessError as error:
        sys.exit(f"{sys.argv[1]}: cannot fill {WHEELHOUSE}: {error}; is the package index reached?")
