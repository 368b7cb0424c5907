"""Input for a machine whose link another replica holds: asked of that replica through the database.

Slower than from memory (some milliseconds a call), and the same in every other way: the holder
takes, refuses and waits as it does for its own clients.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final

from farhand_control_plane.db import input_calls
from farhand_control_plane.db.listen import INPUTS, Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.machines.hub import Hub
from farhand_control_plane.machines.input_buffer import InputHeld, InputRequest, InputState
from farhand_shared.errors import Conflict, FarhandError, Unavailable
from farhand_shared.ids import AttemptId, MemberId

_log = logging.getLogger(__name__)

LOOK_S: Final = 1.0  # the net under lost notifications
_LATE_S: Final = 3.0  # how much later than asked an answer may come
Take = Callable[[InputRequest, float], Awaitable[InputState]]


class InputRelay:
    """Asks other replicas, and answers them; ``take`` does what is asked with a link held here."""

    def __init__(self, database: Database, listener: Listener, hub: Hub, take: Take) -> None:
        self._database = database
        self._hub = hub
        self._take = take
        self._waiting: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsubscribe = listener.subscribe(INPUTS, self._on_notification)

    async def close(self) -> None:
        self._unsubscribe()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def ask(self, request: InputRequest, wait_s: float) -> InputState | None:
        """Return the holder's answer; None when none came in time, or the link is here now.

        Raises what the holder raised.
        """
        until = time.monotonic() + wait_s + _LATE_S
        async with self._database.transaction() as tx:
            call_id = await input_calls.put(
                tx, request.instance_id, request.attempt_id, _told(request, wait_s), request.data
            )
        try:
            with self._hub.watch(request.attempt_id) as news:  # also told when the link comes here
                self._waiting[call_id] = news
                answer = await self._until_answered(request, call_id, news, until)
            if answer is None:
                async with self._database.transaction() as tx:
                    await input_calls.withdraw(tx, request.instance_id, call_id)
        finally:
            del self._waiting[call_id]
        return None if answer is None else _answered(answer)

    async def _until_answered(
        self, request: InputRequest, call_id: str, news: asyncio.Event, until: float
    ) -> dict[str, Any] | None:
        while time.monotonic() < until:
            news.clear()
            async with self._database.transaction() as tx:
                answer = await input_calls.take_answer(tx, request.instance_id, call_id)
            if answer is not None or self._hub.run(request.attempt_id) is not None:
                return answer
            try:
                async with asyncio.timeout(LOOK_S):
                    await news.wait()
            except TimeoutError:
                continue
        return None

    def _on_notification(self, payload: str) -> None:
        first, _, call_id = payload.partition(" ")
        if not call_id:
            for waiting, news in self._waiting.items():
                if first in ("", waiting):
                    news.set()
        elif self._hub.run(AttemptId(first)) is not None:
            task = asyncio.create_task(self._answer(call_id), name="input-relay")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, call_id: str) -> None:
        try:
            async with self._database.transaction() as tx:
                call = await input_calls.get(tx, call_id)
            if call is None:
                return
            answer: dict[str, Any]
            wait_s = float(call.request.pop("wait_s"))
            size = call.request.pop("size")
            request = InputRequest(
                **call.request,
                instance_id=call.instance_id,
                attempt_id=call.attempt_id,
                data=call.data,
                size=None if size is None else (size[0], size[1]),
            )
            try:
                answer = asdict(await self._take(request, wait_s))
            except FarhandError as error:
                answer = {"error": error.code, "message": str(error)}
            async with self._database.transaction() as tx:
                await input_calls.answer(tx, call.instance_id, call_id, answer)
        except Unavailable as error:  # the caller asks again
            _log.warning("cannot answer another replica: %s", error)


def _told(request: InputRequest, wait_s: float) -> dict[str, Any]:
    return {
        "member_id": MemberId(request.member_id),
        "writer_id": request.writer_id,
        "where": request.where,
        "offset": request.offset,
        "end": request.end,
        "take": request.take,
        "size": request.size,
        "wait_s": wait_s,
    }


def _answered(answer: dict[str, Any]) -> InputState:
    if "error" not in answer:
        return InputState(**answer)
    if answer["error"] == InputHeld.code:
        raise InputHeld(answer["message"])
    raise Conflict(answer["message"])
