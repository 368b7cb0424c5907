"""What a provisioner is: something that makes environments, finds them again and destroys them.

Users add their own: an entry point of the group ``farhand.provisioners`` that names a callable
which takes a Site and returns a Provisioner. Everything is asked for by an id that we choose, and
may be asked for again: the replica that asked may have died at any point.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from farhand_control_plane.config import Settings
from farhand_shared.redact import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a provisioner works, and what it may need to know."""

    instance_id: str  # environments of other instances are not ours to see
    folder: Path  # yours to use; of this computer, private, perhaps not there yet
    settings: Settings
    environ: Mapping[str, str]  # settings of your own, and what programs need (PATH, proxies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redeemed:
    """What the environment's own daemon says of its enrolment."""

    machine_id: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An environment that is wanted. Everything but ``confirmed`` is the same at every try."""

    environment_id: str
    name: str  # of its machine
    # Of the control plane, for farhandd enroll, as this computer and its neighbours reach it;
    # one that is far away uses settings.public_url.
    url: str
    lifetime_s: float  # it ends by itself after so long, whoever is there to destroy it
    allow_inferred: bool = False  # for its machine.toml
    confirmed: bool = False  # an earlier try got as far as ``confirm``: it only has to run
    code: Callable[[], Awaitable[Secret]]  # makes an enrolment code; older ones of it end
    confirm: Callable[[Redeemed], Awaitable[None]]  # compares the words, or raises


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An environment, or what is left of one."""

    environment_id: str
    lives: bool  # its daemon runs, or is started again by what watches it


class Provisioner(Protocol):
    """The methods raise errors of farhand_shared.errors: one that is not retryable is final."""

    @property
    def os(self) -> str:
        """What its environments say they are (os=linux); empty when that is not known before."""

    @property
    def arch(self) -> str:
        """As ``os``."""

    async def place(self) -> str:
        """Return where its environments lie; "" when every replica reaches all of them.

        What was made in one place is only asked of replicas that name the same.
        """

    async def create(self, request: Request) -> None:
        """Make the environment, enrol its daemon and have it run.

        Idempotent: what an earlier try left is completed when the request says ``confirmed``,
        else it is removed first. Cancelled, it may leave things behind, which ``list_all`` shows.
        """

    async def destroy(self, environment_id: str) -> None:
        """Return when nothing of it is left, no process and no file. What is not there is fine."""

    async def list_all(self) -> Sequence[Found]:
        """Return everything of ours that is there in this place, also what is broken."""
