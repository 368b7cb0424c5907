"""Environments that are containers of this computer, by the command line of Docker or Podman.

Isolated as far as the engine isolates. The image (`FARHAND_CONTAINER_IMAGE`) must hold `farhandd`
and a shell; `deploy/environment/` shows one. A container must reach the control plane at the
address that the server gives: loopback is the container's own.

Unverified on a real engine: the contract is tried against a program that speaks as the command line
does, and the options against Docker's own parser.
"""

import asyncio
import ipaddress
import platform
import shutil
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from farhand_control_plane.provisioning import container_commands as commands
from farhand_control_plane.provisioning.container_commands import Container
from farhand_control_plane.provisioning.enrolling import (
    enrol,
    last_line,
    make_sure_it_ended,
)
from farhand_control_plane.provisioning.machine_file import render_machine_file
from farhand_control_plane.provisioning.places import place_of
from farhand_control_plane.provisioning.provisioner import Found, Request, Site
from farhand_shared.errors import InvalidInput, Unavailable

ENGINES: Final = ("docker", "podman")
_WITHIN_S: Final = 120.0  # an image that is pulled


class LocalContainer:
    """Containers of this computer, by Docker or Podman; unverified on a real engine."""

    def __init__(self, site: Site) -> None:
        self._folder = site.folder
        self._instance_id = site.instance_id
        self._image = site.settings.container_image
        self._engine = _engine(site.settings.container_engine)
        if not self._image:
            raise InvalidInput(
                "cannot use provisioner 'local_container': no image is named; set "
                "FARHAND_CONTAINER_IMAGE to one that holds farhandd"
            )

    os = "linux"  # a container's, whatever the engine's own host is
    arch = {"arm64": "aarch64"}.get(platform.machine(), platform.machine())

    async def place(self) -> str:
        """Return this computer's folder: one engine is one place."""
        return await asyncio.to_thread(place_of, self._folder)

    async def create(self, request: Request) -> None:
        """See Provisioner."""
        self._check_reached(request)
        container = self._container(request.environment_id)
        there = {one.environment_id for one in await self.list_all()}
        if request.confirmed and request.environment_id in there:
            await self._must(commands.start(container), f"start {request.name}")
            return
        if request.environment_id in there:
            await self.destroy(request.environment_id)
        await self._must(
            commands.run(container, machine_name=request.name, lifetime_s=request.lifetime_s),
            f"make {request.name}",
        )
        text = render_machine_file(
            [commands.WORK],
            why="An environment on demand: made for one ticket, and destroyed after it.",
            allow_inferred=request.allow_inferred,
        )
        await self._must(
            commands.write_machine_file(container), f"make {request.name}", text.encode()
        )
        await enrol(commands.enrol(container, request.url), request)

    async def destroy(self, environment_id: str) -> None:
        """See Provisioner."""
        # Engines differ in whether removing what is not there fails: what counts is the list.
        failure: Unavailable | None = None
        try:
            await self._must(
                commands.remove(self._container(environment_id)), f"destroy {environment_id}"
            )
        except Unavailable as error:
            failure = error
        if environment_id in {one.environment_id for one in await self.list_all()}:
            raise failure or Unavailable(
                f"cannot destroy {environment_id}: {self._engine} removed it, and lists it still; "
                "it is tried again"
            )

    async def list_all(self) -> Sequence[Found]:
        """See Provisioner."""
        listed = await self._must(
            commands.list_all(self._engine, self._instance_id), "list environments"
        )
        return commands.parse_list(listed.decode("utf-8", "replace"))

    def _check_reached(self, request: Request) -> None:
        if is_loopback(urlsplit(request.url).hostname or ""):
            raise InvalidInput(
                f"cannot make {request.name}: a container does not reach {request.url}, which is "
                "this computer's own; set FARHAND_BIND=0.0.0.0"
            )

    def _container(self, environment_id: str) -> Container:
        return Container(
            engine=self._engine,
            image=self._image,
            instance_id=self._instance_id,
            environment_id=environment_id,
        )

    async def _must(self, command: Sequence[str], what: str, data: bytes = b"") -> bytes:
        """Run the engine's program and return what it printed; Unavailable says its own reason."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(
                f"cannot {what}: {command[0]} does not start: {error.strerror}; install it or set "
                "FARHAND_CONTAINER_ENGINE"
            ) from error
        try:
            async with asyncio.timeout(_WITHIN_S):
                printed, errors = await process.communicate(data)
        except TimeoutError as error:
            raise Unavailable(
                f"cannot {what}: {command[0]} did not answer within {_WITHIN_S:.0f} s"
            ) from error
        finally:
            await make_sure_it_ended(process)
        if process.returncode != 0:
            raise Unavailable(f"cannot {what}: {command[0]} says: {last_line(errors)}")
        return printed


def is_loopback(host: str) -> bool:
    """Tell whether an address means whatever computer it is used on."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _engine(named: str) -> str:
    """Return the engine's program: the one named, else the first that is installed."""
    if named:
        return named
    for engine in ENGINES:
        if shutil.which(engine) is not None:
            return engine
    raise InvalidInput(
        "cannot use provisioner 'local_container': neither docker nor podman is on PATH; install "
        "one, or set FARHAND_CONTAINER_ENGINE to its program"
    )
