"""Moments of the API as people say them, in this computer's own time."""

from datetime import UTC, datetime
from typing import Any


def near(moment: str, now: datetime | None = None) -> str:
    """Return a moment as short as it stays clear: 14:02, tomorrow 14:02, 2026-12-24 14:02."""
    at = datetime.fromisoformat(moment).astimezone()
    today = (datetime.now(UTC) if now is None else now).astimezone().date()
    match (at.date() - today).days:
        case 0:
            return at.strftime("%H:%M")
        case 1:
            return at.strftime("tomorrow %H:%M")
        case -1:
            return at.strftime("yesterday %H:%M")
        case _:
            return at.strftime("%Y-%m-%d %H:%M")


def span(since: str, until: str, now: datetime | None = None) -> str:
    """Return how long something waits: ``since 14:02, until tomorrow 14:02``."""
    return f"since {near(since, now)}, until {near(until, now)}"


def waiting(command: dict[str, Any], now: datetime | None = None) -> str:  # command: JSON
    """Return what a command waits for and how long, empty for one that does not wait."""
    if not command["waiting"]:
        return ""
    who = f"{command['machine']}, which is {command['waiting_because']},"
    return f"waiting for {who} {span(command['queued_at'], command['start_expires_at'], now)}"
