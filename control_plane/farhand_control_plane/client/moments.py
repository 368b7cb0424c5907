"""Moments of the API as people say them, in this computer's own time."""

from datetime import UTC, datetime


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
