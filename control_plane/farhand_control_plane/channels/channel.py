"""The write side of a Thread: what a channel must offer to the relay."""

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from farhand_control_plane.db.outbox import OutboxView


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The provider has it. ``receipt`` is what the provider said, kept with the row."""

    receipt: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSent:
    """The provider certainly does not have it. ``final``: trying again would not help."""

    error: str
    final: bool = False
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """Tried, and nobody knows: reconciled before any retry."""

    error: str


SendResult: TypeAlias = Sent | NotSent | Unclear


class Channel(Protocol):
    """One kind of source's way out. An exception from ``send`` counts as Unclear."""

    @property
    def record_is_delivery(self) -> bool:
        """True when people read our own record (the chat): sent is then one transaction."""
        ...

    async def send(self, row: OutboxView) -> SendResult:
        """Publish the row once, marked with its idempotency key where the provider lets us."""
        ...

    async def reconcile(self, row: OutboxView) -> SendResult:
        """Look whether the provider has the row; NotSent only when it is proven absent."""
        ...
