"""API tokens: listing, making and revoking them."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from farhand_control_plane.api import shapes
from farhand_control_plane.api.access import TokenKeeper
from farhand_control_plane.api.machines import find
from farhand_control_plane.api.services import Services, services_of
from farhand_control_plane.db import tokens
from farhand_control_plane.domain.access import new_token, parse_scopes, token_hash
from farhand_shared.errors import InvalidInput, NotAllowed, NotFound
from farhand_shared.ids import TokenId, is_id

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])

_Services = Annotated[Services, Depends(services_of)]


@router.get("")
async def list_tokens(
    caller: TokenKeeper,
    services: _Services,
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
    cursor: str | None = None,
) -> shapes.Page[shapes.Token]:
    """List live tokens, oldest first."""
    if cursor is not None and not is_id(cursor):
        raise InvalidInput("cannot list tokens: the cursor is none of ours; start without one")
    async with services.database.transaction() as tx:
        found = await tokens.list_live(
            tx,
            caller.instance_id,
            limit=limit + 1,
            after=None if cursor is None else TokenId(cursor),
        )
    items = [shapes.Token(**shapes.token_fields(view)) for view in found]
    return shapes.page_of(items, limit, [item.id for item in items])


@router.post("", status_code=201)
async def make_token(
    asked: shapes.TokenAsked, caller: TokenKeeper, services: _Services
) -> shapes.TokenMade:
    """Make a token, for the caller, with no more scopes than the token in hand has."""
    scopes = parse_scopes(asked.scopes)
    if lacking := [scope.value for scope in scopes if scope not in caller.scopes]:
        raise NotAllowed(
            f"cannot make a token with the scope {lacking[0]!r}: the token in hand lacks it"
        )
    expires_at = None
    if asked.expires_in_days is not None:
        expires_at = datetime.now(UTC) + timedelta(days=asked.expires_in_days)
    token = new_token()
    async with services.database.transaction() as tx:
        machine_id = None
        if asked.machine is not None:
            machine_id = (await find(tx, caller, asked.machine)).machine_id
        view = await tokens.create(
            tx,
            caller.instance_id,
            caller.member_id,
            name=asked.name,
            token_sha256=token_hash(token),
            scopes=scopes,
            machine_id=machine_id,
            expires_at=expires_at,
        )
    return shapes.TokenMade(**shapes.token_fields(view), token=token)


@router.delete("/{token_id}", status_code=204)
async def revoke_token(token_id: str, caller: TokenKeeper, services: _Services) -> None:
    """Revoke a token, at once and everywhere; the one in hand too."""
    async with services.database.transaction() as tx:
        revoked = is_id(token_id) and await tokens.revoke(tx, caller.instance_id, TokenId(token_id))
    if not revoked:
        raise NotFound(f"cannot find token {token_id!r}; see farhand tokens list")
