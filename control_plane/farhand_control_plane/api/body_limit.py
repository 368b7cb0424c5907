"""No request body is read for somebody unknown, past a limit, or longer than a while."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from farhand_control_plane.api.access import Authenticate
from farhand_control_plane.api.failures import failure_of
from farhand_control_plane.api.request_body import (
    BODY_WITHIN_S,
    ClientGone,
    Message,
    Receive,
    read_body,
)
from farhand_control_plane.api.request_headers import headers_of
from farhand_shared.errors import FarhandError
from farhand_shared.limits import MIB

# Above every field's own limit, so that the error that names the field is the one people meet.
BODY_MAX_BYTES: Final = 4 * MIB

_Send = Callable[[Message], Awaitable[None]]
_App = Callable[[Message, Receive, _Send], Awaitable[None]]


class BodyLimit:
    """Answers 401, 408 or 413 in time; hands every other request on with its body read.

    The token is checked before the body is read, so that a stranger cannot make us wait or keep
    anything. Which scope it needs, the route says itself. ``open_paths``: where anybody may send
    a body, and of how many bytes at most.
    """

    def __init__(
        self,
        app: _App,
        *,
        authenticate: Authenticate,
        open_paths: Mapping[str, int] | None = None,
        limit_bytes: int = BODY_MAX_BYTES,
        within_s: float = BODY_WITHIN_S,
    ) -> None:
        self._app = app
        self._authenticate = authenticate
        self._open_paths = open_paths or {}
        self._limit = limit_bytes
        self._within_s = within_s

    async def __call__(self, scope: Message, receive: Receive, send: _Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        headers = headers_of(scope["headers"])
        declared = headers.get("content-length", "")
        limit = self._open_paths.get(scope["path"])
        try:
            if limit is None:
                limit = self._limit
                await self._authenticate(scope["method"], headers)
            body = await read_body(
                receive,
                limit_bytes=limit,
                within_s=self._within_s,
                declared_bytes=int(declared) if declared.isdecimal() else 0,
            )
        except ClientGone:
            return
        except FarhandError as error:
            await failure_of(error)(scope, receive, send)
            return
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)
