#!/usr/bin/env python3
"""Break everything again and again while commands run, and look whether one is lost or run twice.

    .venv/bin/python scripts/soak.py [--seed N] [--minutes M] [--commands K] [--clients C]

Real Postgres, replica, daemon and `farhand exec` clients of their own; nothing of yours is touched.
Each command appends its id to a file, writes some output and ends with some code. Meanwhile the
daemon, the supervisors' parent, the replica and Postgres are killed (kill -9), the daemon sleeps,
the replica is drained, the database's clock jumps, some clients give up, the machine's disk fills
up (as root: it gets a small one of its own), and its link is cut, frozen, refused, slowed and
delayed. At the end everything is mended, and:

- every command is in a terminal state
- no id is twice in the file; none is there whose command is said not to have run
- none that is said to have ended is missing from it
- what clients, the machine's hashes and the store have of each output is the same

The seed decides the faults and the commands, not the scheduling: a failure may need more than one
run to come again. Exit status 1 and the ids say what did not hold. Linux only.
"""

import argparse
import contextlib
import hashlib
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.simulation.stage import Stage

ROOT: Final = Path(__file__).resolve().parent.parent
SETTLE_S: Final = 240.0  # after the last fault; leases of 90 s end in that time
MEND_EVERY_S: Final = 0.3
MACHINE_PLACES: Final = 8
GAVE_UP: Final = 130
NOBODY_THERE: Final = "Connection refused"
OUR_FAILURE: Final = 125  # `farhand exec` has no result to tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One command: what it is to write and how it is to end."""

    id: str
    script: str
    stdout: bytes
    status: int
    gives_up_after_s: float | None = None  # then its client gets Ctrl-C; None: it waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a client was told."""

    status: int
    stdout: bytes
    stderr: str


@dataclass(slots=True)
class Report:
    """What is known at the end; `wrong` is empty if all held."""

    counts: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)


def work(seed: int, number: int, record: Path) -> Work:
    """Return the command of this number: short or long, quiet or with much to say."""
    chance = random.Random(f"{seed}/{number}")
    name = f"soak-{seed}-{number:06d}"
    lines, status = chance.choice([0, 1, 10, 200, 20_000]), chance.choice([0, 0, 0, 1, 7])
    pauses = [chance.choice([0.0, 0.0, 0.2, 1.0, 4.0]) for _ in range(2)]
    script = (
        f": {name}; echo {name} >> '{record}'; sleep {pauses[0]}; "
        f"seq -f '{name} %.0f' 1 {lines}; sleep {pauses[1]}; echo end; exit {status}"
    )
    stdout = "".join(f"{name} {line}\n" for line in range(1, lines + 1)) + "end\n"
    return Work(
        id=name,
        script=script,
        stdout=stdout.encode(),
        status=status,
        gives_up_after_s=chance.choice([0.2, 0.5, 1.0, 3.0]) if chance.random() < 0.08 else None,
    )


class Faults:
    """Chooses what breaks next and breaks it."""

    def __init__(
        self,
        stage: "Stage",
        options: argparse.Namespace,
        lock: threading.Lock,
        over: threading.Event,
    ) -> None:
        self._stage = stage
        self._chance = random.Random(f"{options.seed}/faults")
        self._longest_s = options.minutes * 60 / 6  # a short run is not one long fault
        self._lock = lock
        self._over = over
        self.counts: Counter[str] = Counter()
        link = stage.link
        self._kinds: dict[str, tuple[int, Callable[[], object]]] = {
            "link cut": (4, link.cut),
            "link frozen": (2, lambda: self._for_a_while(link.freeze, 0.5, 12)),
            "link frozen long": (1, lambda: self._for_a_while(link.freeze, 26, 40)),
            "link refused": (2, lambda: self._for_a_while(self._cut_and_refuse, 0.5, 8)),
            "link delayed": (2, lambda: self._for_a_while(lambda: link.delay(0.3), 1, 8)),
            "link throttled": (2, lambda: self._for_a_while(lambda: link.throttle(1e5), 1, 8)),
            "daemon killed": (4, lambda: self._locked(stage.kill_daemon)),
            "supervisors' parent killed": (3, lambda: self._locked(stage.kill_fork_server)),
            "replica killed": (3, lambda: self._locked(stage.kill_replica)),
            "database killed": (2, lambda: self._locked(self._kill_database)),
            "replica drained": (2, lambda: self._locked(self._drain_replica)),
            "daemon asleep": (2, lambda: self._locked(self._daemon_sleeps)),
            "clock jumped": (2, self._clock_jumps),
            "daemon and replica killed": (1, lambda: self._locked(self._kill_both)),
        }

        if stage.has_own_disk:
            self._kinds["disk low"] = (1, lambda: self._disk(left_bytes=100 << 20))
            self._kinds["disk full"] = (2, lambda: self._disk(left_bytes=0))

    def run(self) -> None:
        """Break things until it is over, with pauses in which something gets done."""
        names = list(self._kinds)
        weights = [self._kinds[name][0] for name in names]
        while not self._over.wait(self._chance.uniform(0.5, 6)):
            (name,) = self._chance.choices(names, weights)
            self.counts[name] += 1
            print(f"{time.strftime('%T')} {name}", file=sys.stderr, flush=True)
            self._kinds[name][1]()

    def _wait(self, seconds: float) -> None:
        self._over.wait(min(seconds, self._longest_s))

    def _for_a_while(self, begin: Callable[[], object], least_s: float, most_s: float) -> None:
        begin()
        self._wait(self._chance.uniform(least_s, most_s))
        self._stage.link.heal()

    def _cut_and_refuse(self) -> None:
        self._stage.link.refuse()
        self._stage.link.cut()

    def _locked(self, kill: Callable[[], object]) -> None:
        with self._lock:
            kill()

    def _kill_database(self) -> None:
        if self._stage.postgres.is_running():
            self._stage.kill_database()

    def _drain_replica(self) -> None:
        assert self._stage.replica is not None, "it was started"
        self._stage.replica.terminate()
        self._stage.replica.wait()

    def _daemon_sleeps(self) -> None:
        assert self._stage.daemon is not None, "it was started"
        self._stage.daemon.send_signal(signal.SIGSTOP)
        self._wait(self._chance.choice([2.0, 8.0, 30.0]))
        self._stage.daemon.send_signal(signal.SIGCONT)

    def _clock_jumps(self) -> None:
        """The database's clock, which all leases and limits go by, is set."""
        seconds = self._chance.choice([-300, -60, 60, 120, 600])
        with contextlib.suppress(*self._stage.database_errors):
            self._stage.sql(
                "update schema_record set clock_shift_ms = clock_shift_ms + %s returning one",
                seconds * 1000,
            )

    def _disk(self, left_bytes: int) -> None:
        self._stage.fill_disk(left_bytes)
        self._wait(self._chance.uniform(1, 6))
        self._stage.empty_disk()

    def _kill_both(self) -> None:
        self._stage.kill_daemon()
        self._stage.kill_replica()


