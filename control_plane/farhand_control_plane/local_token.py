"""The token that the local instance's command line uses: made by the server, kept 0600."""

import os

from farhand_control_plane.config import Settings
from farhand_control_plane.db import tokens
from farhand_control_plane.db.bootstrap import Bootstrap
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.access import ALL_SCOPES, new_token, token_hash
from farhand_shared.errors import Unavailable


async def ensure_local_token(settings: Settings, database: Database, bootstrap: Bootstrap) -> None:
    """See that the token file opens this instance; write a new token when it does not."""
    path = settings.token_file
    try:
        stored = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        stored = ""
    async with database.transaction() as tx:
        if stored:
            caller = await tokens.authenticate(tx, token_hash(stored))
            if caller is not None and caller.instance_id == bootstrap.instance_id:
                return
        token = new_token()
        await tokens.create(
            tx,
            bootstrap.instance_id,
            bootstrap.owner_member_id,
            name="local",
            token_sha256=token_hash(token),
            scopes=ALL_SCOPES,
        )
        # Inside the transaction: a token that nobody holds would stay for ever.
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(token + "\n")
            fresh.replace(path)
        except OSError as error:
            raise Unavailable(
                f"cannot write the local token {path}: {error.strerror}; make the home writable"
            ) from error
