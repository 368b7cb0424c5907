"""Processes of operations, forked from one that has everything loaded, because an interpreter for
each would cost five times as much.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

import farhand_daemon

_PACKAGES = Path(farhand_daemon.__file__).parent.parent
# A keeper stands between, because only a parent learns how a process ended.
_PROGRAM = """
import os, signal, socket, sys, traceback
sys.path.append(sys.argv[1])
from farhand_daemon.supervisor import wire
from farhand_daemon.files import draft, kernel, opening, process

def operate(request, setup):
    exec(setup, globals())
    with open(request, "rb") as file:
        _, argv, env, cwd = wire.decode_request(file.read())
    return process.run(argv, env, cwd)

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
requests = socket.socket(fileno=int(sys.argv[2]))
os.chdir("/")
while True:
    request, fds, _, _ = socket.recv_fds(requests, 4096, 4)
    if not request:
        os._exit(0)
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with open(request + b".setup") as file:
            setup = file.read()
        pid = os.fork()
        if pid == 0:
            for standard, fd in enumerate(fds[:3]):
                os.dup2(fd, standard)
            os.closerange(3, 4096)
            try:
                os._exit(operate(request, setup))
            except BaseException:
                os.write(2, traceback.format_exc().encode())
                os._exit(70)
        for fd in fds[:3]:
            os.close(fd)
        os.write(fds[3], b"%d " % pid)
        _, status = os.waitpid(pid, 0)
        os.write(fds[3], b"%d" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    for fd in fds:
        os.close(fd)
"""


class Forge:
    """Starts processes while its context is entered."""

    def __enter__(self) -> Forge:
        self._requests, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-I", "-S", "-E", "-c", _PROGRAM, str(_PACKAGES)]
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())], pass_fds=[theirs.fileno()]
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._requests.close()
        self._process.wait(30)

    def start(self, request: Path, setup: str) -> Process:
        """Start the operation that a file holds, after some Python."""
        request.with_name(f"{request.name}.setup").write_text(setup)
        pipes = [os.pipe() for _ in range(4)]
        (stdin, ours_in), (out, theirs_out), (err, theirs_err), (status, theirs_status) = pipes
        theirs = [stdin, theirs_out, theirs_err, theirs_status]
        socket.send_fds(self._requests, [os.fsencode(request)], theirs)
        for fd in theirs:
            os.close(fd)
        return Process(ours_in, out, err, status)


class Process:
    """One operation's process; used as a `subprocess.Popen`."""

    def __init__(self, stdin: int, stdout: int, stderr: int, status: int) -> None:
        self.stdin = os.fdopen(stdin, "wb")
        self.stdout = os.fdopen(stdout, "rb")
        self.stderr = os.fdopen(stderr, "rb")
        self._status = os.fdopen(status, "rb", buffering=0)
        told = b""
        while not told.endswith(b" "):  # its end is told apart, by its keeper
            told += self._status.read(1) or b" "
        self.pid = int(told)

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.send_signal(signal.SIGKILL)
        for file in (self.stdin, self.stdout, self.stderr, self._status):
            try:
                file.close()
            except BrokenPipeError:
                continue

    def send_signal(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return

    def communicate(self, stdin: bytes) -> tuple[bytes, bytes]:
        """Write and read everything at once."""
        said: list[bytes] = []
        threads = [
            threading.Thread(target=self._write, args=(stdin,)),
            threading.Thread(target=lambda: said.append(self.stderr.read())),
        ]
        for thread in threads:
            thread.start()
        stdout = self.stdout.read()
        for thread in threads:
            thread.join()
        return stdout, said[0]

    def wait(self) -> int:
        """Wait for the end and give the exit code, negative for a signal; once."""
        return int(self._status.read())

    def _write(self, stdin: bytes) -> None:
        try:
            self.stdin.write(stdin)
            self.stdin.close()
        except BrokenPipeError:  # it does not read
            return
