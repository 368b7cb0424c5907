"""A machine and a server around two real link ends, joined by a wire that a test may mistreat.

What is real: both sessions, the codec, reconciliation, the transition table. What is modelled: the
journal (a dict that survives restarts), the spool (the bytes a command wrote), the database (a
dict; what was not committed when the stream ended is lost).
"""

from collections import deque
from dataclasses import dataclass, field

from farhand_shared import codec
from farhand_shared.command import (
    FINAL,
    TERMINAL,
    AttemptEvent,
    AttemptState,
    CommandResult,
    ExitReason,
    StreamTotals,
    event_of_result,
    step,
)
from farhand_shared.errors import ProtocolError
from farhand_shared.ids import new_id
from farhand_shared.link_actions import (
    Acknowledged,
    CancelAttempt,
    Closed,
    DaemonAction,
    ForgetAttempt,
    HelloAccepted,
    InputTaken,
    PeerSilent,
    RecordDecision,
    RecordResult,
    RecordStart,
    ReplicaAction,
    ResultAcknowledged,
    StartOffered,
    StoreOmission,
    StoreOutput,
    TakeInput,
    Welcomed,
)
from farhand_shared.link_daemon import DaemonLink
from farhand_shared.link_events import (
    Bye,
    Decision,
    Hello,
    LiveState,
    Offer,
    Output,
    Result,
    Started,
    Stream,
    Verdict,
)
from farhand_shared.link_replica import ReplicaLink
from farhand_shared.reconcile import AttemptView, Indeterminate, Reoffer, reconcile
from tests.fakes.hellos import NOW_MS, a_hello

SPEC = b"spec"
DIGEST = codec.input_digest(SPEC)
PLAN = b"p" * 32


@dataclass
class JournalEntry:
    """What the machine's disk knows of one attempt."""

    state: str  # journalled, starting, started, finished, receipted
    digest: bytes = DIGEST
    result: Result | None = None
    written: dict[Stream, bytearray] = field(
        default_factory=lambda: {stream: bytearray() for stream in Stream}
    )
    freed: dict[Stream, int] = field(default_factory=lambda: dict.fromkeys(Stream, 0))
    gaps: dict[Stream, list[tuple[int, int]]] = field(
        default_factory=lambda: {stream: [] for stream in Stream}
    )
    # What its supervisor was given of the input; the supervisor outlives the daemon.
    input: bytearray = field(default_factory=bytearray)
    input_taken: int = 0
    input_ended: bool = False
    input_closed: bool = False


