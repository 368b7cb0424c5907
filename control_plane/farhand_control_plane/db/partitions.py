"""The weeks of stored output: partitions made ahead of time, dropped when they are old."""

from datetime import datetime
from typing import Final

from farhand_control_plane.db.transaction import Tx

WEEKS_AHEAD: Final = (
    8  # a deployment that never runs its upkeep falls back to the default partition
)


async def make_output_weeks(tx: Tx, *, weeks_ahead: int = WEEKS_AHEAD) -> int:
    """Make the partitions of this and the coming weeks, once a day; returns how many were new."""
    cursor = await tx.execute("select farhand_make_output_weeks(%s) as made", (weeks_ahead,))
    row = await cursor.fetchone()
    return int(row["made"]) if row else 0


async def drop_output_before(tx: Tx, moment: datetime) -> int:
    """Drop the weeks that ended before ``moment``; returns how many. Cheap: no row is deleted."""
    cursor = await tx.execute("select farhand_drop_output_before(%s) as dropped", (moment,))
    row = await cursor.fetchone()
    return int(row["dropped"]) if row else 0
