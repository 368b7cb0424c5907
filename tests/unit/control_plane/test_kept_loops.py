"""The loops of a replica: one that fails begins again, as if it had never failed."""

import asyncio

import pytest

from farhand_control_plane import serve
from farhand_shared.errors import Unavailable


async def test_a_loop_whose_group_failed_begins_again_and_its_timeouts_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "RETRY_FIRST_S", 0.0)
    rounds = []

    async def fail() -> None:
        raise Unavailable("cannot go on: a test")

    async def loop() -> None:
        task = asyncio.current_task()
        assert task is not None
        rounds.append(task.cancelling())
        if len(rounds) == 3:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    # Before Python 3.11.3 no timeout works in a task that counts as cancelled, and a group that
    # fails makes the task that waits for it such a one.
    await serve._kept("a loop", loop)
    assert rounds == [0, 0, 0]


async def test_cancelling_a_kept_loop_ends_it() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def loop() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    kept = asyncio.create_task(serve._kept("a loop", loop))
    await began.wait()
    kept.cancel()
    with pytest.raises(asyncio.CancelledError):
        await kept
    assert ended.is_set()
