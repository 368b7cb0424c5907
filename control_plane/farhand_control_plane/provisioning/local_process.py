"""Environments that are folders of this computer, each with a daemon of its own.

No isolation: commands run as the account of the server and can do what it can, read its home and
its instance key too. A folder of its own, a HOME of its own, and a clean end are what is given.

    FOLDER/INSTANCE/ENVIRONMENT/
      daemon/       the daemon's home: machine.toml, identity, journal, spool
      work/         the root: where commands run, and their HOME
      tmp/          their TMPDIR
      keeper.lock   held while the keeper lives
      keeper.log    what keeper and daemon said
"""

import asyncio
import contextlib
import os
import platform
import shutil
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from farhand_control_plane.own_program import daemon_command
from farhand_control_plane.provisioning.enrolling import enrol, enrol_arguments
from farhand_control_plane.provisioning.keeper import DAEMON_HOME, PATIENCE_S, keeper_of
from farhand_control_plane.provisioning.machine_file import render_machine_file
from farhand_control_plane.provisioning.places import place_of
from farhand_control_plane.provisioning.processes import POLL_S, end_all
from farhand_control_plane.provisioning.provisioner import Found, Request, Site
from farhand_shared.errors import InvalidInput, Unavailable
from farhand_shared.ids import is_id

WORK: Final = "work"
TMP: Final = "tmp"
_END_WITHIN_S: Final = 10.0  # from KILL to the last process's end
_PASSED_ON: Final = ("PATH", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
_PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


class LocalProcess:
    """Folders of this computer: a daemon each, as the server's account, without isolation."""

    def __init__(self, site: Site) -> None:
        self._folder = site.folder
        self._environments = site.folder / site.instance_id
        self._environ = environment_of(site.environ)

    os = "macos" if sys.platform == "darwin" else sys.platform
    arch = platform.machine()

    async def place(self) -> str:
        """Return this computer's folder, by an id that is kept in it."""
        return await asyncio.to_thread(place_of, self._folder)

    async def create(self, request: Request) -> None:
        """See Provisioner."""
        folder = self._folder_of(request.environment_id)
        daemon_home = folder / DAEMON_HOME
        if not (request.confirmed and (daemon_home / "identity.json").exists()):
            await self.destroy(request.environment_id)
            await asyncio.to_thread(_make, folder, request)
            await enrol(
                daemon_command("enroll", "--home", str(daemon_home), *enrol_arguments(request.url)),
                request,
                environ=self._environ,
            )
        await self._keep(folder, request)

    async def destroy(self, environment_id: str) -> None:
        """See Provisioner."""
        folder = self._folder_of(environment_id)
        keeper = keeper_of(folder)
        if keeper is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S + _END_WITHIN_S):
                    while keeper_of(folder) is not None:  # noqa: ASYNC110 - only its lock tells
                        await asyncio.sleep(POLL_S)
        left = await asyncio.to_thread(end_all, folder, _END_WITHIN_S)
        if left:
            raise Unavailable(
                f"cannot destroy {folder}: processes {sorted(left)} do not end; "
                "it is tried again; look what holds them (a stuck file system?)"
            )
        await asyncio.to_thread(_remove, folder)

    async def list_all(self) -> Sequence[Found]:
        """See Provisioner."""
        return await asyncio.to_thread(self._found)

    def _found(self) -> list[Found]:
        with contextlib.suppress(FileNotFoundError):
            names = sorted(entry.name for entry in os.scandir(self._environments) if entry.is_dir())
            return [
                Found(environment_id=name, lives=keeper_of(self._environments / name) is not None)
                for name in names
                if is_id(name)
            ]
        return []

    def _folder_of(self, environment_id: str) -> Path:
        if not is_id(environment_id):  # a path is made of it, and removed
            raise InvalidInput(f"cannot use {environment_id!r} as an environment: it is no id")
        return self._environments / environment_id

    async def _keep(self, folder: Path, request: Request) -> None:
        """Have the folder's daemon run: by the keeper that it has, or by a new one."""
        environ = {**self._environ, "HOME": str(folder / WORK), "TMPDIR": str(folder / TMP)}
        environ["FARHAND_COMMANDS_HOME"] = str(folder / WORK)
        with (folder / "keeper.log").open("ab") as log:
            starter = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "farhand_control_plane.provisioning.keeper"),
                *(str(folder), str(request.lifetime_s)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                cwd="/",
                start_new_session=True,
            )
        if await starter.wait() != 0:
            raise Unavailable(
                f"cannot run {request.name}: its keeper did not start; see {folder}/keeper.log"
            )


def environment_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what an environment's programs get of the server's variables: none of its settings."""
    passed = {*_PASSED_ON, *_PROXIES, *(name.upper() for name in _PROXIES)}
    return {
        name: value for name, value in environ.items() if name in passed or name.startswith("LC_")
    }


def _make(folder: Path, request: Request) -> None:
    """Make the folders, and the file that says what may run."""
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (folder, folder / DAEMON_HOME, folder / WORK, folder / TMP):
            path.mkdir(mode=0o700, exist_ok=True)
        (folder / DAEMON_HOME / "machine.toml").write_text(
            render_machine_file(
                [str(folder / WORK)],
                why="An environment on demand: made for one ticket, and destroyed after it.",
                allow_inferred=request.allow_inferred,
            ),
            encoding="utf-8",
        )
    except OSError as error:
        raise Unavailable(
            f"cannot make an environment in {folder}: {error.strerror}; make room there, or set "
            "FARHAND_ENVIRONMENTS_FOLDER to another folder"
        ) from error


def _remove(folder: Path) -> None:
    """Remove the folder, whatever modes commands gave to what is in it; links are not followed."""
    for _ in range(2):
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            return
        except OSError:
            _open_up(folder)
        else:
            return
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unavailable(
            f"cannot destroy {folder}: {error.filename or folder} cannot be removed: "
            f"{error.strerror}; it is tried again; remove it by hand"
        ) from error


def _open_up(folder: Path) -> None:
    """Make every folder below writable for us again; ours alone, and no links."""
    for path, folders, _ in os.walk(folder):
        for one in (path, *(f"{path}/{name}" for name in folders)):
            with contextlib.suppress(OSError):
                if stat.S_ISDIR(os.lstat(one).st_mode):
                    os.chmod(one, 0o700)  # noqa: PTH101 - names need not be text
