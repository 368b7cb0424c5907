"""Somebody at a terminal of this computer, who uses `farhand exec` there."""

import os
import select
import subprocess
import termios
import time

from tests.simulation.stage import FARHAND, Stage


class Person:
    """Somebody at a terminal in which `farhand exec` runs."""

    def __init__(self, system: Stage, *arguments: str, rows: int = 30, columns: int = 100) -> None:
        self.master, self.slave = os.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.shown = b""
        self.client = subprocess.Popen(
            ["setsid", "--ctty", *FARHAND, "exec", *arguments],
            env=system.client_environ() | {"TERM": "xterm-256color"},
            cwd=system.work,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
        )

    def resize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self.master, (rows, columns))

    def type(self, text: str | bytes) -> None:
        os.write(self.master, text.encode() if isinstance(text, str) else text)

    def sees(self, text: str, *, within_s: float = 30) -> None:
        deadline = time.monotonic() + within_s
        while text.encode() not in self.shown:
            assert time.monotonic() < deadline, self.shown.decode(errors="replace")
            if select.select([self.master], [], [], 0.2)[0]:
                self.shown += os.read(self.master, 65536)

    def ends(self, *, within_s: float = 30) -> int:
        """Wait for the end of the client, reading what it shows; its terminal is as before."""
        deadline = time.monotonic() + within_s
        while self.client.poll() is None:
            assert time.monotonic() < deadline, self.shown.decode(errors="replace")
            if select.select([self.master], [], [], 0.1)[0]:
                self.shown += os.read(self.master, 65536)
        while select.select([self.master], [], [], 0)[0]:
            self.shown += os.read(self.master, 65536)
        assert termios.tcgetattr(self.slave) == self.before
        return self.client.returncode

    def leave(self) -> None:
        if self.client.poll() is None:
            self.client.kill()
        self.client.wait()
        os.close(self.master)
        os.close(self.slave)
