"""The closed vocabularies as people say them: an answer never shows a word of the API."""

from typing import Final

_NEEDS: Final = {
    "answer": "needs your answer",
    "review": "needs your review",
    "delivery": "could not be delivered",
    "blocked": "is blocked and needs you",
    "failed": "failed and needs you",
}
_STAGES: Final = {
    "needs_person": "needs you",
    "queued": "waits for its turn",
    "idle": "has nothing to do at the moment",
    "working": "is being worked on",
    "closed": "is closed",
}
_MACHINES: Final = {
    "pending": "waits to be confirmed",
    "paused": "paused",
    "quarantined": "locked: two computers used its identity",
    "revoked": "revoked",
}
_ENDS: Final = {
    "spawn_error": "could not be started",
    "refused": "was refused",
    "expired": "was not started in time",
    "superseded": "was replaced by another try",
    "cancelled_before_start": "was cancelled before it started",
    "indeterminate": "may have run: nobody can know",
    "lost": "was lost with its machine: how it ended is not known",
    "timeout": "was ended at its time limit",
    "cancel": "was cancelled",
    "shutdown": "was ended because the machine's daemon was stopped",
    "oom": "was ended because the memory was full",
    "signal": "was ended by a signal",
}


def stage_words(stage: str, *, needs: str = "", waits_for: str = "") -> str:
    """Return how a ticket stands: "needs your answer", "waits for laptop"."""
    if stage == "needs_person" and needs in _NEEDS:
        return _NEEDS[needs]
    if stage == "queued" and waits_for:
        return f"waits for {waits_for}"
    return _STAGES.get(stage) or _plain(stage)


def machine_words(presence: str, status: str) -> str:
    """Return how a machine stands: "online", "offline, paused", "waits to be confirmed"."""
    if status == "active":
        return presence
    words = _MACHINES.get(status) or _plain(status)
    return f"{presence}, {words}" if status == "paused" else words


def end_words(state_or_reason: str) -> str:
    """Return how a command ended that did not end by itself, as a predicate: "was cancelled"."""
    return _ENDS.get(state_or_reason) or f"ended: {_plain(state_or_reason)}"


def _plain(word: str) -> str:
    return word.replace("_", " ")
