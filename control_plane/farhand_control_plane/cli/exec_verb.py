"""`farhand exec`: a command on a machine as if it ran here, output apart and byte for byte.

Imports nothing beyond the standard library and a few small modules of ours: the whole process is
to take no longer than 150 ms.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from farhand_control_plane.cli import exec_options
from farhand_control_plane.cli.leaving import Interrupted, Left
from farhand_control_plane.client.api import (
    RESUME_CAP_S,
    RESUME_FIRST_S,
    RESUME_FOR_S,
    Api,
    Body,
    Refused,
    complaint,
    find_target,
    path_with,
)
from farhand_control_plane.config import load
from farhand_shared.command import ExitReason, Pty, shell_exit_status
from farhand_shared.errors import (
    FarhandError,
    ProtocolError,
    Unavailable,
)
from farhand_shared.exec_frames import Frame, FrameKind, decoded, result_from_json
from farhand_shared.exec_request import ExecBody, encode_exec_body
from farhand_shared.limits import GRACE_MS

if TYPE_CHECKING:
    from farhand_control_plane.cli.exec_input import ExecInput

OUR_FAILURE: Final = 125
_PATIENCE_S: Final = 2.0  # with a command that was told to end, before that is said


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the verb and return the exit code."""
    try:
        _open_stdin()
        wanted = exec_options.parse(arguments)
        api = Api(find_target(load(environ)))
        if isinstance(wanted, exec_options.Attach):
            from farhand_control_plane.cli.exec_attached import AttachedRun  # seldom needed

            return AttachedRun(api, wanted).run()
        if wanted.spec.pty is not None:
            wanted = _with_window(wanted, environ)
        return Run(api, wanted).run()
    except exec_options.HelpAsked:
        sys.stdout.write(exec_options.HELP)
        return 0
    except FarhandError as error:
        _say(complaint(str(error), "exec"))
        return OUR_FAILURE


def _open_stdin() -> None:
    """Have something at descriptor 0: a socket that got its number would be read as input."""
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)


def _with_window(body: ExecBody, environ: Mapping[str, str]) -> ExecBody:
    """Return the command with the size of this window, and with what TERM says it can do."""
    from farhand_control_plane.cli.terminal import window_size

    rows, columns = window_size()
    term = os.fsencode(environ.get("TERM") or "dumb")
    return replace(body, spec=replace(body.spec, pty=Pty(rows=rows, columns=columns, term=term)))


def _say(text: str) -> None:
    sys.stderr.write(f"farhand: {text}\n")
    sys.stderr.flush()


