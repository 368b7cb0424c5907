"""Secrets that do not print, and names that look like secrets."""

import re
from hmac import compare_digest
from typing import Final, NoReturn, final

_MASK: Final = "***"
# Rule: decisions, "Commands and link", login environment.
_LOOKS_SECRET: Final = re.compile(r".*(_TOKEN|_KEY|_SECRET|PASSWORD.*)", re.IGNORECASE | re.DOTALL)


@final
class Secret:
    """A secret's bytes whose repr, str and format are masked; ``reveal`` gives them."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """Return the bytes; call it where they are used, keep them nowhere."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({_MASK})"

    def __str__(self) -> str:
        return _MASK

    def __format__(self, spec: str) -> str:
        return _MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and compare_digest(self._value, other._value)

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle a secret: it would be written out")


def looks_secret(name: str) -> bool:
    """Tell whether a variable of this name is left out of a command's environment by default.

    Matches ``*_TOKEN *_KEY *_SECRET *PASSWORD*`` in any case.
    """
    return _LOOKS_SECRET.fullmatch(name) is not None
