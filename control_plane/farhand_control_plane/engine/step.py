"""One claim of one session, from the first look to the release.

Each turn of the loop looks at what the database says and does the one thing that is due: act on
calls, answer waiting calls, write the results, think, or release. All state that matters is in the
database, so a step that dies is continued by whoever looks next, at the same place.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

import psycopg

from farhand_control_plane.db import leases, session_log
from farhand_control_plane.db.connect import is_lost
from farhand_control_plane.db.leases import Claim, FenceLost
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.session_log import StoredCall, StoredItem, StoredMessage
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.engine import due as look_for
from farhand_control_plane.engine import failures
from farhand_control_plane.engine.calls import Calls, inbox_message
from farhand_control_plane.engine.contract import (
    Agent,
    Json,
    LogItem,
    ModelUnavailable,
    SessionRef,
    Thought,
)
from farhand_control_plane.engine.due import Act, Due, Park, Rest, Think, Wait, WriteResults
from farhand_control_plane.engine.fenced import Fenced
from farhand_control_plane.engine.points import Points
from farhand_control_plane.engine.settings import EngineSettings
from farhand_shared.ids import SessionId

_log = logging.getLogger(__name__)


class End(StrEnum):
    """How a claim ended."""

    RELEASED = "released"  # nothing left to do, or waiting for a message or a time
    PUT_BACK = "put_back"  # work is left, somebody will claim it later
    FENCED = "fenced"  # another replica has it, or the session ended
    TOMBSTONED = "tombstoned"
    UNREACHABLE = "unreachable"  # the database went away; the lease is still ours to give back


class Step:
    """Steps a claimed session until it is released. Used once."""

    def __init__(
        self,
        database: Database,
        agent: Agent,
        claim: Claim,
        *,
        settings: EngineSettings,
        points: Points,
        model_failures: dict[SessionId, int],
        stopping: Callable[[], bool],
    ) -> None:
        """``model_failures`` is shared by all steps of a replica: failures in a row by session."""
        self.claim = claim
        self.thinking = False  # a model call may be cut off at any time, nothing is lost
        self._agent = agent
        self._settings = settings
        self._points = points
        self._model_failures = model_failures
        self._stopping = stopping
        self._ref = SessionRef(
            instance_id=claim.instance_id,
            session_id=claim.session_id,
            kind=claim.kind,
            ticket_id=claim.ticket_id,
            generation=claim.generation,
        )
        self._fenced = Fenced(database, claim, points)
        self._calls = Calls(self._fenced, agent, self._ref, settings)
        self._charged = claim.resumes_charged
        self._pending = 0  # messages there were when the batch was taken
        self._next_seq = claim.next_item_seq
        self._log: list[LogItem] = []
        self._log_read = False

    async def run(self) -> End:
        """Step until there is nothing to do, and say how it ended. Raises only when cancelled."""
        try:
            try:
                return await self._run()
            except ModelUnavailable as error:
                await self._wait_for_model(error)
            except FenceLost:
                raise
            except Exception as error:
                if is_lost(error):
                    raise
                await self._charge(error)
            return End.PUT_BACK
        except FenceLost:
            return End.FENCED
        except Exception as error:
            # Also when the failure itself cannot be stored: the lease is given back or lapses.
            if not is_lost(error):
                _log.exception("session %s: a failure could not be stored", self.claim.session_id)
            return End.UNREACHABLE

    async def _run(self) -> End:
        if failures.is_spent(self.claim.kind, self._charged, self._settings):
            await self._tombstone()
            return End.TOMBSTONED
        while not self._stopping():
            if await self._turn():
                return End.RELEASED
        await self._fenced.commit("put_back", lambda tx: leases.put_back(tx, self.claim, in_s=0.0))
        return End.PUT_BACK

    async def _turn(self) -> bool:
        """Do the one thing that is due; True when the session was released."""
        due, read = await self._fenced.read(self._look)
        match due:
            case Act(calls=calls):
                for call in calls:
                    await self._calls.carry_out(call, self._charged)
            case Wait(calls=calls):
                if not await self._calls.answer(calls, results_seq=self._next_seq):
                    return await self._release(waiting=True)
            case WriteResults(calls=calls):
                await self._write_results(calls)
            case Think(batch=batch):
                if not await self._think(batch, read):
                    return await self._release(waiting=False)
            case Park(message=message):
                await self._park(message)
            case Rest():
                return await self._release(waiting=False)
        return False

    async def _look(self, tx: Tx) -> tuple[Due, Json | None]:
        """Return what is due and, for a batch, what the agent reads in it."""
        if not self._log_read:
            stored = await session_log.items(tx, self.claim)
            self._log = [
                LogItem(item_seq=i.item_seq, kind=i.kind, payload=i.payload) for i in stored
            ]
            self._log_read = True
        due = await look_for.look(tx, self.claim, self._log, self._charged, self._settings)
        if not isinstance(due, Think) or not due.batch:
            return due, None
        self._pending = due.pending
        messages = [inbox_message(message) for message in due.batch]
        return due, await self._agent.read(tx, self._ref, messages)

    # ── what is done ────────────────────────────────────────────────────────────────────────────

    async def _think(self, batch: Sequence[StoredMessage], read: Json | None) -> bool:
        """Make one model call and store what came of it; True when it made calls."""
        new: list[LogItem] = []
        if read is not None:
            new.append(LogItem(item_seq=self._next_seq, kind="input", payload=read))
        self.thinking = True
        try:
            thought = await self._agent.think(self._ref, [*self._log, *new])
        finally:
            self.thinking = False
        self._points("thought")
        seq = self._next_seq + len(new)
        new.append(LogItem(item_seq=seq, kind="assistant", payload=thought.payload))
        await self._fenced.commit(
            "think", lambda tx: self._store_thought(tx, new, batch, thought), locked=True
        )
        self._went_well(new)
        return bool(thought.calls)

    async def _store_thought(
        self,
        tx: Tx,
        new: Sequence[LogItem],
        batch: Sequence[StoredMessage],
        thought: Thought,
    ) -> None:
        for item in new:
            await session_log.add_item(tx, self.claim, _stored(item))
        if batch:
            seqs = [message.seq for message in batch]
            await session_log.consume(tx, self.claim, seqs, by_seq=new[0].item_seq)
        calls = [
            session_log.NewCall(
                call_index=call.call_index,
                call_id=call.call_id,
                name=call.name,
                arguments=call.arguments,
            )
            for call in thought.calls
        ]
        await session_log.intend(tx, self.claim, new[-1].item_seq, calls)
        if thought.usage is not None:
            used = session_log.ModelCall(
                model=thought.usage.model,
                prompt_tokens=thought.usage.prompt_tokens,
                cached_tokens=thought.usage.cached_tokens,
                output_tokens=thought.usage.output_tokens,
                price_micros=thought.usage.price_micros,
            )
            await session_log.record_usage(tx, self.claim, used)
        await leases.progressed(tx, self.claim, next_item_seq=new[-1].item_seq + 1)

    async def _write_results(self, calls: Sequence[StoredCall]) -> None:
        results = [{"call_id": call.call_id, "content": call.result or ""} for call in calls]
        item = LogItem(item_seq=self._next_seq, kind="tool_results", payload={"results": results})

        async def store(tx: Tx) -> None:
            await session_log.add_item(tx, self.claim, _stored(item))
            await leases.progressed(tx, self.claim, next_item_seq=item.item_seq + 1)

        await self._fenced.commit("results", store, locked=True)
        self._went_well([item])

    async def _release(self, *, waiting: bool) -> bool:
        """Give the session back unless a message has arrived; the lock keeps new ones out."""
        last = look_for.newest(self._log)
        finished = not waiting and last is not None and last.kind == "assistant"

        async def give_back(tx: Tx) -> bool:
            if await session_log.has_waking(tx, self.claim):
                return False
            if finished:
                await self._agent.settle(tx, self._ref, self._log)
                if await session_log.has_waking(tx, self.claim):  # settle may write to itself
                    return False
            await leases.release(tx, self.claim, wake=waiting)
            return True

        return await self._fenced.commit("release", give_back, locked=True)

    def _went_well(self, new: Sequence[LogItem]) -> None:
        self._log.extend(new)
        self._next_seq = new[-1].item_seq + 1
        self._charged = 0
        self._model_failures.pop(self.claim.session_id, None)

    # ── what goes wrong ─────────────────────────────────────────────────────────────────────────

    async def _wait_for_model(self, error: ModelUnavailable) -> None:
        failed = self._model_failures.get(self.claim.session_id, 0) + 1
        self._model_failures[self.claim.session_id] = failed
        in_s = failures.model_retry_in_s(error.retry_after_s, failed, self._settings)
        reason = _plain(f"the model does not answer: {error}")
        _log.warning("session %s: %s", self.claim.session_id, reason)

        async def store(tx: Tx) -> None:
            await leases.put_back(tx, self.claim, in_s=in_s, error=reason)
            if failed == 1:
                await self._fenced.tell(tx, "model_unavailable", {"reason": reason})

        await self._fenced.commit("put_back", store)

    async def _charge(self, error: Exception) -> None:
        _log.error("session %s: a step failed", self.claim.session_id, exc_info=error)
        kind = self.claim.kind
        in_s = failures.retry_in_s(kind, self._pending, self._charged + 1, self._settings)
        reason = _plain(f"{type(error).__name__}: {error}")
        await self._fenced.commit(
            "put_back",
            lambda tx: leases.put_back(tx, self.claim, in_s=in_s, error=reason, charged=True),
        )

    async def _park(self, message: StoredMessage) -> None:
        """Set the oldest message aside, so that the others go on."""
        _log.error("session %s: message %s is set aside", self.claim.session_id, message.seq)

        reason = self.claim.error or ""

        async def store(tx: Tx) -> None:
            await session_log.park(tx, self.claim, message.seq)
            await self._let_agent(
                tx, self._agent.set_aside(tx, self._ref, inbox_message(message), reason)
            )
            await leases.progressed(tx, self.claim, next_item_seq=self._next_seq)
            details = {"seq": message.seq, "kind": message.kind, "reason": reason}
            await self._fenced.tell(tx, "needs_person", {"what": "message_parked", **details})

        await self._fenced.commit("park", store, locked=True)
        self._charged = 0

    async def _tombstone(self) -> None:
        reason = self.claim.error or "its replicas died while they worked on it"
        reason = f"stopped after {self._settings.max_resumes} failed resumes: {reason}"

        async def store(tx: Tx) -> None:
            await self._let_agent(tx, self._agent.give_up(tx, self._ref, reason))
            await leases.tombstone(tx, self.claim, reason)
            await self._fenced.tell(tx, "session_tombstoned", {"reason": reason})

        await self._fenced.commit("tombstone", store, locked=True)

    async def _let_agent(self, tx: Tx, telling: Awaitable[None]) -> None:
        """Let the agent tell people; what the engine must store stands also when it fails."""
        try:
            async with tx.transaction():
                await telling
        except psycopg.OperationalError:
            raise
        except Exception:
            _log.exception("session %s: the agent cannot tell of its end", self.claim.session_id)


def _stored(item: LogItem) -> StoredItem:
    return StoredItem(item_seq=item.item_seq, kind=item.kind, payload=item.payload)


def _plain(text: str) -> str:
    """Return text that a text column takes, of a length a person reads."""
    return text[:500].replace("\x00", "").encode("utf-8", "replace").decode()
