"""What commands write, shown while it comes: one command after another, in a thread of its own."""

import codecs
import threading
from collections import deque
from typing import Any, Final

from farhand_control_plane.client.api import Api, Refused, segment
from farhand_control_plane.client.attempts import follow
from farhand_control_plane.client.file_lines import for_people
from farhand_control_plane.client.screen import Screen
from farhand_shared.exec_frames import FrameKind
from farhand_shared.file_operation import FileFault, read_report

# Of one command, what a terminal is shown; everything goes to a file or a pipe.
LIVE_BYTES: Final = 64 * 1024
TAIL_BYTES: Final = 16 * 1024


class LiveOutput:
    """Shows the output of the commands it is given, in that order, each once."""

    def __init__(self, api: Api, screen: Screen) -> None:
        """``api`` is used by the thread alone from now on."""
        self._api = api
        self._screen = screen
        self._changed = threading.Condition()
        self._given: set[str] = set()
        self._queue: deque[tuple[str, str]] = deque()  # command id, heading
        self._done: set[str] = set()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def follow(self, command_id: str, heading: str = "") -> None:
        """Show what a command wrote and writes. ``heading`` is shown before its first byte."""
        with self._changed:
            if command_id in self._given:
                return
            self._given.add(command_id)
            self._queue.append((command_id, heading))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="output", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def finish(self, command_id: str) -> None:
        """Return when all of a followed command's output has been shown."""
        with self._changed:
            if command_id in self._given:
                self._changed.wait_for(lambda: self._error or command_id in self._done)
        self.check()

    def check(self) -> None:
        """Raise what ended the thread: mostly that nobody reads our output any more."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._queue)
                    command_id, heading = self._queue.popleft()
                self._show(command_id, heading)
                with self._changed:
                    self._done.add(command_id)
                    self._changed.notify_all()
        except BaseException as error:
            # Nothing is lost with it: whoever waits raises it in its own thread.
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _show(self, command_id: str, heading: str) -> None:
        path = f"/v1/commands/{segment(command_id)}"
        command = self._api.get(path, head=0, tail=0)
        pane = _Pane(self._screen, heading)
        if command["operation"] is not None:
            self._show_operation(command, pane)
            pane.close()
            return
        try:
            for frame in follow(self._api, command["attempt_id"]):
                match frame.kind:
                    case FrameKind.STDOUT | FrameKind.STDERR:
                        pane.write(frame.kind, frame.payload)
                    case FrameKind.OMITTED:
                        gap = frame.json()
                        pane.say(f"{gap['length']:,} bytes of {gap['stream']} were not kept")
                    case _:
                        pass
        except Refused as error:
            if error.status != 403:
                raise
            self._show_text(path, pane)
        pane.close()

    def _show_operation(self, command: dict[str, Any], pane: "_Pane") -> None:
        """Show what an operation on files gave: its facts are for programs, its error is not."""
        wrote = {FrameKind.STDOUT: bytearray(), FrameKind.STDERR: bytearray()}
        listed = command["operation"] in ("list", "glob", "search")
        try:
            for frame in follow(self._api, command["attempt_id"]):
                if frame.kind is FrameKind.STDOUT and not listed:
                    pane.write(frame.kind, frame.payload)
                elif frame.kind in wrote:
                    wrote[frame.kind] += frame.payload
        except Refused as error:
            if error.status != 403:
                raise
            self._show_text(f"/v1/commands/{segment(command['id'])}", pane)
            return
        report = read_report(bytes(wrote[FrameKind.STDERR]))
        if isinstance(report, FileFault):
            pane.say(report.message)
        elif listed and report is not None:  # else it was ended, and the last line is not whole
            shown = for_people(command["operation"], bytes(wrote[FrameKind.STDOUT]))
            pane.write(FrameKind.STDOUT, shown)

    def _show_text(self, path: str, pane: "_Pane") -> None:
        """Show the two ends as text: bytes are for the owner of the machine."""
        command = self._api.get(path, head=TAIL_BYTES, tail=TAIL_BYTES)
        for kind, stream in (
            (FrameKind.STDOUT, command["stdout"]),
            (FrameKind.STDERR, command["stderr"]),
        ):
            pane.write(kind, stream["head"].encode("utf-8", "replace"))
            if stream["omitted_bytes"]:
                pane.say(f"{stream['omitted_bytes']:,} bytes of {kind.name.lower()} not shown")
            pane.write(kind, stream["tail"].encode("utf-8", "replace"))


class _Pane:
    """One command's output on a screen: whole for programs, its two ends for people."""

    def __init__(self, screen: Screen, heading: str) -> None:
        self._screen = screen
        self._heading = heading
        self._room = LIVE_BYTES
        self._hidden = 0
        self._tail = bytearray()
        make = codecs.getincrementaldecoder("utf-8")
        # A character may be cut between two frames.
        self._decoders = {kind: make("replace") for kind in (FrameKind.STDOUT, FrameKind.STDERR)}

    def write(self, kind: FrameKind, data: bytes) -> None:
        if not self._screen.for_people:
            self._out(data)
            return
        shown, rest = data[: self._room], data[self._room :]
        self._room -= len(shown)
        self._out(self._decoders[kind].decode(shown).encode("utf-8", "replace"))
        if rest:
            if not self._hidden:
                self.say(f"it writes more than {LIVE_BYTES // 1024} KiB; its end will be shown")
            self._hidden += len(rest)
            self._tail += rest
            del self._tail[:-TAIL_BYTES]

    def say(self, text: str) -> None:
        self._head()
        self._screen.progress(text)

    def close(self) -> None:
        if not self._hidden:
            return
        if self._hidden > len(self._tail):
            self._screen.progress(f"{self._hidden - len(self._tail):,} bytes not shown")
        self._out(self._tail.decode("utf-8", "replace").encode("utf-8", "replace"))

    def _out(self, data: bytes) -> None:
        if data:
            self._head()
            self._screen.output(data)

    def _head(self) -> None:
        if self._heading:
            self._screen.progress(self._heading)
            self._heading = ""


def heading_of(command: dict[str, Any]) -> str:  # command: JSON
    """Return whose output follows, for a command that nobody has announced."""
    sign = " $" if command["operation"] is None else ":"
    return f"{command['machine']}{sign} {command['title']}"
