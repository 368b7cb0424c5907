"""Asks a chat completions application in this process: the interface of a service, without the SDK.

The SDK takes a second of CPU to import, and a system without a model service has no use for it.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

AsgiApp = Callable[..., Awaitable[None]]


class Refused(Exception):
    """The application answered with an error status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class _Object(SimpleNamespace):
    """A JSON object read by attribute, as the SDK's are; what is absent is None."""

    def __getattr__(self, name: str) -> None:
        return None


async def chunks_of(app: AsgiApp, request: Mapping[str, Any]) -> list[Any]:
    """Return the chunks of the streamed answer; raise Refused instead of an error status."""
    asked = [{"type": "http.request", "body": json.dumps(request).encode(), "more_body": False}]
    status = 0
    body = bytearray()

    async def receive() -> dict[str, Any]:
        return asked.pop() if asked else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)
        body.extend(message.get("body", b""))

    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}
    await app(scope, receive, send)
    if status != 200:
        raise Refused(status)
    events = [event.removeprefix(b"data: ") for event in bytes(body).split(b"\n\n") if event]
    return [
        json.loads(event, object_hook=lambda fields: _Object(**fields))
        for event in events
        if event != b"[DONE]"
    ]
