"""Child processes of `up`: started with a lifeline, watched, ended, started again when they die.

A child's standard output and error go to a log in the home. The lifeline is a pipe whose only
writer is this process: when it dies, however it dies, its children read the end of it.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

# A log that grows past it becomes NAME.log.old, whose last so many bytes are kept.
LOG_MAX_BYTES: Final = 5 << 20
RETRY_FIRST_S: Final = 0.2
RETRY_CAP_S: Final = 10.0
HEALTHY_S: Final = 30.0  # having run so long, the next start is at once again


class Child:
    """One program that is to run as long as we do."""

    def __init__(
        self, name: str, *, log: Path, environ: Mapping[str, str], keep_fds: Sequence[int] = ()
    ) -> None:
        self.name = name
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None  # None before the first start
        self.report_fd = -1  # readable: JSON lines of the child, when it was started with one
        self._environ = dict(environ)
        self._keep_fds = tuple(keep_fds)
        self._lifeline = -1
        self._heard = b""
        self._started_at = 0.0
        self._wait_s = RETRY_FIRST_S
        self._again_at = 0.0

    def start(self, command: Sequence[str], *, reports: bool = False) -> None:
        """Start it; ``command`` is completed by the descriptors of lifeline and report."""
        self.forget()
        self.bound_log()
        lifeline_read, self._lifeline = os.pipe()
        passed = [lifeline_read, *self._keep_fds]
        full = [*command, "--lifeline", str(lifeline_read)]
        report_write = -1
        if reports:
            self.report_fd, report_write = os.pipe()
            os.set_blocking(self.report_fd, False)
            passed.append(report_write)
            full += ["--report", str(report_write)]
        try:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    full,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environ,
                    pass_fds=passed,
                    cwd="/",  # it must not keep a folder busy that is not its own
                    start_new_session=True,  # the terminal's Ctrl-C is for us to pass on
                )
        finally:
            os.close(lifeline_read)
            if report_write >= 0:
                os.close(report_write)
        self._started_at = time.monotonic()

    def tell(self, line: Mapping[str, Any]) -> None:  # JSON
        """Write one line to the child's lifeline."""
        with contextlib.suppress(BrokenPipeError):  # it died: whoever watches it will see
            os.write(self._lifeline, json.dumps(line).encode() + b"\n")

    def hear(self) -> list[dict[str, Any]]:  # JSON
        """Return the report's lines that have come; closes it at its end."""
        lines: list[dict[str, Any]] = []
        while self.report_fd >= 0:
            try:
                data = os.read(self.report_fd, 1 << 16)
            except BlockingIOError:
                break
            if not data:
                os.close(self.report_fd)
                self.report_fd = -1
            self._heard += data
            *whole, self._heard = self._heard.split(b"\n")
            lines += [json.loads(line) for line in whole]
        return lines

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def how_it_ended(self) -> str:
        """Say how it ended, in words."""
        code = self.process.returncode if self.process is not None else None
        if code is None:
            return "it was not running"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit status {code}"

    def last_words(self) -> str:
        """Return the last line that it wrote to its log."""
        for path in (self.log, self._old_log):  # the log may just have been emptied
            with contextlib.suppress(OSError), path.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 4096))
                lines = log.read().decode("utf-8", "replace").strip().splitlines()
                if lines:
                    return lines[-1].strip()
        return ""

    def due_again(self) -> bool:
        """Tell whether it has ended and its back-off is over; call it again and again.

        Each time its log is kept from growing without end: nobody else looks at it as regularly.
        """
        self.bound_log()
        if self.running or self.process is None:
            return False
        now = time.monotonic()
        if not self._again_at:
            if now - self._started_at > HEALTHY_S:
                self._wait_s = RETRY_FIRST_S
            self._again_at = now + self._wait_s
            self._wait_s = min(self._wait_s * 2, RETRY_CAP_S)
        if now < self._again_at:
            return False
        self._again_at = 0.0
        return True

    def end(self, signal_number: int, patience_s: float) -> bool:
        """Send a signal and wait for the end, KILL after ``patience_s``; False if it took that."""
        if self.process is None:
            return True
        gently = True
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal_number)
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                gently = False
                self.process.kill()
                self.process.wait()
        self.forget()
        return gently

    def forget(self) -> None:
        """Close our ends of what connects us to it."""
        for descriptor in (self._lifeline, self.report_fd):
            if descriptor >= 0:
                os.close(descriptor)
        self._lifeline = self.report_fd = -1
        self._heard = b""

    def bound_log(self) -> None:
        """Keep the last part of a log that has grown too long; the child writes on meanwhile.

        In place, because the child holds the file open: it appends, so what it writes next is the
        beginning of the emptied file.
        """
        with contextlib.suppress(OSError), self.log.open("r+b") as log:
            size = log.seek(0, os.SEEK_END)
            if size <= LOG_MAX_BYTES:
                return
            try:
                log.seek(size - LOG_MAX_BYTES)
                fresh = self._old_log.with_suffix(".new")
                fresh.write_bytes(log.read(LOG_MAX_BYTES))
                fresh.replace(self._old_log)
            finally:  # also when the disk is full: above all then
                log.truncate(0)

    @property
    def _old_log(self) -> Path:
        return self.log.with_suffix(".log.old")
