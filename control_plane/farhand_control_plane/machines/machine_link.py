"""The link of one machine as its replica holds it: the session, its runs, its slots."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from farhand_control_plane.db.attempts import CommandRef
from farhand_control_plane.db.claims import Journal
from farhand_control_plane.db.links import HeldLink
from farhand_control_plane.machines.attempt_run import AttemptRun
from farhand_control_plane.machines.hub import Hub
from farhand_control_plane.machines.limits import OutputLimits
from farhand_shared.command import AttemptState
from farhand_shared.ids import AttemptId, MemberId
from farhand_shared.limits import CONCURRENCY_DEFAULT
from farhand_shared.link_events import Bye, Hello, Offer, Stream
from farhand_shared.link_replica import ReplicaLink

_log = logging.getLogger(__name__)

GOING_AWAY = Bye(code="going_away", message="the control plane is stopping", retry=True)
SUPERSEDED = Bye(code="superseded", message="a newer stream of this machine is open", retry=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What admission decided: which machine, under which epoch."""

    held: HeldLink
    name: str
    owner_member_id: MemberId


class MachineLink:
    """One accepted stream. Lives until the stream ends; only the newest of a machine is in the hub.

    ``kick`` asks the dispatcher for another look at the machine's queue.
    """

    def __init__(
        self,
        holding: Holding,
        session: ReplicaLink,
        hello: Hello,
        *,
        hub: Hub,
        limits: OutputLimits,
        kick: "Callable[[MachineLink], None]",
    ) -> None:
        self.held = holding.held
        self.name = holding.name
        self.owner_member_id = holding.owner_member_id
        self.session = session
        self.hello = hello
        self.journal = Journal(journal_id=hello.journal_id, counter=hello.journal_counter)
        self.concurrency = hello.concurrency or CONCURRENCY_DEFAULT
        self.runs: dict[AttemptId, AttemptRun] = {}
        self.is_open = True
        self.has_backlog = False  # a look at the queue ended for want of a slot
        # Over provisionally, and perhaps wanted ended; None: all that the machine ever had.
        self.leftovers: set[AttemptId] | None = None
        self.dispatching = False
        self.look_again = False
        self.renew_when_heard = False
        self.output_due = asyncio.Event()  # the writer has something to send, or is to end
        self._hub = hub
        self._limits = limits
        self._kick = kick
        self._reserved = 0
        self._ending = False

    # Slots

    @property
    def free_slots(self) -> int:
        """How many more commands may be offered now."""
        running = sum(run.result is None for run in self.runs.values())
        return self.concurrency - running - self._reserved

    def reserve(self) -> bool:
        """Take a slot for a direct start, unless older work waits for one or none is free."""
        if self._ending or self.has_backlog or self.free_slots <= 0:
            return False
        self._reserved += 1
        return True

    def unreserve(self) -> None:
        self._reserved -= 1

    # Runs

    def hold_run(
        self, ref: CommandRef, *, stdout_stored: int = 0, stderr_stored: int = 0
    ) -> AttemptRun:
        """Begin to follow an attempt that the machine holds or is about to be offered."""
        left = self._hub.take_left(ref.attempt_id)
        run = AttemptRun(
            ref,
            limits=self._limits,
            stdout_stored=stdout_stored,
            stderr_stored=stderr_stored,
            inherits=left,
        )
        if left is not None:
            left.close()
        self.runs[ref.attempt_id] = run
        return run

    def show_run(self, run: AttemptRun) -> None:
        """Let followers find a run."""
        self._hub.add_run(self, run)

    def offer(self, ref: CommandRef, offer: Offer) -> AttemptRun:
        """Send a committed offer."""
        run = self.runs.get(ref.attempt_id) or self.hold_run(ref)
        self.show_run(run)
        self.session.offer(offer)
        self.output_due.set()
        return run

    def cancel(self, attempt_id: AttemptId, reason: str) -> None:
        """Tell the machine to stop an attempt, once per stream."""
        run = self.runs.get(attempt_id)
        if run is None or run.stop_sent:
            return
        run.stop_sent = True
        self.session.cancel(attempt_id, reason)
        self.output_due.set()

    def end_leftover(self, attempt_id: AttemptId, reason: str, result_hash: bytes | None) -> None:
        """Ask the machine to end what an attempt that is over provisionally may have left there.

        Of an attempt that the machine neither holds nor has told the end of it knows nothing: it
        would answer that it never ran, which nobody can know.
        """
        if result_hash is not None:
            self.session.cancel_recorded(attempt_id, result_hash, reason)
            self.output_due.set()
        else:
            self.cancel(attempt_id, reason)

    def acknowledge(self, run: AttemptRun) -> None:
        """Send the acknowledgements that storing or reading has made possible."""
        if run.detached:
            return
        for stream, offset in run.acknowledge():
            self.session.stored(run.ref.attempt_id, stream, offset)
        if self.session.has_frame:
            self.output_due.set()

    def recorded(self, run: AttemptRun, result_hash: bytes, state: AttemptState) -> None:
        """Finish a run whose end is committed: acknowledge, tell readers, free the place."""
        self.session.recorded(run.ref.attempt_id, result_hash)
        self.output_due.set()
        run.commit(state)
        self.runs.pop(run.ref.attempt_id, None)
        self._hub.remove_run(run)
        self.slot_freed(stopped=run.stop_sent)

    def slot_freed(self, *, stopped: bool = False) -> None:
        """Look at the queue again if something may wait there (also for a superseded one)."""
        if self.has_backlog or stopped:
            self._kick(self)

    # Ending

    def close(self, bye: Bye) -> None:
        """End the stream on purpose: the goodbye is the last frame."""
        if self._ending:
            return
        self._ending = True
        self.session.bye(bye)
        self.is_open = False
        self.output_due.set()

    def close_superseded(self) -> None:
        self.close(SUPERSEDED)

    def fail(self, message: str) -> None:
        """End the stream because of a fault of ours; the machine dials again."""
        self.close(Bye(code="protocol", message=message, retry=True))

    def cancel_all(self, reason: str) -> None:
        for attempt_id in list(self.runs):
            self.cancel(attempt_id, reason)

    def leave(self) -> None:
        """Let go of everything: the stream is over. Idempotent."""
        self._ending = True
        self.is_open = False
        self.output_due.set()
        self._hub.remove(self)
        now = time.monotonic()
        for run in self.runs.values():
            if run.timer is not None:
                run.timer.cancel()
                run.timer = None
            run.detached = True
            self._hub.leave_run(run, now)
            run.tell()
            self._hub.tell(run.ref.attempt_id)

    def resume_offsets(self, run: AttemptRun) -> tuple[int, int]:
        return run.resume_offset(Stream.STDOUT), run.resume_offset(Stream.STDERR)
