"""The planner as an ASGI application that speaks chat completions (streaming, tools, usage).

It is mounted in process (no port). It is stateless: the whole conversation is in the request. The
system prompt's first line says which role it plays. What it does not model: sampling, tokens (usage
counts words), JSON schema, images.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from farhand_control_plane.llm.planner import router_mind, worker_mind
from farhand_control_plane.llm.planner.conversation import Conversation, Wanted, read

MODEL_NAME = "offline-planner"
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def planner_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer ``POST …/chat/completions`` and ``GET …/models``; anything else is 404."""
    path, method = str(scope["path"]), scope["method"]
    body = await _body(receive)
    if path.endswith("/models") and method == "GET":
        listing = {"object": "list", "data": [{"id": MODEL_NAME, "object": "model"}]}
        await _json(send, 200, listing)
    elif path.endswith("/chat/completions") and method == "POST":
        try:
            request = json.loads(body)
            conversation = read(request["messages"], request.get("tools") or [])
        except (ValueError, KeyError, TypeError) as fault:
            await _json(send, 400, {"error": {"message": f"cannot read request: {fault}"}})
            return
        text, wanted = _answer(conversation)
        calls = _tool_calls(wanted, len(conversation.made))
        usage = _usage(request, text, wanted)
        if request.get("stream"):
            await _stream(send, text, calls, usage)
        else:
            await _json(send, 200, _whole(text, calls, usage))
    else:
        await _json(send, 404, {"error": {"message": f"no such route: {method} {path}"}})


def _answer(conversation: Conversation) -> tuple[str, list[Wanted]]:
    role = conversation.system.partition("\n")[0]
    if "Router" in role:
        wanted = router_mind.decide(conversation)
    elif "Worker" in role:
        wanted = worker_mind.decide(conversation)
    else:
        return router_mind.WHAT_I_AM, []
    offered = [one for one in wanted if one.name in conversation.tools]
    return "" if offered else "done", offered


def _tool_calls(wanted: list[Wanted], made_before: int) -> list[dict[str, Any]]:
    return [
        {
            "index": index,
            "id": f"call_{made_before + index}",  # unique in the conversation
            "type": "function",
            "function": {"name": one.name, "arguments": json.dumps(one.arguments)},
        }
        for index, one in enumerate(wanted)
    ]


def _usage(request: dict[str, Any], text: str, wanted: list[Wanted]) -> dict[str, int]:
    prompt = len(json.dumps(request["messages"]).split())
    output = len(text.split()) + sum(len(json.dumps(one.arguments).split()) for one in wanted)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
    }


def _head(kind: str) -> dict[str, Any]:
    return {"id": "offline", "object": kind, "created": 0, "model": MODEL_NAME}


def _whole(text: str, calls: list[dict[str, Any]], usage: dict[str, int]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    finish = "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {**_head("chat.completion"), "choices": [choice], "usage": usage}


async def _stream(
    send: Send, text: str, calls: list[dict[str, Any]], usage: dict[str, int]
) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"text/event-stream")],
        }
    )
    delta: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        delta["tool_calls"] = calls
    finish = "tool_calls" if calls else "stop"
    head = _head("chat.completion.chunk")
    for chunk in (
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {**head, "choices": [], "usage": usage},
    ):
        data = b"data: " + json.dumps(chunk).encode() + b"\n\n"
        await send({"type": "http.response.body", "body": data, "more_body": True})
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


async def _json(send: Send, status: int, value: object) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(value).encode()})


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)
