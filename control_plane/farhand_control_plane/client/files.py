"""Operations on a machine's files, from our own programs: asked, followed, answered or refused."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from farhand_control_plane.client.api import Api, segment
from farhand_control_plane.client.attempts import ask
from farhand_control_plane.client.waiting import queued_words, silent_words
from farhand_control_plane.domain.plain_words import end_words
from farhand_shared.command import CommandResult, ExitReason
from farhand_shared.errors import FarhandError, Unavailable
from farhand_shared.exec_frames import Frame, FrameKind, result_from_json
from farhand_shared.file_operation import FileFault, FileOperation, read_report, text_of
from farhand_shared.file_request import FileBody, encode_file_body
from farhand_shared.limits import EXECUTION_TIMEOUT_DEFAULT_MS

_END_WITHIN_S: Final = 30.0  # a machine gives a command 10 s to end, then makes it
_LOOK_S: Final = 0.2
Take = Callable[[bytes], None]
_REPORT_MAX_BYTES: Final = 1 << 20  # of the line that says facts or error


class FileRefused(FarhandError):
    """The machine refused: ``code`` is a FileErrorCode, ``facts`` what else it said."""

    def __init__(self, fault: FileFault) -> None:
        super().__init__(fault.message or fault.code)
        self.code = fault.code
        self.facts = fault.facts


class Gap(Unavailable):
    """Bytes of the answer were lost on their way, because nobody could take them: ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an operation gave: its data, unless somebody took it as it came, and its facts."""

    data: bytes
    facts: dict[str, Any]  # JSON


class Files:
    """The files of one machine, by way of one server."""

    def __init__(
        self,
        api: Api,
        machine: str,
        *,
        say: Callable[[str], None],
        cwd: bytes | None = None,
        wait_offline: bool = False,
    ) -> None:
        """``say`` is told what is waited for; ``cwd`` is what paths are relative to."""
        self.machine = machine
        self._api = api
        self._say = say
        self._cwd = cwd
        self._wait_offline = wait_offline

    def telling(self, say: Callable[[str], None]) -> "Files":
        """Return the same files, where another is told what is waited for."""
        return Files(
            self._api, self.machine, say=say, cwd=self._cwd, wait_offline=self._wait_offline
        )

    def ask(
        self,
        operation: FileOperation,
        *,
        timeout_ms: int = EXECUTION_TIMEOUT_DEFAULT_MS,
        take: Take | None = None,
        feed: Callable[[str], None] | None = None,
    ) -> Answer:
        """Return an operation's answer; ``take`` is given its data as it comes.

        ``feed`` is told the attempt as soon as there is one, to send what the operation reads.

        Raises FileRefused for the machine's no, Gap when data was lost, and what `Api` raises. An
        exception while it goes on, Ctrl-C too, stops the command.
        """
        body = FileBody(
            operation=operation,
            cwd=self._cwd,
            timeout_ms=timeout_ms,
            wait_offline=self._wait_offline,
        )
        path = f"/v1/machines/{segment(self.machine)}/files"
        asked = _Asked(operation, self._say, take)
        try:
            with contextlib.closing(ask(self._api, path, encode_file_body(body))) as frames:
                for frame in frames:
                    if feed is not None and frame.kind is FrameKind.ACCEPTED:
                        feed(frame.json()["attempt_id"])
                        feed = None  # every connection begins with this frame
                    if (answer := asked.hear(frame)) is not None:
                        return answer
        except BaseException:
            self._stop(asked.command_id)
            raise
        raise Unavailable(f"cannot {text_of(operation)}: the server ended its answer")

    def end_others(self, operation: FileOperation) -> int:
        """End open commands that do the same to the same, wait for it, return how many."""
        machine = self._api.get(f"/v1/machines/{segment(self.machine)}")
        listed = self._api.get("/v1/commands", machine_id=machine["id"], open=True, limit=200)
        title = text_of(operation)
        others = [
            command["id"]
            for command in listed["items"]
            if command["operation"] is not None and command["title"] == title
        ]
        for command_id in others:
            self._stop(command_id)
        until = time.monotonic() + _END_WITHIN_S
        for command_id in others:
            while self._api.get(f"/v1/commands/{command_id}", head=0, tail=0)["ended_at"] is None:
                if time.monotonic() > until:
                    raise Unavailable(f"cannot end command {command_id}: its machine is silent")
                time.sleep(_LOOK_S)  # nothing tells a caller of one answer
        return len(others)

    def _stop(self, command_id: str) -> None:
        """Ask for the end of a command that nobody waits for; that it ended already is fine."""
        if not command_id:
            return
        try:
            self._api.post(f"/v1/commands/{command_id}/stop", repeatable=True)
        except FarhandError as error:
            self._say(f"cannot stop command {command_id}: {error}")


class _Asked:
    """One operation while its frames come."""

    def __init__(
        self, operation: FileOperation, say: Callable[[str], None], take: Take | None
    ) -> None:
        self.command_id = ""
        self._what = text_of(operation)
        self._say = say
        self._data = bytearray()
        self._take = self._data.extend if take is None else take
        self._report = bytearray()
        self._away = ""

    def hear(self, frame: Frame) -> Answer | None:
        """Take one frame; return the answer when it was the last that matters."""
        if self._away and frame.kind is not FrameKind.STATE:
            self._back()
        match frame.kind:
            case FrameKind.ACCEPTED:
                self.command_id = frame.json()["command_id"]
            case FrameKind.STDOUT:
                self._take(frame.payload)
            case FrameKind.STDERR:
                self._report += frame.payload[: _REPORT_MAX_BYTES - len(self._report)]
            case FrameKind.STATE:
                self._hear_state(frame.json())
            case FrameKind.OMITTED:
                raise Gap(f"cannot {self._what}: a part of the answer was lost; try again")
            case FrameKind.EXIT:
                self.command_id = ""  # nothing is left to be stopped
                return self._answer(result_from_json(frame.json()["result"]))
            case FrameKind.ERROR:
                error = frame.json()
                raise Unavailable(str(error["message"]))
            case FrameKind.COMMITTED:
                pass
        return None

    def _answer(self, result: CommandResult) -> Answer:
        report = read_report(bytes(self._report))
        if isinstance(report, FileFault):
            raise FileRefused(report)
        if result.reason is ExitReason.EXIT and result.exit_code == 0 and report is not None:
            return Answer(data=bytes(self._data), facts=report)
        why = result.error or f"it {end_words(result.reason.value)}"
        raise FarhandError(why if why.startswith("cannot ") else f"cannot {self._what}: {why}")

    def _hear_state(self, state: dict[str, Any]) -> None:  # as the frame has it
        """Say what is waited for: a machine that went silent, or one that is not there yet."""
        if state.get("state") == "queued":
            if words := queued_words(state):
                self._say(words)
        elif state.get("online") is False:
            if not self._away:
                self._away = state["machine"]
                self._say(silent_words(state, "waiting for it (Ctrl-C gives up)"))
        elif self._away:
            self._back()

    def _back(self) -> None:
        self._say(f"{self._away} is back")
        self._away = ""
