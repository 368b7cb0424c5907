"""A token made in the database itself, by whoever may write there: nobody has one yet."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from farhand_control_plane.config import Settings
from farhand_control_plane.db import tokens
from farhand_control_plane.db.bootstrap import ensure_instance
from farhand_control_plane.db.migrate import check
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.access import new_token, parse_scopes, token_hash
from farhand_shared.errors import InvalidInput


def create_directly(
    settings: Settings, *, name: str, scopes: Sequence[str], days: int | None
) -> dict[str, Any]:  # JSON, as the API answers
    """Make a token of the instance's owner."""
    if settings.database_url is None:
        raise InvalidInput("cannot make a token directly: set FARHAND_DATABASE_URL")
    dsn = settings.database_url.reveal().decode()
    check(dsn)
    return asyncio.run(_create(dsn, name, scopes, days))


async def _create(dsn: str, name: str, scopes: Sequence[str], days: int | None) -> dict[str, Any]:
    parsed, token = parse_scopes(scopes), new_token()
    async with Database(dsn) as database, database.transaction() as tx:
        bootstrap = await ensure_instance(tx)
        view = await tokens.create(
            tx,
            bootstrap.instance_id,
            bootstrap.owner_member_id,
            name=name,
            token_sha256=token_hash(token),
            scopes=parsed,
            expires_at=None if days is None else datetime.now(UTC) + timedelta(days=days),
        )
    return {
        "id": view.token_id,
        "name": view.name,
        "scopes": [scope.value for scope in view.scopes],
        "token": token,
    }
