"""Both ends of the link under loss, doubling, reordering, reconnects, restarts and cancels."""

from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from farhand_shared.command import FINAL, TERMINAL, AttemptState, ExitReason
from farhand_shared.link_events import Stream, Verdict
from tests.contracts.link_pair import Pair

WINDOW = 24
ROOM = 700  # a few events: frames are split often


class LinkUnderStress(RuleBasedStateMachine):
    """Any order of steps; at the end the wire heals and everything must come to an end."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = [
            patch("farhand_shared.link_attempt.WINDOW_BYTES", WINDOW),
            patch("farhand_shared.link_intake.WINDOW_BYTES", WINDOW),
            patch("farhand_shared.link_attempt.INPUT_WINDOW_BYTES", WINDOW),
            patch("farhand_shared.link_intake.INPUT_WINDOW_BYTES", WINDOW),
            patch("farhand_shared.link_replica._INPUT_MIN_BYTES", 1),
        ]
        for small in self.patches:
            small.start()
        self.pair = Pair(window=WINDOW, room=ROOM)
        self.machine = self.pair.machine
        self.server = self.pair.server
        self.wiped = False
        self.printed = 0

    @initialize(commands=st.integers(1, 3), running=st.integers(0, 3))
    def begin_in_the_middle(self, commands: int, running: int) -> None:
        """Most orders of steps from nothing lead nowhere: begin with commands under way."""
        self.pair.connect()
        for _ in range(commands):
            self.server.submit()
        if running:
            self.pair.settle()
            for attempt_id in self.machine.undecided[:running]:
                self.machine.decide(attempt_id, Verdict.ALLOW)
                self.start_one(attempt_id)
                self.print_some(attempt_id, Stream.STDOUT, 30)

    def start_one(self, attempt_id: str) -> None:
        assert self.server.link is not None
        assert self.server.link.welcomed
        self.machine.start(attempt_id)

    def print_some(self, attempt_id: str, stream: Stream, size: int) -> None:
        payload = bytes((self.printed + i) % 251 for i in range(size))
        self.printed += size
        self.machine.print_bytes(attempt_id, stream, payload)

    def _in_state(self, state: str) -> list[str]:
        return [i for i, entry in self.machine.journal.items() if entry.state == state]

    # People

    @precondition(lambda self: len(self.server.rows) < 6)
    @rule()
    def submit(self) -> None:
        self.server.submit()

    @precondition(lambda self: self.server.rows)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.server.cancel(data.draw(st.sampled_from(list(self.server.rows))))

    def _fed(self) -> list[str]:
        return [i for i, row in self.server.rows.items() if not row.input_ended]

    @precondition(lambda self: self._fed())
    @rule(data=st.data(), size=st.integers(0, 40), end=st.booleans())
    def send_input(self, data: st.DataObject, size: int, end: bool) -> None:
        self.feed_some(data.draw(st.sampled_from(self._fed())), size, end=end)

    def feed_some(self, attempt_id: str, size: int, *, end: bool) -> None:
        at = len(self.server.rows[attempt_id].input)
        self.server.feed(attempt_id, bytes((at + i) % 253 for i in range(size)), end=end)

    # The machine

    @precondition(lambda self: self._in_state("started"))
    @rule(data=st.data(), size=st.integers(1, 40), close=st.sampled_from([False] * 9 + [True]))
    def read_input(self, data: st.DataObject, size: int, close: bool) -> None:
        attempt_id = data.draw(st.sampled_from(self._in_state("started")))
        self.machine.read_input(attempt_id, size, close=close)

    @precondition(lambda self: self.machine.undecided)
    @rule(data=st.data(), verdict=st.sampled_from([Verdict.ALLOW] * 4 + [Verdict.DENY]))
    def decide(self, data: st.DataObject, verdict: Verdict) -> None:
        self.machine.decide(data.draw(st.sampled_from(self.machine.undecided)), verdict)

    @precondition(lambda self: self.machine.link.may_start and self._in_state("journalled"))
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.start_one(data.draw(st.sampled_from(self._in_state("journalled"))))

    @precondition(lambda self: self._in_state("started"))
    @rule(data=st.data(), stream=st.sampled_from(Stream), size=st.integers(1, 40))
    def write_output(self, data: st.DataObject, stream: Stream, size: int) -> None:
        self.print_some(data.draw(st.sampled_from(self._in_state("started"))), stream, size)

    @precondition(lambda self: not self.pair.connected and self._in_state("started"))
    @rule(
        data=st.data(),
        stream=st.sampled_from(Stream),
        start=st.integers(0, 60),
        length=st.integers(1, 60),
    )
    def drop_output(self, data: st.DataObject, stream: Stream, start: int, length: int) -> None:
        attempt_id = data.draw(st.sampled_from(self._in_state("started")))
        self.machine.drop(attempt_id, stream, start, start + length)

    @precondition(lambda self: self._in_state("started"))
    @rule(data=st.data())
    def exit(self, data: st.DataObject) -> None:
        attempt_id = data.draw(st.sampled_from(self._in_state("started")))
        self.machine.finish(attempt_id, ExitReason.EXIT)

    @rule(again=st.booleans())
    def restart_daemon(self, again: bool) -> None:
        self.pair.disconnect()
        self.machine.restart()
        if again:
            self.pair.connect()

    @precondition(lambda self: self._in_state("journalled"))
    @rule(data=st.data())
    def crash_between_journal_and_start(self, data: st.DataObject) -> None:
        self.pair.disconnect()
        self.machine.restart(data.draw(st.sampled_from(self._in_state("journalled"))))

    @precondition(lambda self: not self.wiped and len(self.server.rows) > 2)
    @rule()
    def wipe_home(self) -> None:
        self.wiped = True
        self.pair.disconnect()
        self.machine.wipe()

    # The wire

    @precondition(lambda self: not self.pair.connected)
    @rule()
    def connect(self) -> None:
        self.pair.connect()

    @precondition(lambda self: self.pair.connected)
    @rule(again=st.booleans())
    def disconnect(self, again: bool) -> None:
        self.pair.disconnect()
        if again:
            self.pair.connect()

    @precondition(lambda self: self.pair.connected)
    @rule(commit=st.booleans())
    def carry(self, commit: bool) -> None:
        """Everything goes up, and what it leads to; the answers stay on the way."""
        while self.pair.send_up():
            pass
        while self.pair.up:
            self.pair.deliver_up()
        while commit and self.server.uncommitted:
            self.server.commit()
        self.pair.send_down()

    @rule()
    def send(self) -> None:
        self.pair.send_up()
        self.pair.send_down()

    @precondition(lambda self: self.pair.connected)
    @rule()
    def settle(self) -> None:
        self.pair.settle()

    @precondition(lambda self: self.pair.up)
    @rule()
    def deliver_up(self) -> None:
        self.pair.deliver_up()

    @precondition(lambda self: self.pair.down)
    @rule()
    def deliver_down(self) -> None:
        self.pair.deliver_down()

    @precondition(lambda self: self.server.uncommitted)
    @rule()
    def commit(self) -> None:
        self.server.commit()

    @precondition(lambda self: self.pair.up or self.pair.down)
    @rule(data=st.data(), how=st.sampled_from(["lose", "double", "reorder"]))
    def mistreat(self, data: st.DataObject, how: str) -> None:
        queue = data.draw(st.sampled_from([q for q in (self.pair.up, self.pair.down) if q]))
        at = data.draw(st.integers(0, len(queue) - 1))
        frame = queue[at]
        if how == "double":
            queue.insert(data.draw(st.integers(at, len(queue))), frame)
            return
        del queue[at]
        if how == "reorder":
            queue.insert(data.draw(st.integers(0, len(queue))), frame)

    # What must hold

    @invariant()
    def an_attempt_starts_at_most_once(self) -> None:
        assert all(count == 1 for count in self.machine.starts.values())

    @invariant()
    def a_result_is_recorded_at_most_once(self) -> None:
        assert all(count == 1 for count in self.server.results_recorded.values())

    @invariant()
    def what_ended_before_its_start_never_ran(self) -> None:
        for attempt_id, row in self.server.rows.items():
            if row.state in (AttemptState.CANCELLED_BEFORE_START, AttemptState.REFUSED):
                assert attempt_id not in self.machine.starts

    def teardown(self) -> None:
        try:
            self._heal()
            self._check_the_end()
        finally:
            for small in self.patches:
                small.stop()

    def _heal(self) -> None:
        broken_before = len(self.pair.broken)
        self.pair.connect()
        self.pair.settle()
        assert AttemptState.STOPPING not in {row.state for row in self.server.rows.values()}
        while self.machine.undecided or self._in_state("journalled") or self._in_state("started"):
            for attempt_id in list(self.machine.undecided):
                self.machine.decide(attempt_id, Verdict.ALLOW)
            for attempt_id in self._in_state("journalled"):
                self.machine.start(attempt_id)
            self._hand_over_all_input()
            for attempt_id in self._in_state("started"):
                self.machine.print_bytes(attempt_id, Stream.STDOUT, b"the last words of it" * 5)
                self.machine.finish(attempt_id, ExitReason.EXIT)
            self.pair.settle()
        assert self.pair.broken[broken_before:] == []

    def _hand_over_all_input(self) -> None:
        """A client that sends to the end and a command that reads to the end meet there."""
        for attempt_id in self._in_state("started"):
            if not self.server.rows[attempt_id].input_ended:
                self.feed_some(attempt_id, 70, end=True)
        while waiting := [
            i for i in self._in_state("started") if not self.machine.journal[i].input_closed
        ]:
            self.pair.settle()
            for attempt_id in waiting:
                before = self.machine.journal[attempt_id].input_taken
                self.machine.read_input(attempt_id, WINDOW)
                entry = self.machine.journal[attempt_id]
                assert entry.input_closed or entry.input_taken > before, "input stands still"
        self.pair.settle()
        for attempt_id in self._in_state("started"):
            entry, row = self.machine.journal[attempt_id], self.server.rows[attempt_id]
            assert row.input_closed
            assert row.input_taken == entry.input_taken
            if entry.input_ended:
                assert entry.input == row.input
            else:  # the command closed it before
                assert row.input.startswith(entry.input)

    def _check_the_end(self) -> None:
        self.an_attempt_starts_at_most_once()
        self.a_result_is_recorded_at_most_once()
        self.what_ended_before_its_start_never_ran()
        assert self.machine.link.live() == ()
        assert all(entry.state == "receipted" for entry in self.machine.journal.values())
        for attempt_id, row in self.server.rows.items():
            assert row.state in TERMINAL
            if row.state not in FINAL:
                assert self.wiped or row.result is not None
                continue
            if row.state is AttemptState.CANCELLED_BEFORE_START and row.result is None:
                continue  # it was never offered
            assert row.result is not None
            entry = self.machine.journal.get(attempt_id)
            if entry is None:
                assert self.wiped
                continue
            for stream in Stream:
                self._check_bytes(entry.written[stream], entry.gaps[stream], row.output[stream])

    def _check_bytes(
        self,
        written: bytearray,
        gaps: list[tuple[int, int]],
        stored: list[tuple[int, bytes | int]],
    ) -> None:
        at = 0
        for offset, data in stored:
            assert offset == at
            if isinstance(data, int):
                at += data
                assert all(any(s <= i < e for s, e in gaps) for i in range(offset, at))
            else:
                at += len(data)
                assert data == written[offset:at]
        assert at == len(written)


LinkUnderStress.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestLinkUnderStress = LinkUnderStress.TestCase
