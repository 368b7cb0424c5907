"""Secrets that do not print, and names that look like secrets."""

from typing import final


@final
class Secret:
    """A secret's text or bytes whose repr, str and format are masked; ``reveal`` gives it."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        return self._value


def looks_secret(name: str) -> bool:
    """Tell whether a variable of this name is left out of a command's environment by default."""
    raise NotImplementedError
