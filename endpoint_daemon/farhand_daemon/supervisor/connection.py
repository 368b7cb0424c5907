"""The daemon's end of the socket to one supervisor, on the event loop."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

from farhand_daemon.supervisor.channel import Channel
from farhand_daemon.supervisor.handle import CommandHandle

_SUN_PATH_BYTES = 100  # 107 on Linux, 103 on macOS


class SupervisorConnection:
    """Frames to and from one supervisor; `on_frame` and `on_gone` are called on the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connected: socket.socket,
        on_frame: Callable[[SupervisorConnection, int, bytes], None],
        on_gone: Callable[[SupervisorConnection], None],
    ) -> None:
        self.handle: CommandHandle | None = None  # whose command the supervisor has
        self.ready = False  # it said hello: a later daemon would find it
        self.idle_since = 0.0
        self._loop, self._channel = loop, Channel(connected)
        self._socket = connected
        self._on_frame, self._on_gone = on_frame, on_gone
        self._writing = False
        self._fd = connected.fileno()
        loop.add_reader(self._fd, self._readable)

    def send(self, frames: bytes) -> bool:
        """Send frames; never blocks, a supervisor that does not read gets them later.

        False: it is gone and has not got them; `on_gone` follows.
        """
        self._channel.put(frames)
        return self._flush()

    def end_writing(self) -> None:
        """Tell an idle supervisor to end; `on_gone` follows."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:  # it is gone already: reading tells
            return

    def close(self) -> None:
        """Leave the supervisor to itself; `on_gone` is not called any more."""
        if self._fd < 0:
            return
        self._loop.remove_reader(self._fd)
        if self._writing:
            self._loop.remove_writer(self._fd)
        self._fd = -1
        self._channel.close()

    def _readable(self) -> None:
        frames = self._channel.receive()
        if frames is None:
            self.close()
            self._on_gone(self)
            return
        for kind, payload in frames:
            self._on_frame(self, kind, payload)

    def _flush(self) -> bool:
        if self._fd < 0:
            return False
        reached = self._channel.flush()
        if self._channel.blocked and not self._writing:
            self._loop.add_writer(self._fd, self._flush)
        elif self._writing and not self._channel.blocked:
            self._loop.remove_writer(self._fd)
        self._writing = self._channel.blocked
        return reached


def connect_in_folder(folder: Path, name: str) -> socket.socket:
    """Connect to a local socket whose path may be longer than an address can hold.

    Linux: through the descriptor of its folder; elsewhere through a short symbolic link.
    OSError: nobody listens there. Does not block: a local connection is made or refused at once.
    """
    connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connecting.setblocking(False)
    path = os.fspath(folder / name)
    try:
        if len(os.fsencode(path)) <= _SUN_PATH_BYTES:
            connecting.connect(path)
            return connecting
        folder_fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            through = f"/proc/self/fd/{folder_fd}"
            if Path(through).exists():
                connecting.connect(f"{through}/{name}")
                return connecting
        finally:
            os.close(folder_fd)
        import tempfile  # 29 ms, and only systems without /proc come here

        with tempfile.TemporaryDirectory(prefix="fh") as short:
            (Path(short) / "s").symlink_to(folder)
            connecting.connect(os.fspath(Path(short) / "s" / name))
    except BaseException:
        connecting.close()
        raise
    return connecting
