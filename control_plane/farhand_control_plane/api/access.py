"""Who makes a request and whether the token opens the route: the access level beside each route.

A route takes its caller as `Reader`, `Chatter`, …; that is its access level, and `app.create_app`
refuses to start with a route that has none and is not among the public ones.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from farhand_control_plane.db import tokens
from farhand_control_plane.db.listen import TOKENS, Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.tokens import Caller
from farhand_control_plane.domain.access import (
    TOKEN_CHARACTERS,
    TOKEN_PREFIX,
    Scope,
    token_hash,
)
from farhand_control_plane.domain.words import MemberRole
from farhand_shared.errors import NotAllowed

# How long a checked token is believed. A revocation is told to every replica at once; this bounds
# the time when that telling is lost together with its connection.
_BELIEVED_S: Final = 10.0
_BELIEVED_MAX: Final = 10_000


class NotAuthenticated(NotAllowed):
    """No token, or one that opens nothing."""

    code = "not_authenticated"


class Authenticator:
    """Turns an Authorization header into a Caller; remembers checked tokens for some seconds.

    The memory saves the hot path a database round trip per command.
    """

    def __init__(
        self,
        database: Database,
        listener: Listener,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._believed: dict[bytes, tuple[float, Caller]] = {}
        listener.subscribe(TOKENS, self._forget)

    def _forget(self, payload: str) -> None:
        """A token was revoked; an empty payload says that tellings may have been missed."""
        if payload:
            self._believed.pop(bytes.fromhex(payload), None)
        else:
            self._believed.clear()

    async def caller_of(self, headers: Mapping[str, str]) -> Caller:
        """Return who presents these headers (lower-case names); raise NotAuthenticated."""
        header = headers.get("authorization", "")
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise NotAuthenticated(
                "cannot answer: the request carries no token; send Authorization: Bearer fh_…"
            )
        if len(token) != TOKEN_CHARACTERS or not token.startswith(TOKEN_PREFIX):
            raise _unknown()
        key = token_hash(token)
        known = self._believed.get(key)
        if known is not None and known[0] > self._monotonic():
            caller = known[1]
            if caller.expires_at is None or caller.expires_at > datetime.now(UTC):
                return caller
        async with self._database.transaction() as tx:
            found = await tokens.authenticate(tx, key)
        if found is None:
            self._believed.pop(key, None)
            raise _unknown()
        if len(self._believed) >= _BELIEVED_MAX:
            self._believed.clear()
        self._believed[key] = (self._monotonic() + _BELIEVED_S, found)
        return found


def _unknown() -> NotAuthenticated:
    return NotAuthenticated(
        "cannot answer: the token is not known here, expired or revoked; make one with "
        "farhand tokens create"
    )


def check(caller: Caller, scope: Scope) -> None:
    """Raise NotAllowed unless the token has the scope, and its member a role that may use it."""
    if scope not in caller.scopes:
        raise NotAllowed(
            f"cannot do this: the token lacks the scope {scope.value!r}; use one that has it"
        )
    if caller.role is MemberRole.VIEWER and scope is not Scope.READ:
        raise NotAllowed("cannot do this: a viewer sees everything and changes nothing")


def check_any(caller: Caller, scopes: Sequence[Scope]) -> None:
    """Raise NotAllowed, naming the first of them, unless one of the scopes opens the route."""
    held = [scope for scope in scopes if scope in caller.scopes]
    check(caller, held[-1] if held else scopes[0])


class Requires:
    """The dependency that checks one scope; its presence on a route is what tests look for."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    # The HTTPBearer dependency only documents the scheme in OpenAPI.
    async def __call__(
        self, request: Request, _: Annotated[object, Depends(HTTPBearer(auto_error=False))]
    ) -> Caller:
        authenticator: Authenticator = request.app.state.services.authenticator
        caller = await authenticator.caller_of(request.headers)
        check(caller, self.scope)
        return caller


Reader = Annotated[Caller, Depends(Requires(Scope.READ))]
Chatter = Annotated[Caller, Depends(Requires(Scope.CHAT))]
Executor = Annotated[Caller, Depends(Requires(Scope.EXEC))]
MachineKeeper = Annotated[Caller, Depends(Requires(Scope.MACHINES))]
TicketKeeper = Annotated[Caller, Depends(Requires(Scope.TICKETS))]
TokenKeeper = Annotated[Caller, Depends(Requires(Scope.TOKENS))]
