"""What a soak breaks, one thing after the other, as its seed has it."""

import argparse
import contextlib
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

from tests.simulation.stage import Stage


class Faults:
    """Chooses what breaks next and breaks it."""

    def __init__(
        self,
        stage: Stage,
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
