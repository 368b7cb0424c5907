"""What a command waits for, as our programs say it in listings and while they follow one."""

from datetime import datetime
from typing import Any

from farhand_control_plane.client.moments import near, span


def waiting(command: dict[str, Any], now: datetime | None = None) -> str:  # command: JSON
    """Return what a command waits for and how long, empty for one that does not wait."""
    if not command["waiting"]:
        return ""
    who = f"{command['machine']}, which is {command['waiting_because']},"
    return f"waiting for {who} {span(command['queued_at'], command['start_expires_at'], now)}"


def queued_words(state: dict[str, Any]) -> str:  # as the frame has it
    """Return what a queued command waits for, empty when its machine is there."""
    paused = bool(state.get("paused"))
    if state.get("online") and not paused:
        return ""
    until = f"until {near(state['until'])} (Ctrl-C gives up)"
    if paused:
        return f"{state['waiting_for']} is paused; waiting for it to be resumed, {until}"
    return f"{state['waiting_for']} is offline{_since(state, 'seen')}; waiting for it {until}"


def silent_words(state: dict[str, Any], outcome: str) -> str:  # as the frame has it
    """Return that the machine went silent with the command, and what comes of that."""
    return f"{state['machine']} is unreachable{_since(state, 'heard')}; {outcome}"


def _since(state: dict[str, Any], what: str) -> str:
    return f", last {what} {near(state['since'])}" if state.get("since") else ""
