"""Open questions to people, whether a Ticket asks or the Router itself."""

from typing import Annotated

from fastapi import APIRouter, Depends

from farhand_control_plane.api import shapes
from farhand_control_plane.api.access import Chatter, Reader
from farhand_control_plane.api.services import Services, services_of
from farhand_control_plane.db import questions
from farhand_control_plane.db.questions import QuestionView
from farhand_control_plane.db.tokens import Caller
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.ingest.tickets import answer_question
from farhand_shared.errors import NotFound
from farhand_shared.ids import QuestionId

router = APIRouter(prefix="/v1/questions", tags=["questions"])

_Services = Annotated[Services, Depends(services_of)]


class QuestionAnswerAsked(shapes.Asked):
    answer: str


@router.get("")
async def list_questions(caller: Reader, services: _Services) -> shapes.Page[shapes.Question]:
    """List open questions, oldest first."""
    async with services.database.transaction() as tx:
        found = await questions.open_(tx, caller.instance_id)
    return shapes.Page(items=[shapes.question(view) for view in found])


@router.get("/{question_id}")
async def show_question(question_id: str, caller: Reader, services: _Services) -> shapes.Question:
    """Show a question, open or settled."""
    async with services.database.transaction() as tx:
        return shapes.question(await _find(tx, caller, question_id))


@router.post("/{question_id}/answer")
async def answer(
    question_id: str, asked: QuestionAnswerAsked, caller: Chatter, services: _Services
) -> shapes.Question:
    """Answer a question; the first answer counts."""
    async with services.database.transaction() as tx:
        found = await _find(tx, caller, question_id)
        await answer_question(
            tx, caller.instance_id, found.question_id, caller.member_id, asked.answer
        )
        settled = await questions.get(tx, caller.instance_id, found.question_id)
    return shapes.question(settled or found)


async def _find(tx: Tx, caller: Caller, question_id: str) -> QuestionView:
    found = await questions.get(tx, caller.instance_id, QuestionId(question_id))
    if found is None:
        raise NotFound(f"cannot find question {question_id!r}")
    return found
