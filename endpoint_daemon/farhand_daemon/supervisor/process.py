"""The life of a supervisor process: take a command, see it through, take the next one.

    idle ──PREPARE──▶ prepared ──GO──▶ running ──▶ told ──clean end──▶ idle
     │ daemon gone     │ daemon gone     │ daemon gone: goes on, waits to be adopted
     ▼ exit            ▼ exit            ▼ ends by writing the exit record

A command is started by GO and by nothing else, and GO is sent after the journal is on disk. A
supervisor that loses its daemon before GO has started nothing and says so by vanishing.

Only a running (or draining) supervisor without a daemon takes a new daemon's connection, on a
socket in a private folder that exists from its first moment. A new daemon that connects therefore
gets an answer, or a closed connection that proves that nothing will be started any more.

Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket

from farhand_daemon import process_identity
from farhand_daemon.supervisor import wire
from farhand_daemon.supervisor.cgroup import Hierarchy, OwnGroup, group_name
from farhand_daemon.supervisor.channel import Channel
from farhand_daemon.supervisor.descendants import become_subreaper
from farhand_daemon.supervisor.oom import OomCounter, own_memory_events
from farhand_daemon.supervisor.output import Pipes
from farhand_daemon.supervisor.running import RunningCommand, dumps

_MAX_COMMANDS = 200  # then a fresh process takes over: whatever a process gathers stays bounded
_BUFFER_BYTES = 256 * 1024
# 256 KiB lets a fast command run on while we write. Not more: a user's pipes share 64 MiB in all,
# and past that the kernel gives everybody the smallest pipes there are.
_PIPE_BYTES = 256 * 1024
SOCKETS_FOLDER = "supervisors"


class SupervisorProcess:
    """Everything a supervisor keeps over its commands."""

    def __init__(
        self, channel_fd: int, folder_fd: int, null_fd: int, hierarchies: list[Hierarchy]
    ) -> None:
        os.setsid()  # a signal to the daemon's or the fork server's group is not meant for us
        become_subreaper()
        self.null_fd = null_fd
        pid = os.getpid()
        start_time = process_identity.start_time(pid) or 0
        self.identity: dict[str, object] = {
            "pid": pid,
            "start_time": start_time,
            "boot_id": process_identity.boot_id(),
            "socket": f"{pid}.sock",
        }
        self.buffer = memoryview(bytearray(_BUFFER_BYTES))
        self.poller = select.poll()
        self.wake_fd = self._catch_signals()
        self.terminated = False
        self.channel: Channel | None = Channel(socket.socket(fileno=channel_fd))
        self.adopted = False
        self.hierarchies = hierarchies
        self._groups = 0
        self.group = OwnGroup.make(pid, start_time, hierarchies)
        self.oom = OomCounter(own_memory_events())  # of its group, where it has one
        self._folder_fd = folder_fd
        self.listener = self._listen()
        self._frames: list[tuple[int, bytes]] = []

    def serve(self) -> None:
        """Run commands until the daemon goes, one left something behind, or 200 are done."""
        self.put(wire.frame(wire.HELLO, dumps(self.identity)))
        try:
            for number in range(_MAX_COMMANDS):
                pipes = make_pipes()  # before the request: off the path of the command
                request = self._await_request()
                if request is None:
                    return
                command = RunningCommand(self, request, pipes, last=number == _MAX_COMMANDS - 1)
                if not self._await_go(command):
                    command.discard()
                    return
                command.see_through()
                if not command.clean:
                    command.drain()
                    return
                if self.group is not None and not self.group.rejoin():
                    return
        finally:
            with contextlib.suppress(OSError):  # the whole folder may have been removed
                os.unlink(self._socket_path(), dir_fd=self._folder_fd)
            if self.group is not None:
                self.group.give_up()

    @property
    def group_name(self) -> str:
        """The name of the next group that a command gets for itself."""
        self._groups += 1
        start_time = self.identity["start_time"]
        return group_name(
            os.getpid(), start_time if isinstance(start_time, int) else 0, self._groups
        )

    def put(self, frames: bytes) -> None:
        """Queue frames for the daemon, if there is one."""
        if self.channel is not None:
            self.channel.put(frames)

    def flush(self) -> None:
        """Send what is queued, as far as it goes without waiting."""
        if self.channel is not None:
            self.channel.flush()

    def take_frames(self) -> list[tuple[int, bytes]]:
        """Give the frames that have arrived; an absent daemon is an absent `channel` afterwards."""
        frames, self._frames = self._frames, []
        if self.channel is not None:
            received = self.channel.receive()
            if received is None:
                self.lose_daemon()
            else:
                frames += received
        return frames

    def lose_daemon(self) -> None:
        """Go on alone, and listen for the next daemon."""
        if self.channel is not None:
            with contextlib.suppress(KeyError):
                self.poller.unregister(self.channel)
            self.channel.close()
            self.channel = None

    def watch_daemon(self) -> bool:
        """Poll the daemon's channel, or the door for the next daemon; True while there is none."""
        if self.channel is None:
            self.poller.register(self.listener, select.POLLIN)
            return True
        wanted = select.POLLIN | (select.POLLOUT if self.channel.blocked else 0)
        self.poller.register(self.channel, wanted)
        return False

    def daemon_fds(self) -> tuple[int, ...]:
        """Give the descriptor that means the daemon now: an event of an old one means nothing."""
        return ((self.listener if self.channel is None else self.channel).fileno(),)

    def flush_all(self) -> None:
        """Send all that is queued; a daemon that does not read is waited for until it is gone."""
        while self.channel is not None:
            self.channel.flush()
            if not self.channel.unsent:
                return
            waiter = select.poll()
            waiter.register(self.channel, select.POLLIN | select.POLLOUT)
            waiter.poll()
            self.take_frames()

    def accept_daemon(self) -> bool:
        """Take a new daemon's connection; False when it was gone already."""
        try:
            connected, _ = self.listener.accept()
        except OSError:
            return False
        self.poller.unregister(self.listener)
        self.channel = Channel(connected)
        self.adopted = True
        return True

    def drain_signals(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake_fd, 4096)

    def _await_request(self) -> bytes | None:
        """Give the next PREPARE, or None to end. What the daemon sent to the last command, not
        knowing yet that it was over, arrives before it and means nothing.
        """
        while True:
            frames = self._wait_for_frames()
            if frames is None:
                return None
            while frames:
                kind, payload = frames.pop(0)
                if kind in (wire.PREPARE, wire.PREPARE_FILE):
                    self._frames = frames
                    return payload if kind == wire.PREPARE else _read_and_remove(payload)

    def _await_go(self, command: RunningCommand) -> bool:
        """Wait for GO; True also when the command was cancelled instead, False when alone."""
        while True:
            frames = self._wait_for_frames()
            if frames is None:
                return False
            while frames:
                kind, payload = frames.pop(0)
                if kind == wire.GO:
                    self._frames = frames
                    return True
                if kind == wire.CANCEL:
                    command.cancel_before_start(payload.decode())
                    return True
                if kind == wire.LINK:
                    command.link_is(payload == b"\x01")

    def _wait_for_frames(self) -> list[tuple[int, bytes]] | None:
        while True:
            frames = self._frames or self.take_frames()
            self._frames = []
            if frames:
                return frames
            if self.channel is None or self.terminated:
                return None
            self.channel.flush()
            wanted = select.POLLIN | (select.POLLOUT if self.channel.blocked else 0)
            waiter = select.poll()
            waiter.register(self.channel, wanted)
            waiter.register(self.wake_fd, select.POLLIN)
            for fd, _ in waiter.poll():
                if fd == self.wake_fd:
                    self.drain_signals()

    def _catch_signals(self) -> int:
        """Have signals wake the poll through a pipe; give its reading end."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGTERM, self._on_terminate)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self.poller.register(reading, select.POLLIN)
        return reading

    def _on_terminate(self, number: int, frame: object) -> None:
        """A machine that shuts down: end the command politely instead of dying under it."""
        self.terminated = True

    def _listen(self) -> socket.socket:
        """Bind by a relative name: a socket's path may be 107 bytes, a home may be deeper."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.setblocking(False)
        os.fchdir(self._folder_fd)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._socket_path())  # of a supervisor that was killed and had the same pid
        listener.bind(self._socket_path())
        os.chdir("/")
        listener.listen(4)
        return listener

    def _socket_path(self) -> str:
        return f"{SOCKETS_FOLDER}/{self.identity['socket']}"


def make_pipes() -> Pipes:
    """Make both output pipes; no end is inherited by anything that is executed."""
    pipes = (*os.pipe(), *os.pipe())
    size = getattr(fcntl, "F_SETPIPE_SZ", None)  # Linux
    if size is not None:
        # Refused when the user's share of pipe memory is used up: the default size will do.
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipes[0], size, _PIPE_BYTES)
    return pipes


def _read_and_remove(path: bytes) -> bytes:
    with open(path, "rb") as file:
        packed = file.read()
    os.unlink(path)
    return packed
