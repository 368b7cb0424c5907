"""The moments at which a process may die, named so that a test can kill it at each of them."""

from collections.abc import Callable
from typing import Final

# The fenced transactions of a step, in the order in which a step with calls makes them; then those
# of a step that does not go well.
COMMITS: Final = ("think", "act", "waits", "results", "release", "put_back", "park", "tombstone")

# "claimed" and "thought" (the model has answered, nothing is stored), then before and after each
# commit.
POINTS: Final = (
    "claimed",
    "thought",
    *(f"{commit}.{side}" for commit in COMMITS for side in ("before_commit", "committed")),
)

Points = Callable[[str], None]


def unobserved(point: str) -> None:
    """What production does at a point: nothing."""
