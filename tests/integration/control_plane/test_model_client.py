"""The model client against a service on a socket: streams, tools, faults and their retries."""

import asyncio
from collections.abc import Sequence

import pytest

from farhand_control_plane.llm.client import (
    Call,
    Completion,
    ModelClient,
    ModelFailed,
    ModelService,
    Tool,
    parse_arguments,
)
from tests.fakes.fake_model import FakeModel, Reply, fake_model

ASK = [{"role": "user", "content": "hello"}]
TOOL = Tool(name="start", description="starts", parameters={"type": "object"})


class _Waits:
    """Takes the place of sleeping; remembers how long each wait would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


async def _ask(model: FakeModel, waits: _Waits | None = None) -> Completion:
    service = ModelService(model="scripted", base_url=model.base_url, api_key="sk-canary")
    client = ModelClient(service, sleep=waits or _Waits())
    try:
        return await client.complete(ASK, [TOOL])
    finally:
        await client.close()


async def test_text_calls_and_usage_are_gathered_from_a_stream() -> None:
    reply = Reply(text="héllo", calls=[("start", '{"a": 1}'), ("start", "{}")])
    async with fake_model([reply]) as model:
        answer = await _ask(model)
    assert answer.text == "héllo"
    assert [(c.name, parse_arguments(c)) for c in answer.calls] == [
        ("start", {"a": 1}),
        ("start", {}),
    ]
    assert answer.finish_reason == "tool_calls"
    assert (answer.prompt_tokens, answer.cached_tokens, answer.output_tokens) == (10, 4, 3)
    assert model.keys == ["Bearer sk-canary"]
    assert model.requests[0]["tools"][0]["function"]["name"] == "start"


@pytest.mark.parametrize(
    "faults",
    [
        [Reply(status=500)],
        [Reply(status=503), Reply(status=429)],
        [Reply(text="cut off here", cut_after_chunks=2)],
    ],
)
async def test_a_passing_fault_is_tried_again(faults: Sequence[Reply]) -> None:
    waits = _Waits()
    async with fake_model([*faults, Reply(text="fine")]) as model:
        answer = await _ask(model, waits)
    assert answer.text == "fine"
    assert len(waits.seconds) == len(faults)


async def test_retry_after_is_obeyed_up_to_its_cap() -> None:
    waits = _Waits()
    limited = Reply(status=429, headers=[("retry-after", "7")])
    forever = Reply(status=429, headers=[("retry-after", "9999")])
    async with fake_model([limited, forever, Reply(text="fine")]) as model:
        await _ask(model, waits)
    assert 5 <= waits.seconds[0] <= 9
    assert waits.seconds[1] <= 38


async def test_a_lasting_fault_ends_in_one_error_after_three_tries() -> None:
    async with fake_model([Reply(status=500)]) as model:
        with pytest.raises(ModelFailed, match="answered 500") as failure:
            await _ask(model)
    assert failure.value.retryable
    assert len(model.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_a_refusal_is_not_tried_again_and_the_key_is_not_told(status: int) -> None:
    async with fake_model([Reply(status=status)]) as model:
        with pytest.raises(ModelFailed, match=f"refused the request with {status}") as failure:
            await _ask(model)
    assert not failure.value.retryable
    assert "sk-canary" not in str(failure.value)
    assert len(model.requests) == 1


async def test_an_unreachable_service_says_so() -> None:
    client = ModelClient(ModelService(model="m", base_url="http://127.0.0.1:9/v1"), sleep=_Waits())
    with pytest.raises(ModelFailed, match="cannot be reached"):
        await client.complete(ASK, [])
    await client.close()


async def test_cancelling_a_slow_call_ends_at_once() -> None:
    async with fake_model([Reply(wait=asyncio.Event())]) as model:
        task = asyncio.create_task(_ask(model))
        async with asyncio.timeout(10):
            await model.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_arguments_that_are_no_object_are_told_with_the_reason() -> None:
    with pytest.raises(ValueError, match="JSON object, not list"):
        parse_arguments(Call(call_id="1", name="start", arguments="[]"))
