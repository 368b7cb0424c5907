"""No request body is read past a limit, whatever its headers say."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from farhand_control_plane.api.failures import failure_of
from farhand_shared.errors import TooLarge
from farhand_shared.limits import MIB

# Above every field's own limit, so that the error that names the field is the one people meet.
BODY_MAX_BYTES: Final = 4 * MIB

_Message = MutableMapping[str, Any]  # as ASGI types them
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Message, _Receive, _Send], Awaitable[None]]


class BodyLimit:
    """Answers 413 to a larger body; hands every other request on with its body read."""

    def __init__(self, app: _App, *, limit_bytes: int = BODY_MAX_BYTES) -> None:
        self._app = app
        self._limit = limit_bytes

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"")
        size = int(declared) if declared.isdigit() else 0
        body, more = bytearray(), True
        while more and size <= self._limit:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            size = max(size, len(body))
        if size > self._limit:
            error = TooLarge("the request body", size, self._limit, "send less at a time")
            await failure_of(error)(scope, receive, send)
            return
        given = False

        async def replay() -> _Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self._app(scope, replay, send)
