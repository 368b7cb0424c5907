"""A scripted model: an HTTP server on loopback that speaks chat completions, streaming and whole.

Each request takes the next ``Reply`` of the script (the last one repeats); an entry may be a
function of the request. Requests are kept, so a test sees exactly what a service would have got.
What it does not model: tokens (usage is what the reply says), rate accounting, sampling, any route
but chat completions and models.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer; ``calls`` are (name, arguments text), a ``status`` but 200 is an error."""

    text: str = ""
    calls: Sequence[tuple[str, str]] = ()
    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    usage: dict[str, Any] = field(
        default_factory=lambda: {
            "prompt_tokens": 10,
            "completion_tokens": 3,
            "total_tokens": 13,
            "prompt_tokens_details": {"cached_tokens": 4},
        }
    )
    finish_reason: str | None = None  # None: stop, or tool_calls
    cut_after_chunks: int | None = None  # drop the connection in mid-stream
    wait: asyncio.Event | None = None  # answer only when set


Script = Sequence[Reply | Callable[[dict[str, Any]], Reply]]


class FakeModel:
    """A running server; ``base_url`` is what a client is configured with."""

    def __init__(self, script: Script) -> None:
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.asked = asyncio.Event()  # set by the first request
        self.base_url = ""

    def _next(self, request: dict[str, Any]) -> Reply:
        entry = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return entry if isinstance(entry, Reply) else entry(request)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if not head[0].startswith("POST /v1/chat/completions "):
            writer.write(_http(404, b'{"error":{"message":"no such route"}}'))
            await writer.drain()
            return
        request = json.loads(body)
        self.requests.append(request)
        self.asked.set()
        self.keys.append(headers.get("authorization", ""))
        reply = self._next(request)
        if reply.wait is not None:
            await reply.wait.wait()
        if reply.status != 200:
            error = json.dumps({"error": {"message": "scripted", "type": "scripted"}}).encode()
            writer.write(_http(reply.status, error, reply.headers))
        elif request.get("stream"):
            writer.write(_http(200, None, (("content-type", "text/event-stream"),)))
            chunks = list(_chunks(reply))
            for chunk in chunks[: reply.cut_after_chunks]:
                writer.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
                await writer.drain()
            if reply.cut_after_chunks is None:
                writer.write(b"data: [DONE]\n\n")
        else:
            writer.write(_http(200, json.dumps(_whole(reply)).encode()))
        await writer.drain()


@asynccontextmanager
async def fake_model(script: Script) -> AsyncIterator[FakeModel]:
    """Serve a script on an ephemeral loopback port for as long as the block lasts."""
    model = FakeModel(script)
    server = await asyncio.start_server(model._serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model.base_url = f"http://127.0.0.1:{port}/v1"
    try:
        yield model
    finally:
        server.close()
        await server.wait_closed()


def _http(status: int, body: bytes | None, headers: Sequence[tuple[str, str]] = ()) -> bytes:
    lines = [f"HTTP/1.1 {status} scripted", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def _finish(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.calls else "stop")


def _chunks(reply: Reply) -> list[dict[str, Any]]:
    head = {"id": "fake", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}

    def delta(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    chunks = [delta({"role": "assistant", "content": ""})]
    chunks += [delta({"content": part}) for part in _halves(reply.text)]
    for index, (name, arguments) in enumerate(reply.calls):
        first = {"id": f"fake_{index}", "type": "function", "function": {"name": name}}
        chunks.append(delta({"tool_calls": [{"index": index, **first}]}))
        chunks += [
            delta({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
            for part in _halves(arguments)
        ]
    chunks.append(delta({}, _finish(reply)))
    chunks.append({**head, "choices": [], "usage": reply.usage})
    return chunks


def _whole(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    message["tool_calls"] = [
        {"id": f"fake_{i}", "type": "function", "function": {"name": n, "arguments": a}}
        for i, (n, a) in enumerate(reply.calls)
    ]
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    return {
        "id": "fake",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [choice],
        "usage": reply.usage,
    }


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [part for part in (text[:middle], text[middle:]) if part]
