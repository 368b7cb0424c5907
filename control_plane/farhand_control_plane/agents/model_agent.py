"""What Router and Workers share: the log as a conversation, and one model call over it."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from farhand_control_plane.agents.toolbox import MALFORMED, Toolbox
from farhand_control_plane.engine.contract import (
    LogItem,
    ModelUnavailable,
    SessionRef,
    Thought,
    ToolIntent,
    UsageRecord,
)
from farhand_control_plane.llm.client import (
    Call,
    Message,
    ModelClient,
    ModelFailed,
    parse_arguments,
)

_UNANSWERED = "interrupted, outcome unknown"
_RETRY_S = 2.0
_REFUSED_RETRY_S = 30.0  # a refused request rarely heals by itself; a person sees the error


def prompt(name: str) -> str:
    """Return a prompt file's text."""
    return (files(__package__) / "prompts" / f"{name}.md").read_text(encoding="utf-8")


class RefusedByModel(Exception):
    """The service will not answer this conversation: the newest messages are to blame, not it.

    Not a ModelUnavailable, so the engine halves the batch and parks what is refused alone.
    """


class ModelAgent:
    """Thinks by asking a model, over an append-only conversation (so its prefix stays cached)."""

    def __init__(self, client: ModelClient, *, system_prompt: str, tools: Toolbox) -> None:
        self._client = client
        self._system_prompt = system_prompt
        self._tools = tools

    async def think(self, ref: SessionRef, items: Sequence[LogItem]) -> Thought:
        """Make one model call over the whole log. Raises ModelUnavailable, RefusedByModel."""
        messages = conversation(self._system_prompt, items)
        try:
            completion = await self._client.complete(messages, self._tools.described())
        except ModelFailed as fault:
            if fault.about_request:
                raise RefusedByModel(str(fault)) from fault
            raise ModelUnavailable(
                str(fault), retry_after_s=_RETRY_S if fault.retryable else _REFUSED_RETRY_S
            ) from fault
        intents = tuple(_intent(index, call) for index, call in enumerate(completion.calls))
        return Thought(
            payload={
                "text": completion.text,
                "finish_reason": completion.finish_reason,
                "calls": [
                    {"call_id": i.call_id, "name": i.name, "arguments": i.arguments}
                    for i in intents
                ],
            },
            calls=intents,
            usage=UsageRecord(
                model=self._client.model,
                prompt_tokens=completion.prompt_tokens,
                cached_tokens=completion.cached_tokens,
                output_tokens=completion.output_tokens,
            ),
        )


def conversation(system_prompt: str, items: Sequence[LogItem]) -> list[Message]:
    """Return a session's log as chat completions messages.

    Call ids are made from the item and the index: services may repeat theirs in a conversation.
    Every call gets a result, in the order of the calls, right after the message that made them.
    """
    results: dict[str, str] = {}
    owner: dict[str, int] = {}
    for item in items:
        if item.kind == "assistant":
            owner |= {call["call_id"]: item.item_seq for call in item.payload["calls"]}
        elif item.kind == "tool_results":
            results |= {
                f"{owner.get(r['call_id'], 0)}:{r['call_id']}": r["content"]
                for r in item.payload["results"]
            }
    messages: list[Message] = [{"role": "system", "content": system_prompt}]
    for item in items:
        if item.kind == "assistant":
            messages.extend(_assistant(item, results))
        elif item.kind in ("input", "notice"):
            messages.append({"role": "user", "content": item.payload["text"]})
    return messages


def _assistant(item: LogItem, results: dict[str, str]) -> list[Message]:
    calls: list[dict[str, Any]] = item.payload["calls"]
    message: Message = {"role": "assistant", "content": item.payload["text"] or ""}
    if not calls:
        return [message]
    message["tool_calls"] = [
        {
            "id": f"call_{item.item_seq}_{index}",
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
        }
        for index, call in enumerate(calls)
    ]
    answers: list[Message] = [
        {
            "role": "tool",
            "tool_call_id": f"call_{item.item_seq}_{index}",
            "content": results.get(f"{item.item_seq}:{call['call_id']}", _UNANSWERED),
        }
        for index, call in enumerate(calls)
    ]
    return [message, *answers]


def _intent(index: int, call: Call) -> ToolIntent:
    try:
        arguments = parse_arguments(call)
    except ValueError as fault:
        arguments = {MALFORMED: f"{fault} (got {call.arguments[:200]!r})"}
    # Not the service's own id: some repeat theirs, and ours need only be unique in the message.
    return ToolIntent(
        call_index=index, call_id=f"call_{index}", name=call.name, arguments=arguments
    )
