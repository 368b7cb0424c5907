"""One command from its start to its exit record.

Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time

from farhand_daemon import process_identity
from farhand_daemon.spool import SpoolWriter
from farhand_daemon.supervisor import wire
from farhand_daemon.supervisor.command_input import CommandInput
from farhand_daemon.supervisor.descendants import reap_orphans
from farhand_daemon.supervisor.ending import NEVER, Ending
from farhand_daemon.supervisor.exit_record import ExitFacts, exit_of, output_facts, reap
from farhand_daemon.supervisor.file_launch import FileLaunch
from farhand_daemon.supervisor.guard import Guard
from farhand_daemon.supervisor.output import OutputPump, Pipes
from farhand_daemon.supervisor.spawning import Launch, SpawnFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from farhand_daemon.supervisor.input import InputFeed
    from farhand_daemon.supervisor.process import SupervisorProcess

_LEFT_OPEN_S = 2.0  # how long after the exit a descendant may hold the output before we report
_FULL_DISK_RETRY_S = 1.0
_FULL_DISK_GIVE_UP_S = 30.0  # after the exit; before it the command simply waits
# A short command is told in one message: its start is held this long, and its first output half a
# millisecond, in case the exit is just behind. Every message costs the daemon more than that.
_HOLD_START_S = 0.002
_HOLD_OUTPUT_S = 0.0005


class RunningCommand:
    """A command prepared by PREPARE; `see_through` runs it and tells the daemon how it ended.

    `clean` afterwards: both pipes at their end and no descendant left, so that the process may
    take the next command.
    """

    def __init__(
        self, process: SupervisorProcess, request: bytes, pipes: Pipes, *, last: bool
    ) -> None:
        facts, argv, env, cwd = wire.decode_request(request)
        self._process, self._pipes, self._last = process, pipes, last
        self._attempt_id = str(facts["attempt_id"])
        self._grace_s = _number(facts["grace_ms"]) / 1000
        timeout_ms = facts["timeout_ms"]
        self._timeout_s = NEVER if timeout_ms is None else _number(timeout_ms) / 1000
        self._link_up = False  # until LINK says so
        self._spool: SpoolWriter | None = None
        self._output: OutputPump | None = None
        self._launch: Launch | None = None
        self._guard: Guard | None = None
        self._input: CommandInput | None = None
        self._failure: SpawnFailure | None = None
        self._cancelled_before_start: str | None = None
        self._started: dict[str, object] | None = None
        self._exit: ExitFacts | None = None
        self._reason: str | None = None
        self._begun = self._ended = 0.0
        self._held_until: float | None = None
        self._survivors = 0
        self._is_quiet = True
        self.clean = False
        try:
            self._spool = SpoolWriter(
                str(facts["spool"]),
                self._attempt_id,
                process.identity,
                head=_number(facts["head"]),
                tail=_number(facts["tail"]),
            )
        except OSError as error:
            self._failure = SpawnFailure(
                "other",
                f"cannot start: no spool for its output: {error.strerror}; "
                "run farhandd doctor on the machine",
                errno=error.errno,
            )
            return
        try:
            self._guard = Guard(process, facts)
            launch = FileLaunch if facts.get("file") else Launch
            self._launch = launch(argv, env, cwd, _number(facts["umask"]))
            self._input = CommandInput(process, facts)
        except SpawnFailure as failure:
            self._failure = failure
            self._leave()

    @property
    def _feed(self) -> InputFeed | None:
        return None if self._input is None else self._input.feed

    def _leave(self) -> None:
        """Let go of what was made for a start that is not to be."""
        if self._launch is not None:
            self._launch.leave()
            self._launch = None
        if self._input is not None:
            self._input.discard()
            self._input = None

    def discard(self) -> None:
        """Forget a command that was never started: the daemon is gone, nothing has happened."""
        if self._spool is not None:
            os.unlink(self._spool.path)
        if self._guard is not None:
            self._guard.end()

    def cancel_before_start(self, reason: str) -> None:
        """Let `see_through` start nothing and report `reason`."""
        self._cancelled_before_start = reason
        if self._launch is not None:
            self._leave()
        elif self._spool is not None:
            self._failure = None  # it would not have run; asked for was that it does not

    def link_is(self, up: bool) -> None:
        """Remember the state of the link for a command that has not started."""
        self._link_up = up

    def see_through(self) -> None:
        """Start the command, keep its output, end it in time, tell how it ended."""
        pid = self._start()
        os.close(self._pipes[1])
        os.close(self._pipes[3])
        output, given, guard = self._output, self._input, self._guard
        if output is None or given is None or guard is None:
            os.close(self._pipes[0])
            os.close(self._pipes[2])
            self._finish(left=False)
            return
        given.is_given()
        if given.terminal is not None:
            os.close(self._pipes[0])
            os.close(self._pipes[2])
        left = self._run(pid, output, given, guard)
        given.close()
        self._finish(left=left)

    def drain(self) -> None:
        """Stay for what the command left behind, as long as it holds our pipes: without a reader
        it would die of SIGPIPE at its next word. What it says is read and thrown away.
        """
        process, output = self._process, self._output
        if output is None:
            return
        output.discard_only()
        while output.open and not process.terminated:
            process.watch_daemon()
            for fd, _ in process.poller.poll():
                if fd in output.open:
                    output.discard(fd)
                elif fd == process.wake_fd:
                    process.drain_signals()
                    reap_orphans(0)
                elif any(kind == wire.QUIT for kind, _ in self._daemon_frames("draining")):
                    return

    # -- from start to exit ----------------------------------------------------------------------

    def _start(self) -> int:
        """Spawn; give the pid, or 0 when there is nothing to run (then `_failure` says why)."""
        process, spool = self._process, self._spool
        launch, given, guard = self._launch, self._input, self._guard
        if launch is None or given is None or guard is None or spool is None:
            return 0
        try:
            pid = guard.spawn(lambda: given.spawn(launch, self._pipes))
        except SpawnFailure as failure:
            self._failure = failure
            self._leave()
            return 0
        self._begun = time.monotonic()
        self._held_until = self._begun + _HOLD_START_S
        guard.began(self._begun, has_input=given.feed is not None)
        self._started = {
            "pid": pid,
            "start_time": process_identity.start_time(pid) or 0,
            "boot_id": process.identity["boot_id"],
            "at_ms": time.time_ns() // 1_000_000,
            "group": guard.group_name,
        }
        spool.put_started(self._started)
        process.put(wire.frame(wire.STARTED, dumps(self._started)))
        self._output = OutputPump(
            spool,
            self._pipes,
            process.poller,
            process.buffer,
            link_up=self._link_up,
            terminal_fd=None if given.terminal is None else given.terminal.master,
        )
        return pid

    def _run(self, pid: int, output: OutputPump, given: CommandInput, guard: Guard) -> bool:
        """See the process to its end; True when it left descendants behind."""
        process = self._process
        ending = Ending(pid, self._grace_s, hang_up=given.terminal is not None, fence=guard.fence)
        for kind, payload in process.take_frames():
            self._obey(kind, payload, output, ending)
        while not self._over(output, ending):
            if process.watch_daemon() and self._link_up:
                self._link_up = False  # nobody will acknowledge anything now
                output.link_is(False)
            for fd, _ in process.poller.poll(self._wait_ms(output, ending, guard)):
                if fd in output.open:
                    output.read(fd)
                    self._is_quiet = False
                elif fd == process.wake_fd:
                    process.drain_signals()
                    self._on_signal(pid, output, ending)
                elif fd in process.daemon_fds():
                    for kind, payload in self._daemon_frames("running"):
                        self._obey(kind, payload, output, ending)
                elif given.feed is not None and fd == given.feed.fd:
                    given.feed.write()
                    self._is_quiet = False
            output.read_hung_up()
            self._keep_time(pid, output, ending, guard)
            self._tell(output, ending)
        self._survivors = ending.survivors
        self._reason = self._reason or ending.reason
        if self._exit is not None:
            reap(pid)
        return reap_orphans(0)

    def _obey(self, kind: int, payload: bytes, output: OutputPump, ending: Ending) -> None:
        """Do what the daemon says. Kinds we do not know are a newer daemon's."""
        if kind == wire.ACK:
            stream, offset = wire.OFFSET.unpack(payload)
            output.acknowledge(stream - 1, offset)
        elif kind == wire.LINK:
            self._link_up = payload == b"\x01"
            output.link_is(self._link_up)
        elif kind == wire.CANCEL:
            ending.begin(payload.decode(), time.monotonic())
        elif self._input is not None:
            self._input.obey(kind, payload)

    def _daemon_frames(self, state: str) -> list[tuple[int, bytes]]:
        """Give what the daemon sent; a new daemon is let in and told where we are."""
        process = self._process
        if process.channel is not None:
            process.channel.flush()
            return process.take_frames()
        if process.accept_daemon():
            rings = () if self._spool is None else self._spool.rings
            feed = self._feed
            snapshot = {
                "version": wire.VERSION,
                "attempt_id": self._attempt_id,
                "state": state,
                "started": self._started,
                "produced": [ring.produced for ring in rings],
                "input": None if feed is None else feed.snapshot(),
            }
            process.put(wire.frame(wire.SNAPSHOT, dumps(snapshot)))
            process.flush()
        return []

    def _on_signal(self, pid: int, output: OutputPump, ending: Ending) -> None:
        """A child ended: the command itself, or an orphan that is ours to reap."""
        now = time.monotonic()
        ending.look_soon(now)
        if self._exit is None:
            self._exit = exit_of(pid)
            if self._exit is not None:
                self._ended = now
                self._reason = ending.reason or self._own_reason(self._exit)
                output.note_exit()
                if ending.reason is None:
                    return  # the usual case: everything is reaped at once, in a moment
        reap_orphans(pid)

    def _own_reason(self, exit_facts: ExitFacts) -> str:
        code, number, _ = exit_facts
        if code is not None:
            return "exit"
        guard = self._guard
        if number == signal.SIGKILL and guard is not None and guard.has_run_out_of_memory():
            return "oom"
        return "signal"

    def _over(self, output: OutputPump, ending: Ending) -> bool:
        """Whether all that will be reported is known."""
        if ending.reason is not None and ending.emptied_at == NEVER:
            return False
        if self._exit is None and not ending.survivors:
            return False
        if not output.open:
            return True
        # What the command itself wrote is read to the last byte, however long the server takes.
        return time.monotonic() >= self._patience_ends(ending) and output.own_output_read()

    def _patience_ends(self, ending: Ending) -> float:
        """When we stop waiting for the end of pipes that others hold."""
        if ending.reason is not None:
            return ending.emptied_at + _LEFT_OPEN_S
        return self._ended + _LEFT_OPEN_S if self._exit is not None else NEVER

    # -- time --------------------------------------------------------------------------------------

    def _wait_ms(self, output: OutputPump, ending: Ending, guard: Guard) -> int | None:
        """Give how long to poll: until the nearest thing that happens by time alone."""
        now = time.monotonic()
        due = ending.due
        if self._held_until is not None:
            due = min(due, self._held_until)
        if self._exit is None and ending.reason is None:
            due = min(due, self._begun + self._timeout_s, guard.look_at)
        if (patience_ends := self._patience_ends(ending)) > now:
            due = min(due, patience_ends)  # later only an acknowledgement or a reader helps
        if output.stuck:
            due = min(due, now + _FULL_DISK_RETRY_S)
        return None if due == NEVER else max(0, int((due - now) * 1000) + 1)

    def _keep_time(self, pid: int, output: OutputPump, ending: Ending, guard: Guard) -> None:
        if self._process.terminated:
            ending.begin("shutdown", time.monotonic())
        if output.stuck:
            over = self._exit is not None
            output.retry(give_up=over and time.monotonic() > self._ended + _FULL_DISK_GIVE_UP_S)
        if ending.reason is None:
            if self._exit is not None:
                return
            now = time.monotonic()
            if now >= self._begun + self._timeout_s:
                ending.begin("timeout", now)
            elif not self._is_quiet:
                self._is_quiet = True
                guard.wrote(now)
            elif now >= guard.look_at:
                self._process.put(guard.look(now, pid))
        else:
            ending.step(time.monotonic(), exited=self._exit is not None)

    def _tell(self, output: OutputPump, ending: Ending) -> None:
        """Tell the daemon of the start and of new output, unless the exit can go with it."""
        process = self._process
        if self._held_until is not None:
            if self._over(output, ending):
                return
            if output.untold and self._exit is None:
                if select.select([process.wake_fd], [], [], _HOLD_OUTPUT_S)[0]:
                    return
            elif time.monotonic() < self._held_until:
                return
            self._held_until = None
        channel = process.channel
        if channel is None:
            return
        if output.untold and not channel.blocked:  # else merged into one frame, later
            channel.put(output.frames())
        if (feed := self._feed) is not None and feed.untold and not channel.blocked:
            channel.put(feed.frame())
        channel.flush()

    # -- exit --------------------------------------------------------------------------------------

    def _finish(self, *, left: bool) -> None:
        """Write the exit record and tell it."""
        process, spool, output = self._process, self._spool, self._output
        left_open = output is not None and bool(output.open)
        self.clean = not (left or left_open or process.adopted or process.terminated)
        record = dumps(self._record(left=left))
        if self._guard is not None:
            self._guard.end()
        if spool is not None:
            spool.put_exit(record)
            if process.channel is None:
                spool.sync()  # nobody else will
            spool.close()
        if output is not None:
            process.put(output.frames())
        if (feed := self._feed) is not None and feed.untold:
            process.put(feed.frame())
        goes_on = b"\x01" if self.clean and not self._last else b"\x00"
        process.put(wire.frame(wire.EXIT, goes_on + record))
        process.flush_all()

    def _record(self, *, left: bool) -> dict[str, object]:
        code, number, core = self._exit or (None, None, False)
        reason = self._reason or self._cancelled_before_start
        problem = None
        if self._failure is not None:
            reason, code = self._failure.reason, self._failure.exit_code
            problem = self._failure.problem
        return {
            "attempt_id": self._attempt_id,
            "reason": reason,
            "exit_code": code,
            "signal": number,
            "core_dumped": core,
            "problem": problem,
            "started": self._started,
            **output_facts(self._spool, self._output),
            "wall_ms": int((self._ended - self._begun) * 1000) if self._exit is not None else 0,
            "descendants_left": left and not self._survivors,
            "survivors": self._survivors,
            "notes": self._notes(reason, code),
        }

    def _notes(self, reason: str | None, code: int | None) -> list[dict[str, str]]:
        guard, spool = self._guard, self._spool
        if self._started is None or guard is None or spool is None:
            return []
        return guard.notes(reason=reason or "", code=code, spool=spool)


def dumps(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"cannot read request: {value!r} is no number")
    return value
