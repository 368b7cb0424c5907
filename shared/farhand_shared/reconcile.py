"""What becomes of each attempt when a machine comes back: one pure comparison of two lists.

Rule: only attempts that were never acknowledged are offered again, and only to the same journal
with a counter not lower than at the offer; everything else unknown is said to be indeterminate.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from farhand_shared.command import AttemptState
from farhand_shared.link_events import Hello


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """What the server knows of one attempt on the machine that says Hello.

    Give every non-terminal and provisional attempt, and those among ``hello.live`` whatever their
    state (or the machine would be told that they are gone).
    """

    attempt_id: str
    state: AttemptState
    input_digest: bytes
    acknowledged: bool  # the machine said allow, or started, or more
    started: bool = False
    journal_id: str = ""  # the machine's at the (last) offer
    journal_counter: int = 0
    stdout_stored: int = 0  # the durable offsets
    stderr_stored: int = 0
    result_hash: bytes | None = None  # of the recorded result


@dataclass(frozen=True, slots=True, kw_only=True)
class Reoffer:
    """Authorise it again, record the new epoch and journal counter, and offer it."""

    attempt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Indeterminate:
    """It may have run and nobody can know: record AttemptEvent.LOSE_TRACK with this reason."""

    attempt_id: str
    reason: str  # journal_replaced, journal_rolled_back, not_held, digest_conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """The machine holds it; output goes on at these offsets, a result may follow."""

    attempt_id: str
    stdout_offset: int
    stderr_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendCancel:
    """It was being stopped: say so again (``welcome`` does)."""

    attempt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendGone:
    """The machine holds what the server does not keep (``welcome`` tells it)."""

    attempt_id: str


Outcome = Reoffer | Indeterminate | Resume | SendCancel | SendGone


def reconcile(views: Iterable[AttemptView], hello: Hello) -> tuple[Outcome, ...]:
    """Return what to do about each attempt; several outcomes for one come in the order to act."""
    raise NotImplementedError
