"""Reading a request's body: to a limit of size and of time, whatever its headers say."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from farhand_shared.errors import FarhandError, InvalidInput, TooLarge

# In all, not between two parts: who sends a byte now and then must not hold a connection for ever.
# 24 MiB in this time are 7 Mbit/s; what people send is far smaller.
BODY_WITHIN_S: Final = 30.0

Message = MutableMapping[str, Any]  # as ASGI types them
Receive = Callable[[], Awaitable[Message]]


class TooSlow(FarhandError):
    """The body did not come in time."""

    code = "request_timeout"


class ClientGone(InvalidInput):
    """Nobody is there to take an answer."""


async def read_body(
    receive: Receive, *, limit_bytes: int, within_s: float = BODY_WITHIN_S, declared_bytes: int = 0
) -> bytes:
    """Return the whole body; raise TooLarge, TooSlow or ClientGone as soon as that is known."""
    size = declared_bytes
    parts: list[bytes] = []
    received, more = 0, True
    try:
        async with asyncio.timeout(within_s):
            while more and size <= limit_bytes:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone("cannot read the request: the client went away")
                parts.append(message.get("body", b""))
                received += len(parts[-1])
                size = max(size, received)
                more = message.get("more_body", False)
    except TimeoutError:
        raise TooSlow(
            f"cannot read the request: its body was not there after {within_s:g} s; send it again"
        ) from None
    if size > limit_bytes:
        raise TooLarge("the request body", size, limit_bytes, "send less at a time")
    return parts[0] if len(parts) == 1 else b"".join(parts)
