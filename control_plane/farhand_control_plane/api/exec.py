"""The hot route: ``POST /v1/exec`` and ``GET /v1/attempts/{id}/output`` as one streamed body.

Raw ASGI beside the API's framework, whose routing, validation and response cost as much as the
whole path of a short command.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any, Protocol

from farhand_control_plane.machines.execs import Execs
from farhand_shared.ids import InstanceId, MemberId

# As ASGI types them: messages are open mappings.
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Caller(Protocol):
    """Who a token speaks for."""

    @property
    def instance_id(self) -> InstanceId: ...
    @property
    def member_id(self) -> MemberId: ...
    @property
    def scopes(self) -> Collection[str]: ...


# Raises NotAllowed (or a subclass) for a missing or bad token. Header names are lower case.
Authenticate = Callable[[Mapping[str, str]], Awaitable[Caller]]


class ExecApp:
    """Serves its two routes and hands everything else to ``inner``."""

    def __init__(self, inner: App, *, authenticate: Authenticate, execs: Execs) -> None:
        self._inner = inner
        self._authenticate = authenticate
        self._execs = execs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError
