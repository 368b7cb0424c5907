"""A soak: commands and their clients while everything is broken and mended, again and again."""

import argparse
import contextlib
import signal
import subprocess
import threading
import time
from collections import Counter
from typing import Any, Final

from farhand_shared.command import TERMINAL
from tests.simulation.soak_faults import Faults
from tests.simulation.soak_verdict import Verdict
from tests.simulation.soak_work import OUR_FAILURE, Report, Said, Work, work
from tests.simulation.stage import Stage

SETTLE_S: Final = 240.0  # after the last fault; leases of 90 s end in that time
MEND_EVERY_S: Final = 0.3
MACHINE_PLACES: Final = 8
NOBODY_THERE: Final = "Connection refused"


class Soak:
    """One run."""

    def __init__(self, stage: Stage, options: argparse.Namespace) -> None:
        self._stage = stage
        self._options = options
        self._record = stage.work / "record"
        self._record.touch()
        self._lock = threading.Lock()  # over what is killed and what is started again
        self._over = threading.Event()  # of the faults
        self._ended = threading.Event()  # of everything
        self._next = iter(range(options.commands))
        self._began = time.monotonic()
        self._works = {
            one.id: one
            for one in (work(options.seed, n, self._record) for n in range(options.commands))
        }
        self._said: dict[str, Said] = {}
        self._mended: Counter[str] = Counter()
        self.faults = Faults(stage, options, self._lock, self._over)

    def run(self) -> Report:
        """Run it all and return what was found."""
        clients = [
            threading.Thread(target=self._client, name=f"client-{n}", daemon=True)
            for n in range(self._options.clients)
        ]
        breaking = threading.Thread(target=self.faults.run, name="faults", daemon=True)
        mending = threading.Thread(target=self._mend, name="mending", daemon=True)
        for thread in (mending, *clients, breaking):
            thread.start()
        self._over.wait(self._options.minutes * 60)
        self._over.set()
        breaking.join()
        self._stage.link.heal()
        self._stage.empty_disk()
        healed = time.monotonic()
        report = Report()
        try:
            for thread in clients:
                thread.join(max(0.0, healed + SETTLE_S - time.monotonic()))
            report.check(
                not any(thread.is_alive() for thread in clients),
                f"clients still wait {SETTLE_S:.0f} s after the last fault",
            )
            rows = self._settled(healed + SETTLE_S + 60)
            report.counts["settled_s"] = round(time.monotonic() - healed, 1)
            ran = Counter(self._record.read_text().split())
            Verdict(self._stage, self._works, self._said).judge(rows, ran, report)
            report.counts["faults"] = dict(self.faults.counts)
            report.counts["started again"] = dict(self._mended)
        finally:
            self._ended.set()
            mending.join()
        return report

    def _client(self) -> None:
        while (number := self._take()) is not None:
            # Spread over the time, so that every fault meets some.
            due = self._began + number / self._options.commands * self._options.minutes * 60
            self._over.wait(max(0.0, due - time.monotonic()))
            one = self._works[f"soak-{self._options.seed}-{number:06d}"]
            with contextlib.suppress(AssertionError):  # it never ended: judged by the record
                said = self._ask(one)
                while said.status == OUR_FAILURE and NOBODY_THERE in said.stderr:
                    time.sleep(0.3)  # nothing was sent, so it may be asked again
                    said = self._ask(one)
                self._said[one.id] = said

    def _ask(self, one: Work) -> Said:
        client = self._stage.shell(one.script, options=("--wait-offline",))
        try:
            if one.gives_up_after_s is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    client.process.wait(one.gives_up_after_s)
                client.process.send_signal(signal.SIGINT)
            told = client.ended(within_s=self._options.minutes * 60 + SETTLE_S)
            return Said(status=told.status, stdout=told.stdout, stderr=told.stderr)
        finally:
            client.forget()
            self._stage.clients.remove(client)

    def _take(self) -> int | None:
        with self._lock:
            return next(self._next, None)

    def _mend(self) -> None:
        while not self._ended.wait(MEND_EVERY_S):
            with self._lock:
                self._mended.update(self._stage.mend())

    # ── the end ─────────────────────────────────────────────────────────────────────────────────

    def _rows(self) -> list[dict[str, Any]]:
        """Return what is on record; nothing while the database is away."""
        try:
            return self._stage.sql(
                "select a.attempt_id, a.state, a.reason, a.exit_code, a.error, a.result, c.title"
                " from attempts a join commands c using (instance_id, command_id)"
            )
        except self._stage.database_errors:
            return []

    def _settled(self, deadline: float) -> list[dict[str, Any]]:
        """Return the record when all is terminal, or as it is at the deadline."""
        while True:
            rows = self._rows()
            if rows and all(row["state"] in TERMINAL for row in rows):
                return rows
            if time.monotonic() > deadline:
                return rows
            time.sleep(0.5)  # between two looks