class Soak:
    """One run."""

    def __init__(self, stage: "Stage", options: argparse.Namespace) -> None:
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
            self._judge(rows, report)
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
        from farhand_shared.command import TERMINAL

        while True:
            rows = self._rows()
            if rows and all(row["state"] in TERMINAL for row in rows):
                return rows
            if time.monotonic() > deadline:
                return rows
            time.sleep(0.5)  # between two looks

    def _judge(self, rows: list[dict[str, Any]], report: Report) -> None:
        from farhand_shared.command import TERMINAL

        ran = Counter(self._record.read_text().split())
        states: Counter[str] = Counter()
        stored: dict[str, dict[str, Any]] = {}
        for row in rows:
            found = re.search(r"soak-\d+-\d{6}", row["title"])
            name = found.group() if found else row["title"]
            states[row["state"]] += 1
            report.check(name not in stored, f"{name}: two commands are on record")
            stored[name] = row
            report.check(row["state"] in TERMINAL, f"{name}: still {row['state']}")
        for name, times in ran.items():
            report.check(times == 1, f"{name}: ran {times} times")
            report.check(name in stored, f"{name}: ran and is not on record")
        outputs = 0
        for name, row in stored.items():
            if row["state"] == "exited":
                outputs += self._judge_exited(name, row, name in ran, report)
            elif name in ran:
                report.check(
                    row["state"] in ("indeterminate", "lost"),
                    f"{name}: ran, and is said to be {row['state']} ({row['error']})",
                )
        for name, said in self._said.items():
            self._judge_client(name, said, stored.get(name), report)
        endings = {OUR_FAILURE: "without a result", GAVE_UP: "gave up", -signal.SIGINT: "gave up"}
        clients = Counter(endings.get(s.status, "told the result") for s in self._said.values())
        report.counts |= {
            "commands": len(self._works),
            "states": dict(states),
            "never stored": len(self._works) - len(stored),
            "ran": len(ran),
            "outputs compared": outputs,
            "clients": dict(clients),
            "clients told of an unreachable machine": sum(
                "unreachable" in said.stderr for said in self._said.values()
            ),
            "why without a result": dict(
                Counter(
                    re.sub(r"[0-9a-f-]{36}|\d+", "#", said.stderr.strip()[-200:])
                    for said in self._said.values()
                    if said.status == OUR_FAILURE
                ).most_common(6)
            ),
            "unknown outcome": {
                name: row["error"] for name, row in stored.items()
                if row["state"] in ("indeterminate", "lost")
            },
            "faults": dict(self.faults.counts),
            "started again": dict(self._mended),
        }  # fmt: skip

    def _judge_exited(self, name: str, row: dict[str, Any], ran: bool, report: Report) -> int:
        """Check a command that is said to have ended; return how many outputs were compared."""
        from farhand_shared.errors import FarhandError
        from farhand_shared.exec_frames import FrameKind

        one = self._works[name]
        told, wrote = row["result"]["stdout"], one.stdout
        if one.gives_up_after_s is not None and row["reason"] == "cancel":
            wrote = wrote[: told["produced"]]  # as far as it came
        else:
            report.check(ran, f"{name}: is said to have ended and did not run")
            report.check(
                (row["reason"], row["exit_code"]) == ("exit", one.status),
                f"{name}: ended with {row['reason']} {row['exit_code']}, not {one.status}",
            )
        wanted = hashlib.sha256(wrote).hexdigest()
        report.check(
            (told["sha256"], told["omitted"]) == (wanted, 0),
            f"{name}: the machine says {told}, it wrote {len(wrote)} bytes, {wanted}",
        )
        try:
            frames = self._stage.frames("GET", f"/v1/attempts/{row['attempt_id']}/output")
        except FarhandError as error:
            report.check(False, f"{name}: its output cannot be read: {error}")
            return 0
        kept = b"".join(frame.payload for frame in frames if frame.kind is FrameKind.STDOUT)
        report.check(kept == wrote, f"{name}: {len(kept)} of {len(wrote)} bytes stored")
        return 1

    def _judge_client(
        self, name: str, said: Said, row: dict[str, Any] | None, report: Report
    ) -> None:
        one = self._works[name]
        whole = (said.status, said.stdout) == (one.status, one.stdout)
        # Who gave up may have done so before the program could take the signal, or too late.
        if said.status == OUR_FAILURE or (one.gives_up_after_s is not None and not whole):
            report.check(
                one.stdout.startswith(said.stdout),
                f"{name}: its client got bytes that it did not write",
            )
            return
        report.check(
            row is not None and row["state"] == "exited",
            f"{name}: its client was told {said.status}, on record is {row and row['state']}",
        )
        report.check(
            whole,
            f"{name}: its client got {said.status} and {len(said.stdout)} bytes, "
            f"not {one.status} and {len(one.stdout)}",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak and print the report; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--commands", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=12, help="commands in flight at once")
    options = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):  # either way nothing is left behind
        signal.signal(number, signal.default_int_handler)
    sys.path.insert(0, str(ROOT))  # its stage is the tests'
    from tests.simulation.stage import stage

    with stage(concurrency=MACHINE_PLACES) as made:
        soak = Soak(made, options)
        report = soak.run()
        if report.wrong:
            print(made.logs(), file=sys.stderr)
    print(json.dumps({"seed": options.seed, **report.counts, "wrong": report.wrong}, indent=1))
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