class Machine:
    """A warden with a journal, commands that write when told to, and a real ``DaemonLink``."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.journal_id = new_id()
        self.counter = 0
        self.journal: dict[str, JournalEntry] = {}
        self.undecided: list[str] = []  # offers that the warden still looks at
        self.starts: dict[str, int] = {}  # kept by the world: no wipe makes it forget
        self.cancelled_unstarted: set[str] = set()
        self.instance_id = new_id()
        self.link = DaemonLink()
        self.acked: dict[tuple[str, Stream], int] = {}

    def connect(self) -> None:
        self.link.on_connected(
            a_hello(
                daemon_instance_id=self.instance_id,
                journal_id=self.journal_id,
                journal_counter=self.counter,
            )
        )

    def write(self, attempt_id: str, state: str) -> JournalEntry:
        """Append to the journal: on disk when this returns."""
        self.counter += 1
        entry = self.journal.setdefault(attempt_id, JournalEntry(state))
        entry.state = state
        return entry

    def act(self, actions: list[DaemonAction]) -> None:
        for action in actions:
            match action:
                case StartOffered(offer=offer):
                    if offer.attempt_id in self.journal:
                        self._restore(offer.attempt_id)
                    else:
                        self.undecided.append(offer.attempt_id)
                case CancelAttempt(attempt_id=attempt_id):
                    self._cancel(attempt_id)
                case Acknowledged(attempt_id=attempt_id, stream=stream, offset=offset):
                    entry = self.journal[attempt_id]
                    assert offset > entry.freed[stream]
                    entry.freed[stream] = offset
                    self.acked[attempt_id, stream] = offset
                case TakeInput(input=news):
                    entry = self.journal[news.attempt_id]
                    if entry.state != "started":
                        continue  # it came in one frame with the cancel
                    if entry.input_ended:
                        # The daemon was started anew and does not know; its supervisor does.
                        assert (news.offset, news.data) == (len(entry.input), b"")
                        assert news.end
                        continue
                    assert news.offset == len(entry.input)
                    entry.input += news.data
                    entry.input_ended = news.end
                    assert len(entry.input) <= entry.input_taken + self.window
                case ResultAcknowledged(attempt_id=attempt_id, same=same):
                    assert same
                    assert self.journal[attempt_id].state == "finished"
                    self.write(attempt_id, "receipted")
                case ForgetAttempt(attempt_id=attempt_id):
                    # Only an end the server knows already may be forgotten.
                    entry = self.journal[attempt_id]
                    assert entry.state in ("finished", "receipted")
                case Welcomed(welcome=welcome):
                    for at in welcome.stored:
                        key = (at.attempt_id, at.stream)
                        assert at.offset >= self.acked.get(key, 0)
                case Closed():
                    raise AssertionError("the server said bye")
                case _:
                    raise AssertionError(action)

    def _cancel(self, attempt_id: str) -> None:
        entry = self.journal.get(attempt_id)
        if attempt_id in self.undecided:
            self.undecided.remove(attempt_id)
        if entry is None or entry.state == "journalled":
            self.cancelled_unstarted.add(attempt_id)
            self.end(attempt_id, CommandResult(reason=ExitReason.CANCEL))
        elif entry.state == "started":
            self.finish(attempt_id, ExitReason.CANCEL, signal=15)

    # What commands do

    def decide(self, attempt_id: str, verdict: Verdict) -> None:
        self.undecided.remove(attempt_id)
        if verdict is Verdict.ALLOW:
            self.write(attempt_id, "journalled")
        decision = Decision(attempt_id=attempt_id, verdict=verdict, plan_hash=PLAN, tier=0)
        self.link.decision(decision)
        if verdict is Verdict.DENY:
            self.end(attempt_id, CommandResult(reason=ExitReason.REFUSED, error_code="no"))

    def start(self, attempt_id: str) -> None:
        assert self.link.may_start
        assert attempt_id not in self.cancelled_unstarted
        self.write(attempt_id, "starting")
        self.starts[attempt_id] = self.starts.get(attempt_id, 0) + 1
        self.write(attempt_id, "started")
        self.link.started(Started(attempt_id=attempt_id, pid=7, started_at_ms=1, boot_id="boot"))

    def print_bytes(self, attempt_id: str, stream: Stream, data: bytes) -> None:
        written = self.journal[attempt_id].written[stream]
        written += data
        self.link.produced(attempt_id, stream, len(written))

    def drop(self, attempt_id: str, stream: Stream, start: int, end: int) -> None:
        """Drop part of the spool, as a full one does while the link is down."""
        entry = self.journal[attempt_id]
        start = max(start, entry.freed[stream])
        end = min(end, len(entry.written[stream]))
        if start < end:
            entry.gaps[stream].append((start, end))
            self.link.omitted(attempt_id, stream, start, end - start)

    def read_input(self, attempt_id: str, size: int, *, close: bool = False) -> None:
        """Let a command read some of its input, or close it."""
        entry = self.journal[attempt_id]
        entry.input_taken = min(len(entry.input), entry.input_taken + size)
        at_end = entry.input_ended and entry.input_taken == len(entry.input)
        entry.input_closed = entry.input_closed or close or at_end
        self.link.input_taken(attempt_id, entry.input_taken, closed=entry.input_closed)

    def finish(self, attempt_id: str, reason: ExitReason, signal: int | None = None) -> None:
        written = self.journal[attempt_id].written
        self.end(
            attempt_id,
            CommandResult(
                reason=reason,
                exit_code=0 if signal is None else None,
                signal=signal,
                stdout=StreamTotals(produced=len(written[Stream.STDOUT])),
                stderr=StreamTotals(produced=len(written[Stream.STDERR])),
            ),
        )

    def end(self, attempt_id: str, result: CommandResult) -> None:
        entry = self.write(attempt_id, "finished")
        entry.result = Result(
            attempt_id=attempt_id, result=result, result_hash=codec.result_hash(result)
        )
        self.link.finished(entry.result)

    def restart(self, crash_in: str | None = None) -> None:
        """A new daemon process: only the journal, the spool and running commands remain."""
        if crash_in is not None:
            self.write(crash_in, "starting")
        self.instance_id = new_id()
        self.link = DaemonLink()
        self.undecided.clear()
        for attempt_id, entry in self.journal.items():
            if entry.state == "starting":
                self.end(attempt_id, CommandResult(reason=ExitReason.INDETERMINATE))
            if entry.state != "receipted":
                self._restore(attempt_id)

    def wipe(self) -> None:
        """The home is gone, with the journal and whatever ran under it."""
        self.journal.clear()
        self.acked.clear()
        self.journal_id, self.counter = new_id(), 0
        self.restart()

    def _restore(self, attempt_id: str) -> None:
        entry = self.journal[attempt_id]
        state = {
            "journalled": LiveState.JOURNALLED,
            "started": LiveState.STARTED,
            "finished": LiveState.FINISHED,
            "receipted": LiveState.FINISHED,
        }[entry.state]
        self.link.restore(
            attempt_id,
            input_digest=entry.digest,
            state=state,
            decision=Decision(attempt_id=attempt_id, verdict=Verdict.ALLOW, plan_hash=PLAN, tier=0)
            if state is not LiveState.FINISHED
            else None,
            stdout_produced=len(entry.written[Stream.STDOUT]),
            stderr_produced=len(entry.written[Stream.STDERR]),
            stdout_acked=entry.freed[Stream.STDOUT],
            stderr_acked=entry.freed[Stream.STDERR],
            input_received=len(entry.input),
            input_taken=entry.input_taken,
            input_closed=entry.input_closed,
            result=entry.result,
        )
        for stream in Stream:
            for start, end in entry.gaps[stream]:
                self.link.omitted(attempt_id, stream, start, end - start)

    def frame(self, room: int) -> bytes | None:
        events = self.link.next_frame(0.0, room, self._read)
        for event in events:
            if isinstance(event, Output):
                acked = self.acked.get((event.attempt_id, event.stream), 0)
                assert event.offset + len(event.data) <= acked + self.window
        return codec.encode_up(events) if events else None

    def _read(self, attempt_id: str, stream: Stream, offset: int, n: int) -> bytes:
        entry = self.journal[attempt_id]
        assert offset >= entry.freed[stream]
        assert not any(start <= offset < end for start, end in entry.gaps[stream])
        data = bytes(entry.written[stream][offset : offset + n])
        assert data, "asked for more than was produced"
        return data


@dataclass
class Row:
    """One attempt in the database."""

    state: AttemptState = AttemptState.QUEUED
    acknowledged: bool = False
    started: bool = False
    journal_id: str = ""
    journal_counter: int = 0
    result: Result | None = None
    # What was stored: (offset, data) or (offset, length) for an omission, in order.
    output: dict[Stream, list[tuple[int, bytes | int]]] = field(
        default_factory=lambda: {stream: [] for stream in Stream}
    )

    # What a client has of the input, of which what the machine took is forgotten.
    input: bytearray = field(default_factory=bytearray)
    input_ended: bool = False
    input_taken: int = 0
    input_closed: bool = False

    def stored(self, stream: Stream) -> int:
        if not self.output[stream]:
            return 0
        offset, data = self.output[stream][-1]
        return offset + (data if isinstance(data, int) else len(data))


class Server:
    """A replica and its database around a real ``ReplicaLink``."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.epoch = 0
        self.link: ReplicaLink | None = None
        # Taken from the wire, not committed yet; lost with the stream.
        self.uncommitted: deque[StoreOutput | StoreOmission | RecordResult] = deque()
        self.results_recorded: dict[str, int] = {}

    def open(self) -> None:
        self.link = ReplicaLink(now=0.0)
        self.uncommitted.clear()

    def close(self) -> None:
        self.link = None
        self.uncommitted.clear()

    def receive(self, frame: bytes) -> None:
        assert self.link is not None
        actions = self.link.receive(codec.decode_up(frame), now=0.0, wall_ms=NOW_MS)
        for action in actions:
            self._act(action)

    def _act(self, action: ReplicaAction) -> None:
        match action:
            case HelloAccepted(hello=hello):
                self._welcome(hello)
            case RecordDecision(decision=decision):
                row = self.rows[decision.attempt_id]
                if decision.verdict is Verdict.ALLOW:
                    row.acknowledged = True
                    self._step(row, AttemptEvent.ACKNOWLEDGE)
            case RecordStart(started=started):
                row = self.rows[started.attempt_id]
                row.acknowledged = row.started = True
                self._step(row, AttemptEvent.START)
            case InputTaken(attempt_id=attempt_id, offset=offset, closed=closed):
                row = self.rows[attempt_id]
                assert offset >= row.input_taken
                assert offset <= len(row.input)
                row.input_taken = offset
                row.input_closed = row.input_closed or closed
            case StoreOutput() | StoreOmission() | RecordResult():
                self.uncommitted.append(action)
            case PeerSilent():
                raise AssertionError("no time passes here")
            case _:
                raise AssertionError(action)

    def _step(self, row: Row, event: AttemptEvent) -> None:
        # A provisional row stays what it is until the result; its machine's story goes on.
        if row.state not in TERMINAL:
            row.state = step(row.state, event)

    def _welcome(self, hello: Hello) -> None:
        assert self.link is not None
        self.epoch += 1
        views = [self._view(attempt_id, row) for attempt_id, row in self.rows.items()]
        outcomes = reconcile(views, hello)
        self.link.welcome(
            server_time_ms=NOW_MS,
            stream_epoch=self.epoch,
            machine_name="m",
            views=views,
            outcomes=outcomes,
        )
        for outcome in outcomes:
            if isinstance(outcome, Indeterminate):
                self._step(self.rows[outcome.attempt_id], AttemptEvent.LOSE_TRACK)
            elif isinstance(outcome, Reoffer):
                self._offer(outcome.attempt_id, AttemptEvent.REOFFER)
        for attempt_id, row in self.rows.items():
            if row.state is AttemptState.QUEUED:
                self._offer(attempt_id, AttemptEvent.OFFER)
            self.link.input(attempt_id, len(row.input), ended=row.input_ended)

    def _view(self, attempt_id: str, row: Row) -> AttemptView:
        return AttemptView(
            attempt_id=attempt_id,
            state=row.state,
            input_digest=DIGEST,
            acknowledged=row.acknowledged,
            started=row.started,
            journal_id=row.journal_id,
            journal_counter=row.journal_counter,
            stdout_stored=row.stored(Stream.STDOUT),
            stderr_stored=row.stored(Stream.STDERR),
            result_hash=row.result.result_hash if row.result else None,
        )

    def _offer(self, attempt_id: str, event: AttemptEvent) -> None:
        assert self.link is not None
        assert self.link.hello is not None
        row = self.rows[attempt_id]
        assert not row.acknowledged
        row.state = step(row.state, event)
        row.journal_id = self.link.hello.journal_id
        row.journal_counter = self.link.hello.journal_counter
        self.link.offer(
            Offer(
                attempt_id=attempt_id,
                command_id=attempt_id,
                stream_epoch=self.epoch,
                spec=SPEC,
                input_digest=DIGEST,
                start_within_ms=1000,
                tier=0,
                inferred=False,
                requester="r",
            )
        )

    def frame(self) -> bytes:
        assert self.link is not None
        return codec.encode_down(self.link.next_frame(self._read_input))

    def _read_input(self, attempt_id: str, offset: int, n: int) -> bytes:
        row = self.rows[attempt_id]
        assert row.input_taken <= offset < len(row.input)
        assert not row.input_closed
        return bytes(row.input[offset : offset + n])

    # What people and the database do

    def feed(self, attempt_id: str, data: bytes, *, end: bool = False) -> None:
        """Let a client send more of a command's input."""
        row = self.rows[attempt_id]
        assert not row.input_ended
        row.input += data
        row.input_ended = end
        if self.link is not None and self.link.welcomed:
            self.link.input(attempt_id, len(row.input), ended=end)

    def submit(self) -> str:
        attempt_id = new_id()
        self.rows[attempt_id] = Row()
        if self.link is not None and self.link.welcomed:
            self._offer(attempt_id, AttemptEvent.OFFER)
        return attempt_id

    def cancel(self, attempt_id: str) -> None:
        row = self.rows[attempt_id]
        if row.state in TERMINAL:
            return
        row.state = step(row.state, AttemptEvent.STOP)
        if row.state is AttemptState.STOPPING and self.link is not None and self.link.welcomed:
            self.link.cancel(attempt_id, "cancel")

    def commit(self) -> None:
        """Commit the oldest uncommitted thing and acknowledge it."""
        assert self.link is not None
        match self.uncommitted.popleft():
            case StoreOutput() as output:
                row = self.rows[output.attempt_id]
                assert output.offset == row.stored(output.stream)
                row.output[output.stream].append((output.offset, output.data))
                self.link.stored(output.attempt_id, output.stream, row.stored(output.stream))
            case StoreOmission() as omission:
                row = self.rows[omission.attempt_id]
                assert omission.offset == row.stored(omission.stream)
                row.output[omission.stream].append((omission.offset, omission.length))
                self.link.stored(omission.attempt_id, omission.stream, row.stored(omission.stream))
            case RecordResult(result=result):
                row = self.rows[result.attempt_id]
                assert row.result is None
                assert row.state not in FINAL
                lost = result.result.reason is ExitReason.INDETERMINATE
                if not (lost and row.state in TERMINAL):
                    row.state = step(row.state, event_of_result(result.result))
                row.result = result
                count = self.results_recorded.get(result.attempt_id, 0)
                self.results_recorded[result.attempt_id] = count + 1
                self.link.recorded(result.attempt_id, result.result_hash)


