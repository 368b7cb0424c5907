"""The product installed from its wheels into environments that hold nothing else."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.e2e.system import Running, System, User

pytestmark = pytest.mark.e2e

ORDINARY = "nobody"


def _python_for(user: str) -> str:
    """Return an interpreter of our version that this user can run."""
    candidates = [os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"]
    for candidate in candidates:
        try:
            done = subprocess.run(
                [candidate, "-c", "import sys; print(sys.version_info[:2] >= (3, 11))"],
                capture_output=True,
                check=False,
                cwd="/",
                **User.named(user).options(),
            )
        except OSError:
            continue
        if done.returncode == 0 and done.stdout == b"True\n":
            return candidate
    pytest.skip(f"no Python here that {user} can run")


@pytest.fixture(scope="session")
def e2e_folder() -> Iterator[Path]:
    """A folder that every account can pass through."""
    with servers.reachable_folder() as folder:
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="session")
def installed(e2e_folder: Path, wheelhouse: Path) -> Callable[[str, str], Path]:
    """Install a distribution for a user; return its bin folder. Each is made once."""
    made: dict[tuple[str, str], Path] = {}

    def install(distribution: str, user: str) -> Path:
        python = _python_for(user)
        key = (distribution, python)
        if key not in made:
            folder = e2e_folder / f"{distribution}-{len(made)}"
            subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
            command = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
            command += ["install", "--quiet", "--no-index", "--find-links", wheelhouse]
            environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            subprocess.run([*command, distribution], check=True, env=environ)
            made[key] = folder / "bin"
        return made[key]

    return install


def _users() -> list[str]:
    own = User.current().name
    return [own, ORDINARY] if os.getuid() == 0 else [own]


@pytest.fixture(params=_users(), scope="module")
def user(request: pytest.FixtureRequest) -> User:
    """Each account that the product must work for: root and an ordinary one, when we are root."""
    return User.named(request.param)


@pytest.fixture(scope="module")
def new_system(
    e2e_folder: Path, installed: Callable[[str, str], Path], user: User
) -> Iterator[Callable[..., System]]:
    """Make a fresh home; whatever still runs on it at the end is killed."""
    made: list[System] = []

    def make(*, distribution: str = "farhand") -> System:
        folder = e2e_folder / f"user-{user.name}-{os.urandom(4).hex()}"
        folder.mkdir(mode=0o700)
        os.chown(folder, user.uid, user.gid)
        system = System(
            bin=installed(distribution, user.name),
            home=folder / "a home" / "farhand",  # a space, and a parent that is not there yet
            user=user,
            folder=folder,
        )
        made.append(system)
        return system

    yield make
    for system in made:
        system.end()
        _remove_cluster(system)
        shutil.rmtree(system.folder, ignore_errors=True)


def _remove_cluster(system: System) -> None:
    """Remove what root keeps outside of the home."""
    home_id = system.home / "home_id"
    if home_id.exists():
        shutil.rmtree(Path("/var/lib/farhand") / home_id.read_text().strip(), ignore_errors=True)


@pytest.fixture(scope="module")
def system(new_system: Callable[..., System]) -> System:
    """A home that the tests of one module share."""
    return new_system()


@pytest.fixture(scope="module")
def up(system: System) -> Iterator[Running]:
    """`farhand up` on the module's home."""
    with system.up() as running:
        yield running


@pytest.fixture(scope="module")
def url(up: Running, system: System) -> str:
    """Where that server is."""
    return str(json.loads((system.home / "local.json").read_text())["url"])
