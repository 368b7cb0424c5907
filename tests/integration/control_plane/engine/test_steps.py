"""What one engine makes of messages, calls and waits."""

import asyncio
import itertools

from farhand_control_plane.engine.contract import ModelUnavailable, SessionRef
from farhand_control_plane.engine.settings import EngineSettings
from tests.fakes.scripted_agent import ScriptedAgent

PATIENT = EngineSettings(poll_s=60.0)  # what happens in time, happens by NOTIFY


async def test_messages_become_one_batch_one_thought_and_an_idle_session(
    world, start_engine, until
):
    session = await world.worker()
    for n in range(3):
        await world.send(session, f"m{n}", n=n)
    running = await start_engine(settings=PATIENT)
    await until(lambda: world.is_idle(session))
    assert running.agent.batches == [["m0", "m1", "m2"]]
    assert await world.kinds(session) == ["input", "assistant"]
    assert await world.pending(session) == []
    assert running.agent.settled == [session]


async def test_a_call_is_carried_out_once_and_its_result_is_thought_about(
    world, start_engine, until
):
    session = await world.worker()
    running = await start_engine(settings=PATIENT)
    await world.send(session, "m", calls=[["effect", {"what": "a"}], ["effect", {"what": "b"}]])
    await until(lambda: world.effects(session))
    await until(lambda: world.is_idle(session))
    assert await world.effects(session) == ["a", "b"]
    assert await world.kinds(session) == ["input", "assistant", "tool_results", "assistant"]
    assert await world.results(session) == ["did a", "did b"]
    assert running.agent.thoughts == 2
    usage = await world.rows("select model, output_tokens from usage")
    assert usage == [{"model": "scripted", "output_tokens": 1}] * 2


async def test_a_message_during_a_thought_is_read_by_the_next_one(world, start_engine, until):
    session = await world.worker()
    thinking, go_on = asyncio.Event(), asyncio.Event()

    async def think_slowly(ref: SessionRef) -> None:
        thinking.set()
        await go_on.wait()

    running = await start_engine(ScriptedAgent(before_thinking=think_slowly), settings=PATIENT)
    await world.send(session, "first")
    await thinking.wait()
    await world.send(session, "second")
    go_on.set()
    await until(lambda: world.is_idle(session))
    assert running.agent.batches == [["first"], ["second"]]


async def test_digest_entries_wake_nobody_and_are_read_with_the_next_message(
    world, start_engine, until
):
    session = await world.worker()
    running = await start_engine(settings=PATIENT)
    await world.send(session, "digest", wakes=False)
    assert await world.is_idle(session)
    await world.send(session, "m")
    await until(lambda: world.kinds(session))
    await until(lambda: world.is_idle(session))
    assert running.agent.batches == [["digest", "m"]]


async def test_more_messages_than_a_batch_holds_are_read_in_order_by_several(
    world, start_engine, until
):
    session = await world.worker()
    keys = [f"m{n:03}" for n in range(150)]
    for key in keys:
        await world.send(session, key)
    running = await start_engine()
    await until(lambda: world.is_idle(session))
    assert [len(batch) for batch in running.agent.batches] == [64, 64, 22]
    assert list(itertools.chain(*running.agent.batches)) == keys


async def _steps_nothing(running) -> bool:
    return running.engine.stepping == 0


async def test_a_result_that_comes_in_time_is_inline_and_no_event(world, start_engine, until):
    session = await world.worker()
    running = await start_engine(settings=PATIENT)
    await world.send(session, "m", calls=[["wait", {"for": "command:1:done", "wait_s": 60}]])
    row = await until(lambda: _waiting(world, session))
    assert row["lease_owner"] is None  # an inline wait holds nothing
    await until(lambda: _steps_nothing(running))  # its task ends a moment after the release
    await world.send(session, "command:1:done")
    await until(lambda: world.is_idle(session))
    assert await world.results(session) == ["inline command:1:done"]
    assert running.agent.batches == [["m"]]
    assert await world.pending(session) == []


