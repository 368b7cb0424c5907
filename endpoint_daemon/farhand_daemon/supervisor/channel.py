"""One end of a local socket that carries frames and never blocks its owner.

Used by both ends. Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import socket

from farhand_daemon.supervisor import wire

_RECEIVE_BYTES = 32 * 1024


class Channel:
    """Frames over a non-blocking socket. What the socket does not take is kept and sent later.

    The kept part stays small by agreement: a supervisor sends offsets, which it merges while
    something is kept, and a daemon sends acknowledgements of them.
    """

    __slots__ = ("_reader", "_socket", "_unsent", "blocked")

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._reader = wire.FrameReader()
        self._unsent = b""
        self.blocked = False  # the socket takes no more: wait until it is writable, then `flush`

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def unsent(self) -> bool:
        """Whether there is anything that `flush` has not sent."""
        return bool(self._unsent)

    def put(self, frames: bytes) -> None:
        """Keep frames for the next `flush`, so that several leave in one system call."""
        self._unsent += frames

    def flush(self) -> bool:
        """Send what is kept, as far as the socket takes it; False when the peer is gone.

        Going on after False is `receive`'s business: what the peer sent before it went must still
        be read. What was kept has then certainly not arrived.
        """
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent)
            except BlockingIOError:
                self.blocked = True
                return True
            except OSError:
                self._unsent, self.blocked = b"", False
                return False
            self._unsent = self._unsent[sent:]
        self.blocked = False
        return True

    def receive(self) -> list[tuple[int, bytes]] | None:
        """Give the frames that arrived, maybe none; None once the peer is gone."""
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        try:
            return list(self._reader.feed(data))
        except ValueError:  # not our protocol: worth as much as a closed socket
            return None

    def close(self) -> None:
        self._socket.close()