class Pair:
    """Machine and server with a wire between them that the test loses, doubles and reorders."""

    def __init__(self, *, window: int, room: int) -> None:
        self.machine = Machine(window)
        self.server = Server()
        self.room = room
        self.up: deque[bytes] = deque()
        self.down: deque[bytes] = deque()
        self.broken: list[str] = []  # protocol errors so far
        self.connected = False

    def connect(self) -> None:
        self.disconnect()
        self.connected = True
        self.server.open()
        self.machine.connect()

    def disconnect(self) -> None:
        self.connected = False
        self.up.clear()
        self.down.clear()
        self.server.close()
        self.machine.link.on_disconnected()

    def send_up(self) -> bool:
        frame = self.machine.frame(self.room) if self.connected else None
        if frame is not None:
            self.up.append(frame)
        return frame is not None

    def send_down(self) -> bool:
        if self.server.link is None or not self.server.link.has_frame:
            return False
        self.down.append(self.server.frame())
        return True

    def deliver_up(self) -> None:
        try:
            self.server.receive(self.up.popleft())
        except ProtocolError as error:
            self._break(error)

    def deliver_down(self) -> None:
        try:
            actions = self.machine.link.receive(codec.decode_down(self.down.popleft()), 0.0)
        except ProtocolError as error:
            self._break(error)
        else:
            self.machine.act(actions)

    def _break(self, error: ProtocolError) -> None:
        self.broken.append(str(error))
        if self.server.link is not None:
            self.server.link.bye(Bye(code="protocol", message=str(error), retry=True))
        self.disconnect()

    def settle(self) -> None:
        """Carry everything both ways, committing as it comes, until nobody has more to say."""
        moved = True
        while moved:
            moved = False
            while self.send_up():
                moved = True
            while self.send_down():
                moved = True
            for queue, deliver in ((self.up, self.deliver_up), (self.down, self.deliver_down)):
                while queue:
                    deliver()
                    moved = True
            while self.server.uncommitted:
                self.server.commit()
                moved = True