class Run:
    """One command, followed over as many connections as it takes."""

    def __init__(self, api: Api, body: ExecBody | None) -> None:
        """``body``: what to start; None: it runs already."""
        self._api = api
        self._body = body
        self._input: ExecInput | None = None
        self._command_id = ""
        self._attempt_id = ""
        self._offsets = {FrameKind.STDOUT: 0, FrameKind.STDERR: 0}
        self._status: int | None = None  # None until the exit is known
        self._interrupted_by = 0
        self._away = ""  # the machine that went silent with the command, as was said

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # A script's background job has SIGINT ignored, and yet whoever sends it means it; an
            # ignored SIGHUP is nohup's doing and stays.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _raise_interrupted)
        try:
            return self._run()
        finally:
            if self._input is not None:
                self._input.close()

    def _run(self) -> int:
        try:
            try:
                self._follow()
            except Interrupted as interruption:
                self._interrupted_by = interruption.number
                if interruption.number == signal.SIGHUP:
                    _discard_output()  # the terminal has gone
                self._give_up()
            except Left as left:
                if not left.ends:
                    self._leave()
                    return 0
                self._interrupted_by = signal.SIGINT
                self._give_up(asked=True)
            except BrokenPipeError:
                # Whoever read our output has gone, as when a pipe into `head` ends.
                self._interrupted_by = signal.SIGPIPE
                _discard_output()
                self._give_up()
            except OSError as error:  # the network's are Unavailable by now
                self._say(f"cannot write the output: {error.strerror}; the command is stopped")
                _discard_output()
                self._give_up()
                return OUR_FAILURE
        except Interrupted as again:  # asked twice: do not wait for the machine
            self._interrupted_by = again.number
        if self._interrupted_by:
            return 128 + self._interrupted_by
        return OUR_FAILURE if self._status is None else self._status

    def _open(self) -> Body:
        """Start the command."""
        assert self._body is not None  # noqa: S101  # the others open theirs
        return self._api.open("POST", "/v1/exec", encode_exec_body(self._body), timeout_s=None)

    def _begin_input(self, accepted: dict[str, Any]) -> None:  # as the frame has it
        """Pass input on, if it is asked for, now that it is known to which attempt."""
        if self._body is None or not self._body.spec.takes_input:
            return
        from farhand_control_plane.cli.exec_input import ExecInput  # seldom needed

        kind = "pipe" if self._body.spec.pty is None else "terminal"
        self._input = ExecInput(self._api.target, writes=True, take=False)
        self._input.begin(accepted["command_id"], accepted["attempt_id"], kind)

    def _say(self, text: str) -> None:
        if self._input is not None:
            self._input.say(text)
        else:
            _say(text)

    def _give_up(self, *, asked: bool = False) -> None:
        """End the command, unless it is somebody else's by now, and take what still comes.

        ``asked``: it was said in words that it shall end.
        """
        if self._input is not None:
            self._input.leave()
            if self._input.taken_over:
                self._leave()
                return
        self._stop_and_follow()

    def _limit_s(self) -> float:
        return 0.0 if self._body is None else self._body.spec.execution_timeout_ms / 1000

    def _waits_offline(self) -> bool:
        return self._body is not None and self._body.wait_offline

    def _leave(self) -> None:
        """Let the command go on without us."""
        if self._input is not None:
            self._input.leave()
        if self._status is None and self._command_id:
            self._say(
                f"command {self._command_id} goes on; follow it with "
                f"farhand exec --attach {self._command_id}"
            )

    def _follow(self) -> None:
        """Take frames until the exit is known, coming back when a connection breaks."""
        body = self._open()
        away_since: float | None = None
        wait_s = RESUME_FIRST_S
        while True:
            try:
                for frame in decoded(body.chunks()):
                    away_since, wait_s = None, RESUME_FIRST_S
                    self._take(frame)
                if self._status is not None:
                    return
                broken: FarhandError = Unavailable("the server ended the stream before the command")
            except (Unavailable, ProtocolError) as error:
                if self._status is not None:  # told, and the record is the server's affair
                    return
                broken = error
            finally:
                body.close()
            if not self._attempt_id:
                raise Unavailable(
                    f"cannot tell whether the command began: {broken}; "
                    "it is not sent again by itself: see farhand doctor"
                ) from broken
            now = time.monotonic()
            away_since = away_since or now
            body, wait_s = self._come_back(away_since, wait_s)

    def _come_back(self, away_since: float, wait_s: float) -> tuple[Body, float]:
        """Return the stream from where the last one broke off."""
        path = self._rest()
        while True:
            time.sleep(wait_s)  # nothing tells us when the server is back
            wait_s = min(wait_s * 2, RESUME_CAP_S)
            try:
                return self._api.open("GET", path, timeout_s=None), wait_s
            except Refused as error:
                if error.status < 500:
                    raise
                reason: FarhandError = error
            except Unavailable as error:
                reason = error
            if time.monotonic() - away_since > RESUME_FOR_S:
                raise Unavailable(
                    f"cannot follow command {self._command_id} any longer: {reason}; "
                    "it goes on without us"
                ) from reason

    def _rest(self) -> str:
        """Return the address of the output that has not come yet."""
        return path_with(
            f"/v1/attempts/{self._attempt_id}/output",
            {
                "stdout": self._offsets[FrameKind.STDOUT],
                "stderr": self._offsets[FrameKind.STDERR],
            },
        )

    def _take(self, frame: Frame) -> None:
        if self._away and frame.kind not in (FrameKind.ACCEPTED, FrameKind.STATE):
            self._say_back()
        match frame.kind:
            case FrameKind.STDOUT | FrameKind.STDERR:
                self._write(frame.kind, frame.payload)
            case FrameKind.OMITTED:
                gap = frame.json()
                kind = FrameKind.STDERR if gap["stream"] == "stderr" else FrameKind.STDOUT
                self._offsets[kind] = gap["offset"] + gap["length"]
                if not self._interrupted_by:
                    self._say(f"{gap['length']:,} bytes of {gap['stream']} were not kept")
            case FrameKind.ACCEPTED:
                accepted = frame.json()
                self._command_id = accepted["command_id"]
                if not self._attempt_id:
                    self._attempt_id = accepted["attempt_id"]
                    self._begin_input(accepted)
            case FrameKind.STATE:
                self._show_state(frame.json())
            case FrameKind.EXIT:
                result = result_from_json(frame.json()["result"])
                self._status = shell_exit_status(result)
                if self._interrupted_by:
                    pass
                elif result.reason is ExitReason.TIMEOUT:
                    seconds = self._limit_s()
                    self._say(f"ended after {seconds:g} s, the limit that --timeout sets")
                elif result.error:
                    self._say(complaint(result.error, "exec"))
                if not self._interrupted_by:
                    for note in result.notes:
                        self._say(note.text)
                    if result.stdout_left_open:
                        self._say(
                            "a process that it left running still holds its output; what that one "
                            "writes from now on is not shown"
                        )
            case FrameKind.ERROR:
                error = frame.json()
                self._status = OUR_FAILURE
                if not self._interrupted_by:
                    self._say(complaint(str(error["message"]), "exec"))
            case FrameKind.HINT:
                self._say_hint(frame.json())
            case FrameKind.COMMITTED:
                pass

    def _say_hint(self, hint: dict[str, Any]) -> None:  # as the frame has it
        """Say that the command seems to wait for input, unless its terminal shows it anyway."""
        if self._interrupted_by or hint.get("hint") != "waits_for_input":
            return
        if not hint.get("takes_input"):
            self._say("it seems to wait for input; it has none (Ctrl-C ends it)")
        elif not hint.get("reads_terminal"):
            self._say("it seems to wait for input")

    def _write(self, kind: FrameKind, data: bytes) -> None:
        """Write everything, past Python's buffers: what the command wrote is on its way at once."""
        descriptor = 1 if kind is FrameKind.STDOUT else 2
        view = memoryview(data)
        while view:
            try:
                written = os.write(descriptor, view)
            except BlockingIOError:  # whoever started us made the pipe so
                select.select([], [descriptor], [])
                continue
            self._offsets[kind] += written
            view = view[written:]

    def _show_state(self, state: dict[str, Any]) -> None:  # as the frame has it
        """Say what is waited for: to who asked to wait, and of a machine that went silent."""
        if state.get("state") != "queued" and state.get("online") is False:
            self._say_away(state)
            return
        if self._away:
            self._say_back()
        if state.get("state") != "queued" or not self._waits_offline():
            return
        from farhand_control_plane.client.waiting import queued_words  # seldom needed

        if words := queued_words(state):
            self._say(words)

    def _say_away(self, state: dict[str, Any]) -> None:  # as the frame has it
        if self._away:
            return
        from farhand_control_plane.client.waiting import silent_words  # seldom needed

        self._away = state["machine"]
        if self._interrupted_by:
            outcome = "the command is stopped when it is back (Ctrl-C again does not wait for that)"
        elif state["state"] in ("started", "stopping"):
            outcome = "the command goes on there, and its result comes when it is back"
        else:
            outcome = "if the command has begun it goes on there; its result comes when it is back"
        self._say(silent_words(state, outcome))

    def _say_back(self) -> None:
        self._say(f"{self._away} is back")
        self._away = ""

    def _stop_and_follow(self) -> None:
        """Ask for the command's end and take what still comes, until the machine has proved it."""
        self._away = ""  # waiting for the end means something else: it is said again
        if not self._command_id:
            return
        import threading  # seldom needed

        slow = threading.Timer(_PATIENCE_S, self._say_slow)
        slow.daemon = True
        slow.start()
        try:
            self._api.post(f"/v1/commands/{self._command_id}/stop", repeatable=True)
            body = self._api.open("GET", self._rest())
            with contextlib.closing(body):
                for frame in decoded(body.chunks()):
                    self._take(frame)
        except FarhandError as error:
            self._say(f"cannot stop command {self._command_id}: {error}")
        finally:
            slow.cancel()

    def _say_slow(self) -> None:
        """Say that a command which was told to end has not; it may have a reason, or ignore it."""
        if self._status is None and not self._away:
            self._say(
                f"it was told to end and has not yet; the machine kills it {GRACE_MS // 1000} s "
                "after that (Ctrl-C again does not wait)"
            )


def _raise_interrupted(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(number)


def _discard_output() -> None:
    """Send what still comes nowhere: its reader has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
