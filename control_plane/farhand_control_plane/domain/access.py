"""What an API token opens, and the text forms of tokens and of the other secrets that people hold.

Each kind has a prefix of its own, so that one is never taken for another: a session's secret that
is presented as a token is refused by its shape, also by releases that know nothing of sessions.
"""

import base64
import hashlib
import secrets
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from farhand_shared.errors import InvalidInput
from farhand_shared.ids import InstanceId

# They mark a secret for people and scanners.
TOKEN_PREFIX: Final = "fh_"  # noqa: S105  # no secret
SESSION_PREFIX: Final = "fhs_"  # of a browser's session; it lives in a cookie
PAGE_KEY_PREFIX: Final = "fhp_"  # the other half of a session; it lives in the page's storage
LINK_PREFIX: Final = "fhl_"  # of a sign-in link

_SECRET_BYTES: Final = 32
_SECRET_CHARACTERS: Final = 43  # 32 bytes in base64url without padding

SIGN_IN_LINK_S: Final = 15 * 60
SESSION_S: Final = 30 * 24 * 3600


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
    return new_secret(TOKEN_PREFIX)


def new_secret(prefix: str) -> str:
    """Return a fresh secret of the kind that the prefix marks."""
    return prefix + base64.urlsafe_b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()[:-1]


def is_secret(prefix: str, text: str) -> bool:
    """Tell whether the text has the form of such a secret."""
    return text.startswith(prefix) and len(text) == len(prefix) + _SECRET_CHARACTERS


def token_hash(token: str) -> bytes:
    """Return what the database knows of a token, or of another secret.

    One round of SHA-256 is enough: the token is 256 random bits, so nothing can be guessed.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def session_cookie(instance_id: InstanceId) -> str:
    """Return the name of the cookie that holds a session's secret.

    A browser sends the cookies of a host to all its ports, so each Farhand there has a name of its
    own. An id begins with the time, which two instances may share; its end is random.
    """
    return f"farhand_{instance_id.replace('-', '')[-8:]}"


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
