"""Carrying calls out, and answering those that wait."""

import logging
from collections.abc import Sequence
from typing import Final

import psycopg

from farhand_control_plane.db import session_log
from farhand_control_plane.db.leases import FenceLost
from farhand_control_plane.db.session_log import StoredCall, StoredMessage
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.engine.contract import (
    Agent,
    InboxMessage,
    SessionRef,
    ToolDone,
    ToolIntent,
)
from farhand_control_plane.engine.fenced import Fenced
from farhand_control_plane.engine.settings import EngineSettings
from farhand_shared.errors import FarhandError

_log = logging.getLogger(__name__)

INTERRUPTED: Final = "interrupted, outcome unknown"


class Calls:
    """The calls of one claimed session."""

    def __init__(
        self, fenced: Fenced, agent: Agent, ref: SessionRef, settings: EngineSettings
    ) -> None:
        self._fenced = fenced
        self._claim = fenced.claim
        self._agent = agent
        self._ref = ref
        self._settings = settings

    async def carry_out(self, call: StoredCall, charged: int) -> None:
        """Carry out one call; its effect and its result commit together.

        A call that fails inside is tried again by later steps; in the end the model is told.
        """
        if charged > self._settings.max_resumes:
            # Only the Router gets here: whoever carried this out died of it, again and again.
            await self._finish(call, INTERRUPTED)
            return
        try:
            await self._fenced.commit("act", lambda tx: self._act(tx, call))
        except (FenceLost, psycopg.OperationalError):
            raise
        except FarhandError as error:
            if error.retryable:
                raise
            await self._finish(call, str(error))
        except Exception as error:
            if charged + 1 < self._settings.act_tries:
                raise
            _log.exception("session %s: %s failed inside", self._claim.session_id, call.name)
            # True, because the effect and this result would have been one transaction.
            reason = f"it failed inside ({type(error).__name__}); nothing was done"
            await self._finish(call, f"cannot run {call.name}: {reason}")

    async def answer(self, waiting: Sequence[StoredCall], *, results_seq: int) -> bool:
        """Give waiting calls their result where it has come or will not; False: wait on.

        ``results_seq`` is the number the item with the results will have: it takes the messages.
        """
        return await self._fenced.commit("waits", lambda tx: self._answer(tx, waiting, results_seq))

    async def _act(self, tx: Tx, call: StoredCall) -> None:
        intent = ToolIntent(
            call_index=call.call_index,
            call_id=call.call_id,
            name=call.name,
            arguments=call.arguments,
        )
        outcome = await self._agent.act(tx, self._ref, call.item_seq, intent)
        if isinstance(outcome, ToolDone):
            await session_log.finish_call(tx, self._claim, call, outcome.content)
        else:
            await session_log.let_wait(
                tx,
                self._claim,
                call,
                waits_for=outcome.waits_for,
                wait_s=outcome.wait_s,
                otherwise=outcome.otherwise,
            )

    async def _finish(self, call: StoredCall, content: str) -> None:
        await self._fenced.commit(
            "act", lambda tx: session_log.finish_call(tx, self._claim, call, content)
        )

    async def _answer(self, tx: Tx, waiting: Sequence[StoredCall], results_seq: int) -> bool:
        keys = [call.waits_for for call in waiting if call.waits_for is not None]
        arrived = await session_log.pending_by_key(tx, self._claim, keys)
        interrupted = await session_log.has_waking(tx, self._claim, besides=keys)
        changed = False
        for call in waiting:
            message = arrived.get(call.waits_for or "")
            content = None if message is None else await self._resolved(tx, message)
            if message is not None and content is not None:
                await session_log.consume(tx, self._claim, [message.seq], by_seq=results_seq)
            elif message is not None or interrupted or call.expired:
                content = call.result or ""
            if content is not None:
                await session_log.finish_call(tx, self._claim, call, content)
                changed = True
        return changed

    async def _resolved(self, tx: Tx, message: StoredMessage) -> str | None:
        """Return the inline result; None leaves the message to be read as any other."""
        try:
            async with tx.transaction():
                return await self._agent.resolve(tx, self._ref, inbox_message(message))
        except psycopg.OperationalError:
            raise
        except Exception:
            _log.exception("session %s: no inline result", self._claim.session_id)
            return None


def inbox_message(stored: StoredMessage) -> InboxMessage:
    """Return a message as agents see it."""
    return InboxMessage(
        seq=stored.seq,
        kind=stored.kind,
        dedupe_key=stored.dedupe_key,
        payload=stored.payload,
        created_at=stored.created_at,
    )
