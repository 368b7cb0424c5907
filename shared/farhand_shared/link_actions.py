"""What a link session asks its shell to do: the values ``receive`` and ``tick`` return, in order.

The session decides, the shell does: it journals, starts, stores, acknowledges. Each action may be
carried out late, never in another order for the same attempt.
"""

from dataclasses import dataclass

from farhand_shared.link_events import (
    Bye,
    Decision,
    Hello,
    Input,
    Offer,
    Quiet,
    Resize,
    Result,
    Started,
    Stream,
    Welcome,
)

# For the daemon -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcomed:
    """The stream is open: what waits in the local queue may start.

    The cancels and goodbyes of the same frame come before it in the list, so an attempt that was
    cancelled while the link was down is stopped before the queue moves.
    """

    welcome: Welcome


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOffered:
    """An offer that this link does not hold: journal it and start it, unless the journal knows it.

    The journal decides "at most once"; the link only swallows repetitions of what it still holds.
    A journal that knows the id with the same digest answers with ``DaemonLink.restore``.
    """

    offer: Offer
    start_by: float  # in the caller's monotonic ``now``; past it: refuse with ``expired``


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAttempt:
    """Stop it or never start it, then call ``finished``; ``known`` False asks for a tombstone.

    A journal that knows an id which the link does not (receipted) keeps its receipt as the answer.
    """

    attempt_id: str
    reason: str  # cancel, superseded, revoked, expired
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovePlan:
    """An owner approved this plan; refuse it unless the attempt waits for exactly this hash."""

    attempt_id: str
    plan_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """Everything below ``offset`` is safe with the server: the spool may free it."""

    attempt_id: str
    stream: Stream
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeInput:
    """The next bytes of a command's stdin, without gap or repetition; then call ``input_taken``."""

    input: Input


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeTerminal:
    """The window of a command's terminal has another size."""

    resize: Resize


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultAcknowledged:
    """The server holds a result: write the receipt, drop the spool. The link has forgotten it.

    ``same`` is False when the server had recorded another result and refused ours: report it.
    """

    attempt_id: str
    result_hash: bytes
    same: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetAttempt:
    """The server keeps nothing of it: stop it if it runs (nobody could see it), drop its spool."""

    attempt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestConflict:
    """An offer reused a known id for another input. It was answered with deny; report it."""

    attempt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequested:
    """Open a new stream within this time, then close this one."""

    within_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The replica ended the stream on purpose; ``bye.retry`` says whether to dial again."""

    bye: Bye


DaemonAction = (
    Welcomed
    | StartOffered
    | CancelAttempt
    | ApprovePlan
    | Acknowledged
    | TakeInput
    | ResizeTerminal
    | ResultAcknowledged
    | ForgetAttempt
    | DigestConflict
    | DrainRequested
    | Closed
)

# For the replica ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloAccepted:
    """Take the epoch, load the attempts, reconcile, then call ``ReplicaLink.welcome``."""

    hello: Hello


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The Hello cannot be served: a Bye is in the next frame, close the stream after it."""

    bye: Bye


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDecision:
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordStart:
    started: Started


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOutput:
    """The next bytes of a stream, without gap or repetition; then call ``stored``."""

    attempt_id: str
    stream: Stream
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOmission:
    """The machine dropped ``length`` bytes from ``offset``: note it, then call ``stored``."""

    attempt_id: str
    stream: Stream
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTaken:
    """The command has taken its input up to ``offset``; with ``closed`` it takes no more."""

    attempt_id: str
    offset: int
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TellQuiet:
    """Tell whoever watches now that the command seems to wait for input; nothing is stored."""

    quiet: Quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordResult:
    """Commit it, then call ``recorded``. Given at most once per attempt and stream."""

    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultConflict:
    """The machine sent another result than the recorded one: it is refused; report it."""

    attempt_id: str
    recorded_hash: bytes
    refused_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSilent:
    """A ping stayed unanswered for ``PONG_DUE_S``: close the stream, the machine is not there."""


ReplicaAction = (
    HelloAccepted
    | Rejected
    | RecordDecision
    | RecordStart
    | StoreOutput
    | StoreOmission
    | InputTaken
    | TellQuiet
    | RecordResult
    | ResultConflict
    | PeerSilent
)
