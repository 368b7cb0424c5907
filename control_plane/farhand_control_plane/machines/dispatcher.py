"""From the queue to the machine: claims, offers and cancels for the links that are here.

One look at a machine's queue runs at a time; who wants another meanwhile only leaves a mark.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from psycopg.errors import DeadlockDetected

from farhand_control_plane.db import attempts, claims, open_attempts, waiting
from farhand_control_plane.db.claims import Claimed
from farhand_control_plane.db.command_end import announce
from farhand_control_plane.db.listen import COMMANDS, Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.machines.attempt_run import AttemptRun
from farhand_control_plane.machines.hub import Hub
from farhand_control_plane.machines.machine_link import MachineLink
from farhand_control_plane.machines.news import AttemptNews
from farhand_shared.command import AttemptState
from farhand_shared.errors import Unavailable
from farhand_shared.ids import AttemptId, MachineId
from farhand_shared.reconcile import (
    Indeterminate,
    Outcome,
    Reoffer,
    SendGone,
    reconcile,
)

_log = logging.getLogger(__name__)

RETRY_S: Final = 1.0  # after the database was away


class Dispatcher:
    """Brings work to the machines of this replica's links."""

    def __init__(self, database: Database, listener: Listener, hub: Hub, news: AttemptNews) -> None:
        self._database = database
        self._hub = hub
        self._news = news
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsubscribe = listener.subscribe(COMMANDS, self._on_notification)
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        self._unsubscribe()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_notification(self, payload: str) -> None:
        """Something is queued or to be stopped there; ``""``: anything may be, anywhere."""
        machine_id, _, attempt_id = payload.partition(" ")
        if not machine_id:
            for link in self._hub.links():
                self.kick(link)
        elif (link_ := self._hub.link(MachineId(machine_id))) is not None:
            if attempt_id and link_.leftovers is not None:
                link_.leftovers.add(AttemptId(attempt_id))
            self.kick(link_)

    async def look_everywhere(self) -> None:
        """Look at every queue that is not empty: the net under lost notifications."""
        held = self._hub.held()
        if not held:
            return
        async with self._database.autocommit() as connection:
            with_work = await waiting.machines_with_work(connection, held)
        for machine_id in with_work:
            if (link := self._hub.link(machine_id)) is not None:
                self.kick(link)

    def kick(self, link: MachineLink) -> None:
        """Look at a machine's queue now, or again after the look that is under way."""
        if self._closed or not link.is_open:
            return
        link.look_again = True
        if not link.dispatching:
            link.dispatching = True
            task = asyncio.create_task(self._look(link), name=f"dispatch-{link.name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _look(self, link: MachineLink) -> None:
        try:
            while link.look_again and link.is_open:
                link.look_again = False
                try:
                    if await self._end_what_is_to_end(link):
                        await self._claim_all(link)
                    else:
                        link.has_backlog = False
                except (Unavailable, DeadlockDetected) as error:
                    _log.warning("cannot look at the queue of %s: %s", link.name, error)
                    await asyncio.sleep(RETRY_S)  # back-off
                    link.look_again = True
        finally:
            link.dispatching = False

    async def _end_what_is_to_end(self, link: MachineLink) -> bool:
        """Tell the machine what it is to end; return whether something is queued for it."""
        sent = [attempt_id for attempt_id, run in link.runs.items() if run.stop_sent]
        asked, link.leftovers = link.leftovers, set()
        try:
            async with self._database.autocommit() as connection:
                found = await waiting.for_link(
                    connection,
                    link.held,
                    stops_sent=sent,
                    leftovers=None if asked is None else list(asked),
                )
        except BaseException:
            link.leftovers = None  # all of them at the next look
            raise
        for attempt_id, reason in found.stops:
            link.cancel(attempt_id, reason)
        for leftover in found.leftovers:
            link.end_leftover(leftover.attempt_id, leftover.reason, leftover.result_hash)
        return found.queued

    async def _claim_all(self, link: MachineLink) -> None:
        while link.is_open:
            if link.free_slots <= 0:
                link.has_backlog = True
                return
            async with self._database.transaction() as tx:
                claimed = await claims.claim_next(tx, link.held, link.journal)
            if claimed is None:
                link.has_backlog = False
                return
            if isinstance(claimed, Claimed):
                link.offer(claimed.ref, claimed.offer)
                self._news.note(claimed.ref.attempt_id)

    async def reconcile(self, link: MachineLink, server_time_ms: int) -> None:
        """Compare what the machine holds with what is recorded, answer its Hello, offer again.

        Nothing of an older stream can be written any more: the epoch was taken before.
        """
        hello = link.hello
        async with self._database.autocommit() as connection:
            held = await open_attempts.of_machine(
                connection, link.held, [live.attempt_id for live in hello.live]
            )
        runs = {
            attempt.ref.attempt_id: link.hold_run(
                attempt.ref,
                stdout_stored=attempt.view.stdout_stored,
                stderr_stored=attempt.view.stderr_stored,
            )
            for attempt in held
        }
        views = [
            open_attempts.resuming_at(
                attempt.view, *link.resume_offsets(runs[attempt.ref.attempt_id])
            )
            for attempt in held
        ]
        outcomes = reconcile(views, hello)
        unknown = [outcome for outcome in outcomes if isinstance(outcome, Indeterminate)]
        if unknown:
            await self._lose(link, unknown, runs)
        link.session.welcome(
            server_time_ms=server_time_ms,
            stream_epoch=link.held.epoch,
            machine_name=link.name,
            views=views,
            outcomes=outcomes,
        )
        self._keep_live(
            link,
            outcomes,
            recorded={view.attempt_id for view in views if view.result_hash},
            stopping={view.attempt_id for view in views if view.state is AttemptState.STOPPING},
        )
        for outcome in outcomes:
            if isinstance(outcome, Reoffer):
                await self._offer_again(link, outcome)

    async def _lose(
        self,
        link: MachineLink,
        outcomes: Sequence[Indeterminate],
        runs: Mapping[AttemptId, AttemptRun],
    ) -> None:
        """Record that nobody can know what became of these, and tell who waits for them."""
        async with self._database.transaction() as tx:
            lost = [
                await attempts.lose(
                    tx,
                    link.held,
                    link.name,
                    runs[AttemptId(outcome.attempt_id)].ref,
                    outcome.reason,
                )
                for outcome in outcomes
            ]
            await announce(tx, [end for end in lost if end is not None])

    def _keep_live(
        self,
        link: MachineLink,
        outcomes: Sequence[Outcome],
        *,
        recorded: set[str],
        stopping: set[str],
    ) -> None:
        """Drop the runs of attempts that are over, show the others to followers."""
        live = {
            outcome.attempt_id
            for outcome in outcomes
            if not isinstance(outcome, Indeterminate | SendGone)
        } - recorded
        for attempt_id, run in list(link.runs.items()):
            if attempt_id not in live:
                run.close()
                del link.runs[attempt_id]
        for outcome in outcomes:
            run_ = link.runs.get(AttemptId(outcome.attempt_id))
            if run_ is None:
                continue
            # Also of one that has ended there before it could be told: its end frees the key.
            run_.stop_sent = run_.stop_sent or outcome.attempt_id in stopping
            if not isinstance(outcome, Reoffer):
                link.show_run(run_)

    async def _offer_again(self, link: MachineLink, outcome: Reoffer) -> None:
        attempt_id = AttemptId(outcome.attempt_id)
        async with self._database.transaction() as tx:
            claimed = await claims.claim_next(tx, link.held, link.journal, attempt_id=attempt_id)
        if isinstance(claimed, Claimed):
            link.offer(claimed.ref, claimed.offer)
            return
        if claimed is not None:
            # Refused or expired, but the machine may have it after all: a tombstone makes sure.
            self._news.note(attempt_id)
            link.session.cancel(attempt_id, "expired")
        run = link.runs.pop(attempt_id, None)
        if run is not None:
            run.close()
