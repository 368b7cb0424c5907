"""What this replica holds in memory: links by machine, runs by attempt, and who waits for news."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from farhand_control_plane.machines.attempt_run import AttemptRun
from farhand_shared.ids import AttemptId, InstanceId, MachineId

if TYPE_CHECKING:
    from farhand_control_plane.machines.machine_link import MachineLink


class Hub:
    """Which machines are reachable from here; the database says who holds the others."""

    def __init__(self) -> None:
        self._links: dict[MachineId, MachineLink] = {}
        self._runs: dict[AttemptId, tuple[MachineLink, AttemptRun]] = {}
        self._left: dict[AttemptId, tuple[float, AttemptRun]] = {}
        self._by_name: dict[tuple[InstanceId, str], MachineId] = {}  # hints: names change
        self._watchers: dict[AttemptId, set[asyncio.Event]] = {}
        self._empty = asyncio.Event()

    # Links

    def held(self) -> tuple[MachineId, ...]:
        """Return the machines whose link is here."""
        return tuple(self._links)

    def links(self) -> "tuple[MachineLink, ...]":
        return tuple(self._links.values())

    def link(self, machine_id: MachineId) -> "MachineLink | None":
        return self._links.get(machine_id)

    def find(self, instance_id: InstanceId, name_or_id: str) -> "MachineLink | None":
        """Return the link of a machine by id or name, if it is here."""
        link = self._links.get(MachineId(name_or_id))
        if link is not None and link.held.instance_id == instance_id:
            return link
        key = (instance_id, name_or_id)
        link = self._links.get(self._by_name.get(key, MachineId("")))
        if link is not None and link.name == name_or_id:
            return link
        for link in self._links.values():
            if link.name == name_or_id and link.held.instance_id == instance_id:
                self._by_name[key] = link.held.machine_id
                return link
        self._by_name.pop(key, None)
        return None

    def add(self, link: "MachineLink") -> "MachineLink | None":
        """Take a new link in; returns the older one of the same machine."""
        older = self._links.get(link.held.machine_id)
        self._links[link.held.machine_id] = link
        self._empty.clear()
        return older

    def remove(self, link: "MachineLink") -> None:
        """Forget a link, unless a newer one has taken its place."""
        if self._links.get(link.held.machine_id) is link:
            del self._links[link.held.machine_id]
        if not self._links:
            self._empty.set()

    async def until_empty(self) -> None:
        """Return when no link is here any more."""
        if self._links:
            await self._empty.wait()

    # Runs

    def run(self, attempt_id: AttemptId) -> "tuple[MachineLink, AttemptRun] | None":
        """Return the attempt's run and its link, if it runs on a machine whose link is here."""
        return self._runs.get(attempt_id)

    def add_run(self, link: "MachineLink", run: AttemptRun) -> None:
        self._runs[run.ref.attempt_id] = (link, run)
        self.tell(run.ref.attempt_id)

    def remove_run(self, run: AttemptRun) -> None:
        """Forget a run, unless a newer link has its own."""
        known = self._runs.get(run.ref.attempt_id)
        if known is not None and known[1] is run:
            del self._runs[run.ref.attempt_id]

    def leave_run(self, run: AttemptRun, now: float) -> None:
        """Keep a run whose link went away: the machine's next link here may inherit its tail."""
        known = self._runs.get(run.ref.attempt_id)
        if known is not None and known[1] is run:
            del self._runs[run.ref.attempt_id]
            self._left[run.ref.attempt_id] = (now, run)

    def take_left(self, attempt_id: AttemptId) -> AttemptRun | None:
        """Return and forget the run that an older link of this replica left."""
        left = self._left.pop(attempt_id, None)
        return None if left is None else left[1]

    def forget_left(self, before: float) -> None:
        """Close runs that were left before this moment and never inherited."""
        for attempt_id, (at, run) in list(self._left.items()):
            if at < before:
                run.close()
                del self._left[attempt_id]

    # News of attempts, for followers

    @contextmanager
    def watch(self, attempt_id: AttemptId) -> Iterator[asyncio.Event]:
        """Give an event that is set whenever there may be news of the attempt."""
        news = asyncio.Event()
        self._watchers.setdefault(attempt_id, set()).add(news)
        try:
            yield news
        finally:
            watchers = self._watchers[attempt_id]
            watchers.discard(news)
            if not watchers:
                del self._watchers[attempt_id]

    def tell(self, attempt_id: str) -> None:
        """Wake the followers of an attempt; of all of them for ``""`` (notifications were lost)."""
        if attempt_id:
            for news in self._watchers.get(AttemptId(attempt_id), ()):
                news.set()
            return
        for watchers in self._watchers.values():
            for news in watchers:
                news.set()
