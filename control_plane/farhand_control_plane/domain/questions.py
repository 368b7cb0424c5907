"""A question's life: pending until settled once. No answer is not yes: it stays pending."""

from typing import Final

from farhand_control_plane.domain.words import QuestionState
from farhand_shared.errors import Conflict

SETTLED: Final = frozenset(QuestionState) - {QuestionState.PENDING}

_HOW: Final = {
    QuestionState.ANSWERED: "it was answered",
    QuestionState.DENIED: "it was denied",
    QuestionState.EXPIRED: "it expired with its ticket",
    QuestionState.SUPERSEDED: "it is no longer asked",
}


def settle(state: QuestionState, into: QuestionState) -> QuestionState:
    """Return the new state; raise Conflict, saying how it ended, when it was settled before."""
    if state is not QuestionState.PENDING:
        raise Conflict(f"cannot answer the question: {_HOW[state]}; read it again")
    if into not in SETTLED:
        raise Conflict("cannot leave a question pending: it is")
    return into
