"""What becomes of each attempt when a machine comes back: one pure comparison of two lists.

Rule: only attempts that were never acknowledged are offered again, and only to the same journal
with a counter not lower than at the offer; everything else unknown is said to be indeterminate.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from farhand_shared.command import FINAL, PROVISIONAL, AttemptState
from farhand_shared.link_events import Hello, LiveAttempt, LiveState


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
    stop_reason: str = "cancel"  # why it is STOPPING: cancel, superseded, revoked, expired


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
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendGone:
    """The machine holds what the server does not keep (``welcome`` tells it)."""

    attempt_id: str


Outcome = Reoffer | Indeterminate | Resume | SendCancel | SendGone


def reconcile(views: Iterable[AttemptView], hello: Hello) -> tuple[Outcome, ...]:
    """Return what to do about each attempt; several outcomes for one come in the order to act."""
    live = {attempt.attempt_id: attempt for attempt in hello.live}
    outcomes: list[Outcome] = []
    for view in views:
        held = live.pop(view.attempt_id, None)
        outcomes.extend(_of_absent(view, hello) if held is None else _of_held(view, held))
    outcomes.extend(SendGone(attempt_id=attempt_id) for attempt_id in live)
    return tuple(outcomes)


def _of_held(view: AttemptView, held: LiveAttempt) -> Iterator[Outcome]:
    """The machine holds it, so the machine's account counts."""
    if held.input_digest and held.input_digest != view.input_digest:
        if view.state not in FINAL:
            yield Indeterminate(attempt_id=view.attempt_id, reason="digest_conflict")
        return
    if view.state in FINAL and view.result_hash is None:
        # Ended here without a result of the machine's: nobody waits for one any more.
        yield SendGone(attempt_id=view.attempt_id)
        return
    yield Resume(
        attempt_id=view.attempt_id,
        stdout_offset=view.stdout_stored,
        stderr_offset=view.stderr_stored,
    )
    if view.state is AttemptState.STOPPING and held.state is not LiveState.FINISHED:
        yield SendCancel(attempt_id=view.attempt_id, reason=view.stop_reason)


def _of_absent(view: AttemptView, hello: Hello) -> Iterator[Outcome]:
    """The machine does not hold it: it never arrived, or the memory of it is lost."""
    if view.state in FINAL | PROVISIONAL or view.state is AttemptState.QUEUED:
        return
    reason = _why_not_again(view, hello)
    if reason is not None:
        # No cancel either: a journal that forgot the attempt would "prove" that it never ran.
        yield Indeterminate(attempt_id=view.attempt_id, reason=reason)
    elif view.state is AttemptState.STOPPING:
        yield SendCancel(attempt_id=view.attempt_id, reason=view.stop_reason)
    else:
        yield Reoffer(attempt_id=view.attempt_id)


def _why_not_again(view: AttemptView, hello: Hello) -> str | None:
    if view.journal_id != hello.journal_id:
        return "journal_replaced"
    if hello.journal_counter < view.journal_counter:
        return "journal_rolled_back"
    return "not_held" if view.acknowledged else None
