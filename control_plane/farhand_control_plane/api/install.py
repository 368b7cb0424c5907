"""What a computer that is being added downloads: the installer, the daemon's wheel, pip's wheel.

With the list of locked dependencies, which ``updates`` gives, they lie in the package's folder
`_dist`, put there by the wheel's build, or in a checkout by `farhand up` a little after its start.
So they may be missing for some seconds, and may change.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse, Response

from farhand_control_plane.api.origins import base_url
from farhand_control_plane.api.services import Services, services_of
from farhand_shared.errors import InvalidInput, NotFound, Unavailable

router = APIRouter(tags=["public"])

TEMPLATE: Final = "install.sh"
_DAEMON: Final = re.compile(r"farhand_daemon-[A-Za-z0-9_.+-]+\.whl")
_PIP: Final = re.compile(r"pip-[A-Za-z0-9_.+-]+\.whl")
LOCK: Final = "requirements.lock"
_LOCK: Final = re.compile(re.escape(LOCK))
# What an address may hold: it becomes part of a shell script and of a line that people run.
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9._~%:/\[\]-]+")
_WAIT_S: Final = 20.0  # whoever has just started a checkout should not have to type the line again
_LOOK_S: Final = 0.25

_Services = Annotated[Services, Depends(services_of)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    name: str
    content: bytes
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What this server gives to computers, as it lay in the folder at one moment."""

    template: str
    daemon: Wheel
    pip: Wheel
    requirements: Wheel | None = None  # no wheel, but given like one: the locked dependencies

    def script(self, url: str) -> str:
        """Return the installer for this server's address."""
        values: Mapping[str, str] = {
            "@URL@": url,
            "@DAEMON_WHEEL@": self.daemon.name,
            "@DAEMON_SHA256@": self.daemon.sha256,
            "@PIP_WHEEL@": self.pip.name,
            "@PIP_SHA256@": self.pip.sha256,
            "@REQUIREMENTS_SHA256@": "" if self.requirements is None else self.requirements.sha256,
        }
        return re.sub(r"@[A-Z0-9_]+@", lambda match: values[match[0]], self.template)


class Dist:
    """Reads the folder; a file is read again only when it has changed."""

    def __init__(self, folder: Traversable | None = None) -> None:
        self._folder = folder
        self._stamps: list[tuple[str, int, int]] = []
        self._offer: Offer | None = None

    def offer(self) -> Offer:
        """Return what there is to give; Unavailable while it is not all there. Blocks for I/O."""
        folder = self._folder or files("farhand_control_plane") / "_dist"
        try:
            found = {entry.name: entry for entry in folder.iterdir()}
            stamps = sorted((name, *_stamp(entry)) for name, entry in found.items())
            if self._offer is None or stamps != self._stamps:
                self._offer = Offer(
                    template=found[TEMPLATE].read_text(encoding="utf-8"),
                    daemon=_wheel(found, _DAEMON),
                    pip=_wheel(found, _PIP),
                    requirements=_wheel(found, _LOCK) if LOCK in found else None,
                )
                self._stamps = stamps
        except (OSError, KeyError):  # gone or replaced while we looked, too
            self._offer = None
            raise Unavailable(
                "cannot give the daemon: this server has not built its wheel yet; try again in a "
                "minute, and if that does not help, see farhand doctor there"
            ) from None
        return self._offer


_dist = Dist()


@router.get("/install.sh", response_class=PlainTextResponse)
async def installer(request: Request, services: _Services) -> Response:
    """Give the script that adds a computer: it installs the daemon, enrols and runs it."""
    url = url_of(request, services)
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            offer = await asyncio.to_thread(_dist.offer)
        except Unavailable as error:
            if time.monotonic() >= until:
                # A shell may be reading this.
                said = f"printf '%s\\n' 'farhand: {error}' >&2; exit 1\n"
                return _script(said, status=503)
            await asyncio.sleep(_LOOK_S)  # polled: another process fills the folder
        else:
            return _script(offer.script(url))


@router.get("/dist/{file}", response_class=Response)
async def download(file: str) -> Response:
    """Give one of the wheels that the installer names."""
    offer = await asyncio.to_thread(_dist.offer)
    for wheel in (offer.daemon, offer.pip, offer.requirements):
        if wheel is not None and file == wheel.name:
            return Response(
                wheel.content, media_type="application/zip", headers={"Cache-Control": "no-cache"}
            )
    raise NotFound(
        f"cannot find {file[:100]!r} here: this server gives {offer.daemon.name} and "
        f"{offer.pip.name}; run the line from the page again"
    )


def url_of(request: Request, services: Services) -> str:
    """Return the address to give others: the operator's, or the one this request came to."""
    public_url = services.addresses().public_url
    # The header itself: the framework replaces one that it does not believe by its own guess.
    url = base_url(request.headers, request.url.scheme, public_url).rstrip("/")
    if not _ADDRESS.fullmatch(url):
        raise InvalidInput(
            "cannot tell this server's address: the request came to a strange one; "
            "set FARHAND_PUBLIC_URL"
        )
    return url


def install_line(url: str) -> str:
    """Return the line to be run on the computer that is to be added."""
    return f"curl -fsSL {url}/{TEMPLATE} | sh"


def _script(text: str, *, status: int = 200) -> Response:
    return Response(
        text, status, media_type="text/x-shellscript", headers={"Cache-Control": "no-store"}
    )


def _wheel(found: Mapping[str, Traversable], pattern: re.Pattern[str]) -> Wheel:
    names = [name for name in found if pattern.fullmatch(name)]
    if len(names) != 1:  # being replaced
        raise KeyError(pattern.pattern)
    content = found[names[0]].read_bytes()
    return Wheel(name=names[0], content=content, sha256=hashlib.sha256(content).hexdigest())


def _stamp(entry: Traversable) -> tuple[int, int]:
    """Tell one state of a file from another; in an archive nothing changes."""
    if not isinstance(entry, Path):
        return 0, 0
    state = entry.stat()
    return state.st_mtime_ns, state.st_size
