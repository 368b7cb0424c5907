"""Signing a browser in by a one-time link, and out again."""

from datetime import datetime
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from farhand_control_plane.api.access import (
    COOKIES_MAX,
    NotAuthenticated,
    Reader,
    TokenKeeper,
)
from farhand_control_plane.api.origins import base_url, check_same_origin, is_https
from farhand_control_plane.api.request_headers import cookies_of, headers_of
from farhand_control_plane.api.services import Services, services_of
from farhand_control_plane.api.shapes import Asked
from farhand_control_plane.api.user_agents import browser_name
from farhand_control_plane.db import members, sign_in_links, tokens
from farhand_control_plane.db.sign_in_links import LinkUnusable
from farhand_control_plane.domain.access import (
    LINK_PREFIX,
    PAGE_KEY_PREFIX,
    SESSION_PREFIX,
    SESSION_S,
    SIGN_IN_LINK_S,
    Scope,
    is_secret,
    new_secret,
    token_hash,
)
from farhand_control_plane.domain.words import MemberRole
from farhand_shared.errors import InvalidInput, NotAllowed, NotFound
from farhand_shared.version import __version__

router = APIRouter(prefix="/v1", tags=["sign-in"])

_Services = Annotated[Services, Depends(services_of)]

SIGN_IN_PATH: Final = "/v1/sign-in"
SIGN_IN_BODY_MAX_BYTES: Final = 1024  # anybody may send one; a link's token has 47


class SignInLinkUnusable(NotAuthenticated):
    """The link was used, is too old, or was never made here."""

    code = "sign_in_link_unusable"


class SignInLink(BaseModel):
    url: str = Field(description="opens the page signed in, once; the token is in the fragment")
    expires_at: datetime


class SignInAsked(Asked):
    token: str = Field(description="the fragment of the link")


class SignedIn(BaseModel):
    page_key: str = Field(
        description="send it as Farhand-Page-Key with every request; the cookie alone opens nothing"
    )
    expires_at: datetime


class Me(BaseModel):
    id: str
    name: str
    role: MemberRole


class WhoAmI(BaseModel):
    member: Me
    scopes: list[Scope] = Field(description="what this session or token may do")
    instance_name: str
    version: str
    offline_planner: bool = Field(description="no language model is set")
    expires_at: datetime | None = Field(description="of this session or token")


@router.post("/sign-in/links", status_code=201)
async def make_sign_in_link(
    caller: TokenKeeper, request: Request, services: _Services
) -> SignInLink:
    """Make a link that signs the caller in, once, within 15 minutes.

    The session may do what the token in hand may, and no more.
    """
    if Scope.READ not in caller.scopes:
        raise NotAllowed(
            "cannot make a sign-in link: the token lacks the scope 'read', "
            "and without it the page shows nothing"
        )
    token = new_secret(LINK_PREFIX)
    async with services.database.transaction() as tx:
        expires_at = await sign_in_links.create(
            tx,
            caller,
            link_sha256=token_hash(token),
            scopes=[scope for scope in Scope if scope in caller.scopes],
            lasts_s=SIGN_IN_LINK_S,
        )
    base = base_url(
        headers_of(request.scope["headers"]),
        request.scope["scheme"],
        services.addresses().public_url,
    )
    return SignInLink(url=f"{base}/sign-in#{token}", expires_at=expires_at)


@router.post("/sign-in", status_code=201)
async def sign_in(
    asked: SignInAsked, request: Request, response: Response, services: _Services
) -> SignedIn:
    """Use a link up: sets the session's cookie and tells the page key, once.

    The session that this browser had is over.
    """
    headers = headers_of(request.scope["headers"])
    public_url = services.addresses().public_url
    if "origin" in headers or "sec-fetch-site" in headers:
        check_same_origin(headers, public_url)  # another page must not change who is signed in
    if not is_secret(LINK_PREFIX, asked.token):
        raise _unusable("the link is not one of ours, or not whole")
    secret, page_key = new_secret(SESSION_PREFIX), new_secret(PAGE_KEY_PREFIX)
    async with services.database.transaction() as tx:
        try:
            grant = await sign_in_links.use(tx, token_hash(asked.token))
        except LinkUnusable as error:
            raise _unusable(str(error)) from None
        for before in cookies_of(headers, services.session_cookie)[:COOKIES_MAX]:
            await tokens.revoke_session(tx, grant.instance_id, token_hash(before))
        expires_at = await tokens.create_session(
            tx,
            grant.instance_id,
            grant.member_id,
            name=f"page in {browser_name(headers.get('user-agent', ''))}",
            session_sha256=token_hash(secret),
            page_key_sha256=token_hash(page_key),
            scopes=grant.scopes,
            lasts_s=SESSION_S,
        )
    _set_cookie(response, request, services, secret, SESSION_S)
    return SignedIn(page_key=page_key, expires_at=expires_at)


@router.post("/sign-out", status_code=204)
async def sign_out(
    caller: Reader, request: Request, response: Response, services: _Services
) -> None:
    """End this browser's session, at once and everywhere."""
    if not caller.session:
        raise InvalidInput(
            "cannot sign out: this is a token, not a session; revoke it with farhand tokens revoke"
        )
    async with services.database.transaction() as tx:
        await tokens.revoke(tx, caller.instance_id, caller.token_id)
    _set_cookie(response, request, services, "", 0)


@router.get("/me")
async def who_am_i(caller: Reader, services: _Services) -> WhoAmI:
    """Tell who the caller is and what they may do."""
    async with services.database.transaction() as tx:
        member = await members.get(tx, caller.instance_id, caller.member_id)
    if member is None:
        raise NotFound("cannot find this member; they were removed a moment ago")
    return WhoAmI(
        member=Me(id=member.member_id, name=member.name, role=member.role),
        scopes=[scope for scope in Scope if scope in caller.scopes],
        instance_name=services.instance_name,
        version=__version__,
        offline_planner=services.offline_planner,
        expires_at=caller.expires_at,
    )


def _set_cookie(
    response: Response, request: Request, services: Services, value: str, lasts_s: int
) -> None:
    """Set the session's cookie; ``lasts_s`` 0 removes it.

    No script reads it, and no request that another site began carries it.
    """
    headers = headers_of(request.scope["headers"])
    response.set_cookie(
        services.session_cookie,
        value,
        max_age=lasts_s,
        path="/",
        secure=is_https(headers, request.scope["scheme"], services.addresses().public_url),
        httponly=True,
        samesite="strict",
    )


def _unusable(reason: str) -> SignInLinkUnusable:
    return SignInLinkUnusable(f"cannot sign in: {reason}; run farhand sign-in for another")
