"""What is typed or piped into a command: read here, sent on, and sent again until it is taken.

Imported only when there is input. Two threads, because a terminal must be read (for its escapes)
also while the server is away: one reads, one sends; the main thread shows the output meanwhile.
"""

import os
import queue
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from farhand_control_plane.client.api import Api, Refused, Target, path_with
from farhand_shared.errors import FarhandError, Unavailable
from farhand_shared.ids import new_id

PIECE_BYTES: Final = 256 * 1024  # of one request: a quarter of what a machine holds unread
READ_BYTES: Final = 64 * 1024
# How much is read ahead of what the command takes.
_READ_AHEAD: Final = 16
# So long after the last word it is asked for: a replica may have died with it.
_ASK_AFTER_S: Final = 1.0
_AGAIN_FIRST_S: Final = 0.1
_AGAIN_CAP_S: Final = 2.0


def start_thread(work: Callable[[], None], *, name: str) -> None:
    """Run it in a thread that takes no signals and keeps nobody from leaving.

    A signal that another thread gets does not wake the main thread, which alone may act on it: it
    would be heard when the next output comes.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True, slots=True)
class _Resize:
    rows: int
    columns: int


class _End:
    """Nothing follows."""


class _Take:
    """The input is ours from now on, whoever held it."""


class InputWriter:
    """Sends one command's input in order, as fast as it is read, over any number of connections.

    Everything is kept until the command has taken it. ``on_loss`` is called, in another thread,
    with the reason when nothing more can be sent; ``held`` says that somebody else writes now.
    """

    def __init__(
        self, target: Target, attempt_id: str, *, on_loss: Callable[[str, bool], None]
    ) -> None:
        self._api = Api(target)  # not shared with the thread that follows the output
        self._path = f"/v1/attempts/{attempt_id}/input"
        self._on_loss = on_loss
        self._writer_id = new_id()
        self._where = socket.gethostname()
        # Put from signal handlers too: only this queue may be.
        self._queue: queue.SimpleQueue[bytes | _Resize | _End | _Take] = queue.SimpleQueue()
        self._places = threading.Semaphore(_READ_AHEAD)
        self._lost = False
        self._over = False  # the sender has ended
        # The sender's own.
        self._kept = bytearray()  # from `_start`: not yet taken
        self._start = 0
        self._accepted = 0  # the server holds what is below
        self._ended = self._end_accepted = self._closed = False
        self._size: _Resize | None = None
        self._took_over = False

    @property
    def lost(self) -> bool:
        """Whether nothing can be sent now: refused, over, or held by somebody else."""
        return self._lost

    def start(self) -> None:
        """Begin to send."""
        start_thread(self._run, name="input-sender")

    def read_from(self, descriptor: int) -> None:
        """Send what a descriptor gives, to its end; begins to read at once."""
        start_thread(lambda: self._read(descriptor), name="input-reader")

    def write(self, data: bytes) -> None:
        """Send bytes; waits while the command does not read."""
        if self._over:
            return
        self._places.acquire()
        self._queue.put(data)

    def type(self, data: bytes) -> None:
        """Send what a person typed: never waits, and is never much."""
        self._places.release()  # for the one that is taken back with it
        self.write(data)

    def end(self) -> None:
        self._queue.put(_End())

    def resize(self, rows: int, columns: int) -> None:
        """Tell the size of the window. May be called from a signal handler."""
        self._queue.put(_Resize(rows, columns))

    def take(self) -> None:
        """Take the input over from whoever holds it, or back."""
        self._queue.put(_Take())

    # The reader

    def _read(self, descriptor: int) -> None:
        while not self._closed:
            try:
                data = os.read(descriptor, READ_BYTES)
            except BlockingIOError:  # whoever started us made it so
                select.select([descriptor], [], [])
                continue
            except OSError:  # a terminal that has gone
                data = b""
            if not data:
                self.end()
                return
            self.write(data)

    # The sender

    def _run(self) -> None:
        try:
            while not self._closed:
                self._gather()
                self._send()
        except FarhandError as error:
            self._lose(str(error), held=False)
        except Exception as error:  # of ours, or an answer that makes no sense
            reason = f"cannot send the input: {type(error).__name__}: {error}; see farhand doctor"
            self._lose(reason, held=False)
        finally:
            self._over = True
            self._places.release(_READ_AHEAD)  # for those who wait
            self._api.close()

    def _gather(self) -> None:
        """Wait for something to send, or for the time to ask about what was sent."""
        outstanding = bool(self._kept) or self._ended
        try:
            self._note(self._queue.get(timeout=_ASK_AFTER_S if outstanding else None))
            while self._unsent() < PIECE_BYTES:
                self._note(self._queue.get_nowait())
        except queue.Empty:
            return

    def _note(self, item: bytes | _Resize | _End | _Take) -> None:
        match item:
            case bytes():
                if not self._lost:
                    self._kept += item
                self._places.release()
            case _Resize():
                self._size = item
            case _End():
                self._ended = True
            case _Take():
                self._claim(take=True)

    def _unsent(self) -> int:
        return self._start + len(self._kept) - self._accepted

    def _send(self) -> None:
        """Send until all of it is accepted; with nothing to send ask how far it has come."""
        asked = False
        while not self._lost and not self._closed:
            unsent = self._unsent()
            if asked and not unsent and self._end_accepted == self._ended and not self._size:
                return
            at = self._accepted - self._start
            data = bytes(self._kept[at : at + PIECE_BYTES])
            before = self._accepted
            state = self._post(
                data,
                offset=self._accepted,
                end=(self._ended and len(data) == unsent) or None,
                rows=None if self._size is None else self._size.rows,
                columns=None if self._size is None else self._size.columns,
            )
            asked = True
            if state is None:
                return
            self._size = None
            self._take_state(state)
            if self._unsent() and self._accepted <= before:
                time.sleep(_AGAIN_FIRST_S)  # it has not begun, or its machine is away

    def _claim(self, *, take: bool) -> None:
        """Become the one who writes; what others wrote before stays before."""
        self._lost = False
        self._kept.clear()
        state = self._post(b"", offset=None, end=None, take=take or None)
        if state is not None:
            self._start = self._accepted = int(state["accepted"])
            self._took_over = True
            self._closed = bool(state["closed"])

    def _take_state(self, state: dict[str, Any]) -> None:
        self._closed = bool(state["closed"])
        self._end_accepted = bool(state["ended"])
        if (taken := int(state["taken"])) > self._start:
            del self._kept[: taken - self._start]
            self._start = taken
        accepted = int(state["accepted"])
        if accepted < self._start and self._took_over:
            # What the writer before us wrote last was lost with a replica: ours follows what is.
            self._start = accepted
        self._accepted = min(max(accepted, self._start), self._start + len(self._kept))

    def _post(self, data: bytes, **query: str | int | bool | None) -> dict[str, Any] | None:
        """Send one request until it is answered; None when it is refused for good."""
        wait_s = _AGAIN_FIRST_S
        path = path_with(self._path, {"writer": self._writer_id, "where": self._where, **query})
        while True:
            try:
                answer: dict[str, Any] = self._api.send(path, data)
            except Refused as error:
                if error.status < 500 and error.status != 408:
                    self._lose(str(error), held=error.code == "input_held")
                    return None
            except Unavailable:  # whoever follows the output says so, and gives up in time
                pass
            else:
                return answer
            time.sleep(wait_s)  # nothing tells us when the server is back
            wait_s = min(wait_s * 2, _AGAIN_CAP_S)

    def _lose(self, reason: str, *, held: bool) -> None:
        self._lost = True
        self._kept.clear()
        self._ended = False
        self._on_loss(reason, held)
