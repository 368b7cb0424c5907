"""One claim of one session, from the first look to the release.

Each turn of the loop looks at what the database says and does the one thing that is due: act on a
call, answer waiting calls, write the results, think, or release. All state that matters is in the
database, so a step that dies is continued by whoever looks next, at the same place.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure

from farhand_control_plane.db import events, leases, session_log
from farhand_control_plane.db.connect import is_lost
from farhand_control_plane.db.leases import Claim, FenceLost
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.session_log import StoredCall, StoredItem, StoredMessage
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import ToolCallState
from farhand_control_plane.engine import failures
from farhand_control_plane.engine.contract import (
    Agent,
    InboxMessage,
    Json,
    LogItem,
    ModelUnavailable,
    SessionRef,
    Thought,
    ToolDone,
    ToolIntent,
)
from farhand_control_plane.engine.points import Points
from farhand_control_plane.engine.settings import EngineSettings
from farhand_shared.errors import FarhandError
from farhand_shared.ids import SessionId

_log = logging.getLogger(__name__)

INTERRUPTED: Final = "interrupted, outcome unknown"
_DEADLOCK_TRIES: Final = 5

T = TypeVar("T")


class End(StrEnum):
    """How a claim ended."""

    RELEASED = "released"  # nothing left to do, or waiting for a message or a time
    PUT_BACK = "put_back"  # work is left, somebody will claim it later
    FENCED = "fenced"  # another replica has it, or the session ended
    TOMBSTONED = "tombstoned"
    UNREACHABLE = "unreachable"  # the database went away; the lease is still ours to give back


@dataclass(frozen=True, slots=True, kw_only=True)
class _Act:
    call: StoredCall


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wait:
    calls: Sequence[StoredCall]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Results:
    calls: Sequence[StoredCall]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Think:
    seqs: Sequence[int]  # of the messages in the batch
    input: Json | None  # None: no message, only results to think about


@dataclass(frozen=True, slots=True, kw_only=True)
class _Park:
    message: StoredMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    """Nothing is due."""


_Due = _Act | _Wait | _Results | _Think | _Park | _Rest


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
        self._database = database
        self._agent = agent
        self._settings = settings
        self._points = points
        self._model_failures = model_failures
        self._stopping = stopping
        self._charged = claim.resumes_charged
        self._next_seq = claim.next_item_seq
        self._log: list[LogItem] = []
        self._log_read = False
        self._pending = 0  # messages at the last look
        self._ref = SessionRef(
            instance_id=claim.instance_id,
            session_id=claim.session_id,
            kind=claim.kind,
            ticket_id=claim.ticket_id,
            generation=claim.generation,
        )

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
        await self._commit("put_back", leases.fence, lambda tx: self._put_back(tx, 0.0))
        return End.PUT_BACK

    async def _turn(self) -> bool:
        """Do the one thing that is due; True when the session was released."""
        match await self._look():
            case _Act(call=call):
                await self._act(call)
            case _Wait(calls=calls):
                if not await self._answer_waiting(calls):
                    return await self._release(waiting=True)
            case _Results(calls=calls):
                await self._write_results(calls)
            case _Park(message=message):
                await self._park(message)
            case _Think() as due:
                if not await self._think(due):
                    return await self._release(waiting=False)
            case _Rest():
                return await self._release(waiting=False)
        return False

    # ── what is due ─────────────────────────────────────────────────────────────────────────────

    async def _look(self) -> _Due:
        async with self._database.transaction() as tx:
            await leases.fence(tx, self.claim)
            if not self._log_read:
                self._log = [_log_item(item) for item in await session_log.items(tx, self.claim)]
                self._log_read = True
            last = self._last()
            if last is not None and last.kind == "assistant":
                calls = await session_log.calls_of(tx, self.claim, last.item_seq)
                for call in calls:
                    if call.state is ToolCallState.INTENDED:
                        return _Act(call=call)
                if any(call.state is ToolCallState.WAITING for call in calls):
                    return _Wait(calls=calls)
                if calls:
                    return _Results(calls=calls)
            has_results = last is not None and last.kind == "tool_results"
            # Digest entries are read along; alone they make nobody think.
            if not has_results and not await session_log.has_waking(tx, self.claim):
                return _Rest()
            messages = await session_log.pending(tx, self.claim, limit=self._settings.max_batch)
            self._pending = len(messages)
            if has_results and (not messages or self._charged):
                # After a failure the results go alone: it may be theirs and no message's.
                self._pending = 0
                return _Think(seqs=(), input=None)
            kind = self.claim.kind
            if failures.is_poison(kind, len(messages), self._charged, self._settings):
                return _Park(message=messages[0])
            batch = messages[: failures.batch_size(kind, len(messages), self._charged)]
            read = await self._agent.read(tx, self._ref, [_message(m) for m in batch])
            return _Think(seqs=[m.seq for m in batch], input=read)

    def _last(self) -> LogItem | None:
        """Return the entry that says where the session stands."""
        for item in reversed(self._log):
            if item.kind in ("input", "assistant", "tool_results"):
                return item
        return None

    # ── what is done ────────────────────────────────────────────────────────────────────────────

    async def _think(self, due: _Think) -> bool:
        """Make one model call and store what came of it; True when it made calls."""
        new = [] if due.input is None else [self._item("input", due.input)]
        self.thinking = True
        try:
            thought = await self._agent.think(self._ref, [*self._log, *new])
        finally:
            self.thinking = False
        self._points("thought")
        new.append(self._item("assistant", thought.payload, after=len(new)))
        await self._commit(
            "think", leases.lock, lambda tx: self._store_thought(tx, new, due.seqs, thought)
        )
        self._went_well(new)
        return bool(thought.calls)

    async def _store_thought(
        self, tx: Tx, new: Sequence[LogItem], seqs: Sequence[int], thought: Thought
    ) -> None:
        for item in new:
            await session_log.add_item(tx, self.claim, _stored(item))
        if seqs:
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

    async def _act(self, call: StoredCall) -> None:
        """Carry out one call; its effect and its result commit together."""
        if self._charged > self._settings.max_resumes:
            # Only the Router gets here: whoever carried this out died of it, again and again.
            await self._finish(call, INTERRUPTED)
            return
        try:
            await self._commit("act", leases.fence, lambda tx: self._carry_out(tx, call))
        except FenceLost:
            raise
        except FarhandError as error:
            if error.retryable:
                raise
            await self._finish(call, str(error))
        except psycopg.OperationalError:
            raise
        except Exception as error:
            if self._charged + 1 < self._settings.act_tries:
                raise
            _log.exception("session %s: %s failed inside", self.claim.session_id, call.name)
            # True, because the effect and this result would have been one transaction.
            reason = f"it failed inside ({type(error).__name__}); nothing was done"
            await self._finish(call, f"cannot run {call.name}: {reason}")

    async def _carry_out(self, tx: Tx, call: StoredCall) -> None:
        intent = ToolIntent(
            call_index=call.call_index,
            call_id=call.call_id,
            name=call.name,
            arguments=call.arguments,
        )
        outcome = await self._agent.act(tx, self._ref, call.item_seq, intent)
        if isinstance(outcome, ToolDone):
            await session_log.finish_call(tx, self.claim, call, outcome.content)
        else:
            await session_log.let_wait(
                tx,
                self.claim,
                call,
                waits_for=outcome.waits_for,
                wait_s=outcome.wait_s,
                otherwise=outcome.otherwise,
            )

    async def _finish(self, call: StoredCall, content: str) -> None:
        await self._commit(
            "act",
            leases.fence,
            lambda tx: session_log.finish_call(tx, self.claim, call, content),
        )

    async def _answer_waiting(self, calls: Sequence[StoredCall]) -> bool:
        """Give waiting calls their result where it has come or will not; False: wait on."""
        waiting = [call for call in calls if call.state is ToolCallState.WAITING]
        return await self._commit(
            "waits", leases.fence, lambda tx: self._store_answers(tx, waiting)
        )

    async def _store_answers(self, tx: Tx, waiting: Sequence[StoredCall]) -> bool:
        keys = [call.waits_for for call in waiting if call.waits_for is not None]
        arrived = await session_log.pending_by_key(tx, self.claim, keys)
        interrupted = await session_log.has_waking(tx, self.claim, besides=keys)
        changed = False
        for call in waiting:
            message = arrived.get(call.waits_for or "")
            content = None if message is None else await self._resolved(tx, message)
            if message is not None and content is not None:
                # The item that will hold the results takes it: nothing can come in between.
                await session_log.consume(tx, self.claim, [message.seq], by_seq=self._next_seq)
            elif message is not None or interrupted or call.expired:
                content = call.result or ""
            if content is not None:
                await session_log.finish_call(tx, self.claim, call, content)
                changed = True
        return changed

    async def _resolved(self, tx: Tx, message: StoredMessage) -> str | None:
        """Return the inline result; None leaves the message to be read as any other."""
        try:
            async with tx.transaction():
                return await self._agent.resolve(tx, self._ref, _message(message))
        except psycopg.OperationalError:
            raise
        except Exception:
            _log.exception("session %s: no inline result", self.claim.session_id)
            return None

    async def _write_results(self, calls: Sequence[StoredCall]) -> None:
        results = [{"call_id": call.call_id, "content": call.result or ""} for call in calls]
        item = self._item("tool_results", {"results": results})

        async def store(tx: Tx) -> None:
            await session_log.add_item(tx, self.claim, _stored(item))
            await leases.progressed(tx, self.claim, next_item_seq=item.item_seq + 1)

        await self._commit("results", leases.lock, store)
        self._went_well([item])

    async def _release(self, *, waiting: bool) -> bool:
        """Give the session back unless a message has arrived; the lock keeps new ones out."""
        last = self._last()
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

        return await self._commit("release", leases.lock, give_back)

    # ── what goes wrong ─────────────────────────────────────────────────────────────────────────

    async def _wait_for_model(self, error: ModelUnavailable) -> None:
        failed = self._model_failures.get(self.claim.session_id, 0) + 1
        self._model_failures[self.claim.session_id] = failed
        in_s = failures.model_retry_in_s(error.retry_after_s, failed, self._settings)
        reason = _plain(f"the model does not answer: {error}")
        _log.warning("session %s: %s", self.claim.session_id, reason)

        async def store(tx: Tx) -> None:
            await self._put_back(tx, in_s, error=reason)
            if failed == 1:
                await self._tell(tx, "model_unavailable", {"reason": str(error)})

        await self._commit("put_back", leases.lock, store)

    async def _charge(self, error: Exception) -> None:
        _log.error("session %s: a step failed", self.claim.session_id, exc_info=error)
        kind = self.claim.kind
        in_s = failures.retry_in_s(kind, self._pending, self._charged + 1, self._settings)
        reason = _plain(f"{type(error).__name__}: {error}")
        await self._commit(
            "put_back",
            leases.lock,
            lambda tx: self._put_back(tx, in_s, error=reason, charged=True),
        )

    async def _put_back(
        self, tx: Tx, in_s: float, *, error: str | None = None, charged: bool = False
    ) -> None:
        await leases.put_back(tx, self.claim, in_s=in_s, error=error, charged=charged)

    async def _park(self, message: StoredMessage) -> None:
        """Set the oldest message aside, so that the others go on."""
        _log.error("session %s: message %s is set aside", self.claim.session_id, message.seq)

        async def store(tx: Tx) -> None:
            await session_log.park(tx, self.claim, message.seq)
            await leases.progressed(tx, self.claim, next_item_seq=self._next_seq)
            details = {"seq": message.seq, "kind": message.kind, "reason": self.claim.error or ""}
            await self._tell(tx, "needs_person", {"what": "message_parked", **details})

        await self._commit("park", leases.lock, store)
        self._charged = 0

    async def _tombstone(self) -> None:
        reason = self.claim.error or "its replicas died while they worked on it"
        reason = f"stopped after {self._settings.max_resumes} failed resumes: {reason}"

        async def store(tx: Tx) -> None:
            try:
                async with tx.transaction():
                    await self._agent.give_up(tx, self._ref, reason)
            except psycopg.OperationalError:
                raise
            except Exception:
                _log.exception("session %s: the agent cannot give up", self.claim.session_id)
            await leases.tombstone(tx, self.claim, reason)
            await self._tell(tx, "session_tombstoned", {"reason": reason})

        await self._commit("tombstone", leases.lock, store)

    async def _tell(self, tx: Tx, kind: str, payload: Json) -> None:
        await events.emit(
            tx,
            self.claim.instance_id,
            kind,
            subject_id=self.claim.session_id,
            ticket_id=self.claim.ticket_id,
            payload={"session_kind": self.claim.kind.value, **payload},
        )

    # ── small parts ─────────────────────────────────────────────────────────────────────────────

    async def _commit(
        self,
        name: str,
        fence: Callable[[Tx, Claim], Awaitable[None]],
        work: Callable[[Tx], Awaitable[T]],
    ) -> T:
        """Do ``work`` in one fenced transaction, again if the server broke a deadlock with it."""
        for tries_left in reversed(range(_DEADLOCK_TRIES)):
            try:
                async with self._database.transaction() as tx:
                    await fence(tx, self.claim)
                    done = await work(tx)
                    self._points(f"{name}.before_commit")
            except (DeadlockDetected, SerializationFailure):
                if not tries_left:
                    raise
                continue
            self._points(f"{name}.committed")
            return done
        raise AssertionError("unreachable: the last try returns or raises")

    def _item(self, kind: str, payload: Json, *, after: int = 0) -> LogItem:
        return LogItem(item_seq=self._next_seq + after, kind=kind, payload=payload)

    def _went_well(self, new: Sequence[LogItem]) -> None:
        self._log.extend(new)
        self._next_seq = new[-1].item_seq + 1
        self._charged = 0
        self._model_failures.pop(self.claim.session_id, None)


def _plain(text: str) -> str:
    """Return text that a text column takes, of a length a person reads."""
    return text[:500].replace("\x00", "").encode("utf-8", "replace").decode()


def _log_item(item: StoredItem) -> LogItem:
    return LogItem(item_seq=item.item_seq, kind=item.kind, payload=item.payload)


def _stored(item: LogItem) -> StoredItem:
    return StoredItem(item_seq=item.item_seq, kind=item.kind, payload=item.payload)


def _message(stored: StoredMessage) -> InboxMessage:
    return InboxMessage(
        seq=stored.seq,
        kind=stored.kind,
        dedupe_key=stored.dedupe_key,
        payload=stored.payload,
        created_at=stored.created_at,
    )
