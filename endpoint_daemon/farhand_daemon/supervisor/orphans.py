"""Commands whose supervisor was killed and whose process lives on: remembered, watched, ended.

One small file per process survives the daemon, and the receipt of the result. It goes when the
process is over and the server has the result; until then the result says the same of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from farhand_daemon import process_identity
from farhand_daemon.process_identity import LINUX
from farhand_daemon.supervisor.cgroup import Group, Hierarchy
from farhand_daemon.supervisor.orphan_tree import OrphanTree
from farhand_daemon.supervisor.records import Started, SupervisorLoss, started_from
from farhand_shared.limits import GRACE_MS

ORPHANS_FOLDER = "orphans"
_SUFFIX = ".json"
_LOOK_S = 3.0  # between two looks at a process that no descriptor tells of
_SWEEP_S, _SWEEP_MAX_S = 0.01, 2.0  # between two sweeps of a process that is being ended


class _Orphan:
    """One process, its watch and its end. `lives` turns False once and stays so."""

    __slots__ = ("descriptor", "ending", "lives", "released", "started", "stop", "timer")

    def __init__(self, started: Started, *, stop: bool = False) -> None:
        self.started = started
        self.stop = stop  # somebody wants it ended
        self.lives = True
        self.released = False  # the server has the result
        self.descriptor: int | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.ending: asyncio.Task[None] | None = None


class Orphans:
    """All of one `state_dir`; on one event loop. `on_end` is called when one of them is over."""

    def __init__(
        self,
        folder: Path,
        loop: asyncio.AbstractEventLoop,
        *,
        hierarchies: list[Hierarchy] | None = None,
        grace_s: float = GRACE_MS / 1000,
    ) -> None:
        """`hierarchies`: where the control groups of commands are."""
        self.on_end: Callable[[], None] = lambda: None
        self._folder, self._loop, self._grace_s = folder, loop, grace_s
        self._hierarchies = hierarchies or []
        self._orphans: dict[str, _Orphan] = {}

    def open(self) -> None:
        """Take over what earlier daemons watched; what was being ended goes on being ended."""
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._folder):
                if name.endswith(_SUFFIX):
                    self._take_over(name.removesuffix(_SUFFIX))

    @property
    def living(self) -> list[str]:
        """The attempts whose process lives."""
        return [attempt_id for attempt_id, orphan in self._orphans.items() if orphan.lives]

    @property
    def ending(self) -> bool:
        """Whether one of them is being ended."""
        return any(orphan.lives and orphan.stop for orphan in self._orphans.values())

    def keep(self, attempt_id: str, loss: SupervisorLoss) -> SupervisorLoss:
        """Watch the process of a loss if it lives; give the loss as it was first noticed."""
        if attempt_id in self._orphans:
            return replace(loss, still_running=True)
        if loss.started is not None and loss.still_running:
            orphan = self._orphans[attempt_id] = _Orphan(loss.started)
            self._write(attempt_id, orphan)
            self._watch(attempt_id, orphan)
        return loss

    def end(self, attempt_id: str) -> None:
        """TERM, the grace period, KILL again and again until nothing is left. Unknown ids: no."""
        orphan = self._orphans.get(attempt_id)
        if orphan is None or not orphan.lives or orphan.ending is not None:
            return
        if not orphan.stop:
            orphan.stop = True
            self._write(attempt_id, orphan)
        orphan.ending = self._loop.create_task(self._end(attempt_id, orphan), name="end-orphan")

    def release(self, attempt_id: str) -> None:
        """The server has the result: the process alone is what there is to remember."""
        orphan = self._orphans.get(attempt_id)
        if orphan is not None:
            orphan.released = True
            self._drop_if_over(attempt_id, orphan)

    def release_all_but(self, live: set[str]) -> None:
        """Release all whose result the server has; `live` are the attempts without a receipt."""
        for attempt_id in set(self._orphans) - live:
            self.release(attempt_id)

    async def close(self) -> None:
        """Stop watching; the processes go on, and the next `open` finds them."""
        tasks = []
        for orphan in self._orphans.values():
            self._unwatch(orphan)
            if orphan.ending is not None:
                orphan.ending.cancel()
                tasks.append(orphan.ending)
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- watching ----------------------------------------------------------------------------------

    def _take_over(self, attempt_id: str) -> None:
        try:
            document = json.loads(self._file(attempt_id).read_bytes())
            orphan = _Orphan(started_from(document), stop=bool(document["stop"]))
        except (OSError, ValueError, KeyError, TypeError):  # cut by a crash: nothing to prove it by
            self._file(attempt_id).unlink(missing_ok=True)
            return
        self._orphans[attempt_id] = orphan
        self._watch(attempt_id, orphan)
        if orphan.stop:
            self.end(attempt_id)

    def _watch(self, attempt_id: str, orphan: _Orphan) -> None:
        """Notice the end of the process: by its descriptor, or by looking."""
        if LINUX:
            with contextlib.suppress(OSError):  # gone, or a kernel before 5.3
                orphan.descriptor = os.pidfd_open(orphan.started.pid)
                self._loop.add_reader(orphan.descriptor, self._look, attempt_id, orphan)
        self._look(attempt_id, orphan)  # only now: the descriptor may be another process's

    def _look(self, attempt_id: str, orphan: _Orphan) -> None:
        if not _is_alive(orphan.started):
            self._unwatch(orphan)
            if orphan.ending is None:  # else what it has left is still being ended
                self._over(attempt_id, orphan)
        elif orphan.descriptor is None:
            orphan.timer = self._loop.call_later(_LOOK_S, self._look, attempt_id, orphan)

    def _unwatch(self, orphan: _Orphan) -> None:
        if orphan.descriptor is not None:
            self._loop.remove_reader(orphan.descriptor)
            os.close(orphan.descriptor)
            orphan.descriptor = None
        if orphan.timer is not None:
            orphan.timer.cancel()
            orphan.timer = None

    async def _end(self, attempt_id: str, orphan: _Orphan) -> None:
        # Each sweep reads all of /proc: in a thread, and more seldom with time.
        tree = OrphanTree(orphan.started, self._group_of(orphan.started))
        kill_at = self._loop.time() + self._grace_s
        await asyncio.to_thread(tree.signal, signal.SIGTERM)
        await asyncio.to_thread(tree.signal, signal.SIGCONT)  # a stopped one cannot act on TERM
        pause = _SWEEP_S
        while True:
            if self._loop.time() >= kill_at:
                living = await asyncio.to_thread(tree.signal, signal.SIGKILL)
            else:
                living = await asyncio.to_thread(tree.count)
            if not living:
                break
            await asyncio.sleep(pause)  # nothing tells when the last of a tree ends
            most = _SWEEP_MAX_S if self._loop.time() >= kill_at else 0.2
            pause = min(pause * 1.5, most)
        self._unwatch(orphan)
        self._over(attempt_id, orphan)

    def _group_of(self, started: Started) -> Group | None:
        named = started.group and self._hierarchies
        return Group(started.group, self._hierarchies) if named else None

    def _over(self, attempt_id: str, orphan: _Orphan) -> None:
        orphan.lives = False
        group = self._group_of(orphan.started)
        if group is not None:
            group.remove()
        self._drop_if_over(attempt_id, orphan)
        self.on_end()

    def _drop_if_over(self, attempt_id: str, orphan: _Orphan) -> None:
        if orphan.released and not orphan.lives:
            del self._orphans[attempt_id]
            self._file(attempt_id).unlink(missing_ok=True)

    # -- files -------------------------------------------------------------------------------------

    def _file(self, attempt_id: str) -> Path:
        return self._folder / (attempt_id + _SUFFIX)

    def _write(self, attempt_id: str, orphan: _Orphan) -> None:
        """Put it where the next daemon finds it. A disk that takes it not: until we end, then."""
        started = orphan.started
        document = {name: getattr(started, name) for name in Started.__slots__}
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            new = self._file(attempt_id).with_suffix(".new")
            new.write_text(json.dumps(document | {"stop": orphan.stop}), encoding="ascii")
            new.replace(self._file(attempt_id))


def _is_alive(started: Started) -> bool:
    return process_identity.is_alive(started.pid, started.start_time, started.boot_id)
