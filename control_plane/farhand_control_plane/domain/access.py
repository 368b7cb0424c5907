"""What an API token opens: scopes as words, and the token's text form."""

import base64
import hashlib
import secrets
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from farhand_shared.errors import InvalidInput

TOKEN_PREFIX: Final = "fh_"  # noqa: S105  # marks a token for people and scanners; no secret
_TOKEN_BYTES: Final = 32
TOKEN_CHARACTERS: Final = len(TOKEN_PREFIX) + 43  # 32 bytes in base64url without padding


class Scope(StrEnum):
    """What a token may do; none implies another."""

    CHAT = "chat"  # send messages, answer, accept
    READ = "read"  # see everything of the instance
    EXEC = "exec"  # run and stop commands directly, without a Ticket
    MACHINES = "machines"  # enrol, confirm and revoke machines
    TICKETS = "tickets"  # stop tickets
    TOKENS = "tokens"  # make and revoke tokens


ALL_SCOPES: Final = tuple(Scope)


def new_token() -> str:
    """Return a fresh token: shown once, stored as its hash only."""
    return TOKEN_PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(_TOKEN_BYTES)).decode()[:-1]


def token_hash(token: str) -> bytes:
    """Return what the database knows of a token.

    One round of SHA-256 is enough: the token is 256 random bits, so nothing can be guessed.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def parse_scopes(words: Iterable[str]) -> tuple[Scope, ...]:
    """Return the scopes in their fixed order; raise InvalidInput for an unknown or missing one."""
    asked = set(words)
    if unknown := asked - {scope.value for scope in Scope}:
        raise InvalidInput(
            f"cannot make a token: scope {sorted(unknown)[0]!r} is unknown; "
            f"use some of {', '.join(Scope)}"
        )
    if not asked:
        raise InvalidInput(f"cannot make a token: no scope given; use some of {', '.join(Scope)}")
    return tuple(scope for scope in Scope if scope.value in asked)
