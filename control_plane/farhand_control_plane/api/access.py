"""Who makes a request and whether it opens the route: the access level beside each route.

A route takes its caller as `Reader`, `Chatter`, …; that is its access level, and `app.create_app`
refuses to start with a route that has none and is not among the public ones.

Programs present a token. A browser presents a session: the cookie, which it sends by itself, and
the page key, which only a script of our own page can add.
"""

import hmac
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, Request
from fastapi.security import APIKeyHeader, HTTPBearer

from farhand_control_plane.api.origins import SAFE_METHODS, check_same_origin
from farhand_control_plane.api.request_headers import cookies_of, headers_of
from farhand_control_plane.db import tokens
from farhand_control_plane.db.listen import TOKENS, Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.tokens import Caller
from farhand_control_plane.domain.access import (
    PAGE_KEY_PREFIX,
    SESSION_PREFIX,
    TOKEN_PREFIX,
    Scope,
    is_secret,
    token_hash,
)
from farhand_control_plane.domain.words import MemberRole
from farhand_shared.errors import NotAllowed

PAGE_KEY_HEADER: Final = "Farhand-Page-Key"

# How long a checked token is believed. A revocation is told to every replica at once; this bounds
# the time when that telling is lost together with its connection.
_BELIEVED_S: Final = 10.0
_BELIEVED_MAX: Final = 10_000
COOKIES_MAX: Final = 8  # of one name that are tried: each may cost a look into the database

# Returns who sent a request of this method with these headers (lower-case names); raises
# NotAllowed, or a kind of it, for nobody and for a page that is not ours.
Authenticate = Callable[[str, Mapping[str, str]], Awaitable[Caller]]


class NotAuthenticated(NotAllowed):
    """No token or session, or one that opens nothing."""

    code = "not_authenticated"


class _Belief(NamedTuple):
    until: float  # of the monotonic clock
    caller: Caller
    page_key_sha256: bytes | None  # None: a token