async def test_a_result_that_comes_late_is_an_event(world, start_engine, until):
    session = await world.worker()
    running = await start_engine(settings=PATIENT)
    await world.send(session, "m", calls=[["wait", {"for": "command:1:done", "wait_s": 0.2}]])
    await until(lambda: world.results(session))
    await until(lambda: world.is_idle(session))
    assert await world.results(session) == ["started command:1:done"]
    await world.send(session, "command:1:done")
    await until(lambda: _all_read(world, session))
    assert running.agent.batches == [["m"], ["command:1:done"]]
    assert await world.results(session) == ["started command:1:done"]


async def test_a_new_message_ends_the_wait_and_unfinished_calls_go_to_the_background(
    world, start_engine, until
):
    session = await world.worker()
    running = await start_engine(settings=PATIENT)
    calls = [["wait", {"for": f"command:{n}:done", "wait_s": 60}] for n in (1, 2)]
    await world.send(session, "m", calls=calls)
    await until(lambda: _waiting(world, session))
    await world.send(session, "command:2:done")
    await until(lambda: _consumed(world, "command:2:done"))
    await until(lambda: _waiting(world, session))  # the other call is still waited for
    await world.send(session, "new")
    await until(lambda: world.is_idle(session))
    assert await world.results(session) == ["started command:1:done", "inline command:2:done"]
    assert running.agent.batches == [["m"], ["new"]]


async def test_a_result_that_is_there_before_the_wait_begins_is_inline(world, start_engine, until):
    session = await world.worker()
    await start_engine(settings=PATIENT)
    await world.send(session, "m", calls=[["wait_and_tell", {"for": "soon", "wait_s": 60}]])
    await until(lambda: world.results(session))
    assert await world.results(session) == ["inline soon"]


async def test_waiting_sessions_cost_no_task(world, start_engine, until):
    sessions = [await world.worker() for _ in range(30)]
    running = await start_engine(settings=PATIENT)
    for session in sessions:
        await world.send(session, "m", calls=[["wait", {"for": "never", "wait_s": 600}]])
    for session in sessions:
        await until(lambda session=session: _waiting(world, session))
    await until(lambda: _steps_nothing(running))  # its task ends a moment after the release
    names = [task.get_name() for task in asyncio.all_tasks()]
    assert not [name for name in names if name.startswith("step ")]


async def test_a_model_that_does_not_answer_leaves_messages_pending_and_is_asked_again(
    world, start_engine, until
):
    session = await world.worker()
    answers = iter([ModelUnavailable("503", retry_after_s=0.05)] * 3)

    async def fail_three_times(ref: SessionRef) -> None:
        for error in answers:
            raise error

    await start_engine(ScriptedAgent(before_thinking=fail_three_times), settings=PATIENT)
    await world.send(session, "m")
    await until(lambda: world.kinds(session))
    await until(lambda: world.is_idle(session))
    row = await world.session(session)
    assert (row["resumes_charged"], row["error"]) == (0, None)
    events = await world.rows("select kind, payload from events")
    assert [event["kind"] for event in events] == ["model_unavailable"]  # told once


async def test_every_character_survives_the_log(world, start_engine, until):
    session = await world.worker()
    text = "nul \x00, escape \x01\x010000, lone \udc80, astral \U0001f980"
    await start_engine()
    await world.send(session, "m", calls=[["effect", {"what": "x", "text": text}]], text=text)
    await until(lambda: world.results(session))
    log = await world.log(session)
    assert log[0][1]["messages"][0]["payload"]["text"] == text
    (call,) = await world.rows("select arguments from tool_calls")
    assert call["arguments"]["text"] == text


async def _waiting(world, session):
    row = await world.session(session)
    return row if row["wake_at"] is not None and row["lease_owner"] is None else None


async def _consumed(world, key):
    return await world.rows(
        "select 1 from inbox where dedupe_key = %s and consumed_by_seq is not null", key
    )


async def _all_read(world, session):
    return await world.is_idle(session) and not await world.pending(session)
