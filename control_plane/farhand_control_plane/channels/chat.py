"""The chat's write side: our own record is what the page and the CLI read."""

from farhand_control_plane.channels.channel import NotSent, SendResult, Sent
from farhand_control_plane.db.outbox import OutboxView


class ChatChannel:
    """Delivers by the record itself: the reply event and ``sent`` commit together."""

    record_is_delivery = True

    async def send(self, row: OutboxView) -> SendResult:
        """The relay's transaction is the send."""
        return Sent(receipt={})

    async def reconcile(self, row: OutboxView) -> SendResult:
        """What is not recorded as sent was not: the two commit together."""
        return NotSent(error="not recorded")