class Authenticator:
    """Turns a request's headers into a Caller; remembers what it checked for some seconds.

    The memory saves the hot path a database round trip per command.
    """

    def __init__(
        self,
        database: Database,
        listener: Listener,
        *,
        session_cookie: str,
        public_url: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._session_cookie = session_cookie
        self._public_url = public_url
        self._monotonic = monotonic
        self._believed: dict[bytes, _Belief] = {}
        self._revocations = 0
        listener.subscribe(TOKENS, self._forget)

    def _forget(self, payload: str) -> None:
        """A token was revoked; an empty payload says that tellings may have been missed."""
        self._revocations += 1
        if payload:
            self._believed.pop(bytes.fromhex(payload), None)
        else:
            self._believed.clear()

    async def caller_of(self, method: str, headers: Mapping[str, str]) -> Caller:
        """Return who sent this; raise NotAuthenticated, or WrongOrigin for another page's request.

        A token wins over a session: who names one means it, and the browser adds cookies unasked.
        """
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":  # any other is a proxy's own business
            return await self._caller_of_token(token.strip())
        secrets = cookies_of(headers, self._session_cookie)
        if not secrets:
            raise _nothing_presented()
        caller = await self._caller_of_session(secrets, headers.get(PAGE_KEY_HEADER.lower(), ""))
        if method not in SAFE_METHODS:
            check_same_origin(headers, self._public_url)
        return caller

    async def _caller_of_token(self, token: str) -> Caller:
        if not token:
            raise _nothing_presented()
        if not is_secret(TOKEN_PREFIX, token):
            raise _unknown_token()
        sha256 = token_hash(token)
        belief = self._belief(sha256)
        if belief is not None and belief.page_key_sha256 is None:
            return belief.caller
        revocations = self._revocations
        async with self._database.transaction() as tx:
            found = await tokens.authenticate(tx, sha256)
        if found is None:
            raise _unknown_token()
        self._believe(sha256, found, None, revocations)
        return found

    async def _caller_of_session(self, secrets: Sequence[str], page_key: str) -> Caller:
        """Return whose session it is: of several cookies the one that the page key belongs to."""
        if not page_key:
            raise NotAuthenticated(
                f"cannot answer: the session comes without its page key ({PAGE_KEY_HEADER}); "
                "sign in again with a link of farhand sign-in"
            )
        if is_secret(PAGE_KEY_PREFIX, page_key):
            ours = [secret for secret in secrets if is_secret(SESSION_PREFIX, secret)]
            for secret in ours[:COOKIES_MAX]:
                found = await self._session(token_hash(secret), token_hash(page_key))
                if found is not None:
                    return found
        raise _session_over()

    async def _session(self, sha256: bytes, key_sha256: bytes) -> Caller | None:
        belief = self._belief(sha256)
        if belief is not None and belief.page_key_sha256 is not None:
            is_its = hmac.compare_digest(belief.page_key_sha256, key_sha256)
            return belief.caller if is_its else None
        revocations = self._revocations
        async with self._database.transaction() as tx:
            found = await tokens.authenticate_session(tx, sha256, key_sha256)
        if found is not None:
            self._believe(sha256, found, key_sha256, revocations)
        return found

    def _belief(self, sha256: bytes) -> _Belief | None:
        """Return what is still believed of this token or session."""
        belief = self._believed.get(sha256)
        if belief is None:
            return None
        ends = belief.caller.expires_at
        if belief.until > self._monotonic() and (ends is None or ends > datetime.now(UTC)):
            return belief
        del self._believed[sha256]
        return None

    def _believe(
        self, sha256: bytes, caller: Caller, page_key_sha256: bytes | None, revocations: int
    ) -> None:
        if revocations != self._revocations:
            return  # one was told while the database was asked; it may have been this one's
        if len(self._believed) >= _BELIEVED_MAX:
            self._believed.clear()
        self._believed[sha256] = _Belief(self._monotonic() + _BELIEVED_S, caller, page_key_sha256)


def _nothing_presented() -> NotAuthenticated:
    return NotAuthenticated(
        "cannot answer: the request carries no token; send Authorization: Bearer fh_…, "
        "or sign in with a link of farhand sign-in"
    )


def _unknown_token() -> NotAuthenticated:
    return NotAuthenticated(
        "cannot answer: the token is not known here, expired or revoked; make one with "
        "farhand tokens create"
    )


def _session_over() -> NotAuthenticated:
    return NotAuthenticated(
        "cannot answer: this browser is not signed in any more; "
        "sign in again with a link of farhand sign-in"
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


_PAGE_KEY: Final = APIKeyHeader(
    name=PAGE_KEY_HEADER,
    scheme_name="PageKey",
    description="the page key of a browser's session, beside the session's cookie",
    auto_error=False,
)


class Requires:
    """The dependency that checks one scope; its presence on a route is what tests look for."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def __call__(
        self,
        request: Request,
        # These two only document what opens the route.
        _token: Annotated[object, Depends(HTTPBearer(auto_error=False))],
        _page_key: Annotated[object, Depends(_PAGE_KEY)],
    ) -> Caller:
        authenticator: Authenticator = request.app.state.services.authenticator
        caller = await authenticator.caller_of(request.method, headers_of(request.scope["headers"]))
        check(caller, self.scope)
        return caller


Reader = Annotated[Caller, Depends(Requires(Scope.READ))]
Chatter = Annotated[Caller, Depends(Requires(Scope.CHAT))]
Executor = Annotated[Caller, Depends(Requires(Scope.EXEC))]
MachineKeeper = Annotated[Caller, Depends(Requires(Scope.MACHINES))]
TicketKeeper = Annotated[Caller, Depends(Requires(Scope.TICKETS))]
TokenKeeper = Annotated[Caller, Depends(Requires(Scope.TOKENS))]
