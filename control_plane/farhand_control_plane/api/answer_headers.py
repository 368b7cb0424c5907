"""What every answer says, unless its route says otherwise."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

_Message = MutableMapping[str, Any]  # as ASGI types them
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Message, _Receive, _Send], Awaitable[None]]

# A browser keeps nothing that somebody may see after signing out, and guesses at no type.
_ALWAYS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class AnswerHeaders:
    """Adds them to what the application inside answers."""

    def __init__(self, app: _App) -> None:
        self._app = app

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        async def add(message: _Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                named = {name.lower() for name, _ in headers}
                headers += [pair for pair in _ALWAYS if pair[0] not in named]
                message["headers"] = headers
            await send(message)

        await self._app(scope, receive, add)
