"""The Hello of each stream: who this daemon is, and what the machine file says at that moment."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from farhand_daemon.facts import gather_facts
from farhand_daemon.machine_file import Ceiling, MachineFile
from farhand_shared.errors import InvalidInput
from farhand_shared.ids import new_id
from farhand_shared.labels import parse_labels
from farhand_shared.link_events import Facts, Hello, Survey
from farhand_shared.version import CAPABILITY, __version__

# Said of a file that cannot be used: then nothing may run.
_CLOSED = MachineFile(trust_level="off")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalMark:
    """Which journal this is and how many entries it ever had."""

    journal_id: str
    counter: int


class Greeting:
    """Makes the Hello and notices when what it said is no longer true."""

    def __init__(
        self,
        ceiling: Ceiling,
        *,
        boot_id: str,
        survey: Callable[[], Survey | None] = lambda: None,  # the newest worth telling
        update_problem: Callable[[], str] = str,  # which version failed here, and why
    ) -> None:
        self._ceiling = ceiling
        self._survey = survey
        self._update_problem = update_problem
        self._problem_told = ""
        self._surveyed: Survey | None = None  # what the last Hello told
        self._boot_id = boot_id
        self._instance_id = new_id()  # one per start of the daemon: tells a restart from a clone
        self._facts: Facts | None = None
        self._said: MachineFile | None = None

    def hello(self, mark: JournalMark) -> Hello:
        """Return the Hello of a new stream; the link fills in the live attempts."""
        if self._facts is None:
            self._facts = gather_facts()
        machine = self._said = self._machine()
        self._surveyed = self._survey()
        self._problem_told = self._update_problem()
        return Hello(
            daemon_instance_id=self._instance_id,
            boot_id=self._boot_id,
            journal_id=mark.journal_id,
            journal_counter=mark.counter,
            local_time_ms=time.time_ns() // 1_000_000,
            capability=CAPABILITY,
            daemon_version=__version__,
            trust_level=machine.trust_level,
            chosen_by=machine.chosen_by,
            allow_inferred=machine.allow_inferred,
            concurrency=machine.concurrency,
            facts=replace(
                self._facts,
                labels=tuple(parse_labels(machine.labels).items()),
                survey=self._surveyed,
                update_problem=self._problem_told,
            ),
        )

    def is_stale(self) -> bool:
        """Tell whether the machine file, or what became of an update, says something else than
        the last Hello did."""
        if self._said is None:
            return False
        return self._machine() != self._said or self._update_problem() != self._problem_told

    def has_news(self) -> bool:
        """Tell whether there is a survey that the last Hello did not tell."""
        return self._said is not None and self._survey() != self._surveyed

    def _machine(self) -> MachineFile:
        try:
            return self._ceiling.current()
        except InvalidInput:
            return _CLOSED
