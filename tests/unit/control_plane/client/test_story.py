"""Which events belong to a message, while others talk in the same conversation."""

from typing import Any

from farhand_control_plane.client.story import Story


def story(*, eval_id: str | None = None, delivered_to: tuple[str, ...] = ()) -> Story:
    return Story.of(
        {
            "trigger_id": "mine",
            "thread_id": "thread",
            "eval_id": eval_id,
            "delivered_to": list(delivered_to),
        }
    )


def event(
    name: str, /, *, ticket: str | None = None, subject: str | None = None, **payload: Any
) -> dict[str, Any]:
    return {
        "seq": 1,
        "kind": name,
        "subject_id": subject,
        "thread_id": "thread",
        "ticket_id": ticket,
        "payload": payload,
    }


def reply(*, ticket: str | None = None, to: str | None = None) -> dict[str, Any]:
    return event("reply_sent", ticket=ticket, kind="reply", reply_to_trigger_id=to)


def test_the_ticket_of_its_own_eval_is_followed_and_no_other() -> None:
    mine = story(eval_id="e1")
    assert not mine.hear(event("ticket_opened", ticket="other", eval_id="e2"))
    assert mine.hear(event("ticket_opened", ticket="t1", eval_id="e1"))
    assert mine.hear(event("eval_closed", ticket="t1", eval_id="e1", verdict="accept"))
    assert mine.hear(event("command_started", ticket="t1"))
    assert not mine.hear(event("command_started", ticket="other"))
    assert mine.hear(reply(ticket="t1"))


def test_an_answer_to_somebody_else_in_the_conversation_is_not_ours() -> None:
    mine = story(eval_id="e1")
    mine.hear(event("ticket_opened", ticket="t1", eval_id="e1"))
    assert not mine.hear(reply(to="theirs"))
    assert not mine.hear(reply())
    assert not mine.hear(event("eval_closed", eval_id="e2", verdict="answer"))


def test_an_answer_to_the_message_is_ours_and_judged_by_its_own_eval() -> None:
    mine = story(eval_id="e1")
    assert mine.hear(reply(to="mine"))
    assert not mine.is_judged
    assert mine.hear(event("eval_closed", eval_id="e1", verdict="answer"))
    assert mine.is_judged


def test_a_reply_that_names_no_message_answers_who_waits_for_judgement() -> None:
    assert story(eval_id="e1").hear(reply())
    assert not story(delivered_to=("t1",)).hear(reply())


def test_what_was_only_delivered_is_handed_back_and_then_judged() -> None:
    mine = story(delivered_to=("t1", "t2"))
    assert not mine.hear(event("command_ended", ticket="t1"))
    assert mine.hear(event("trigger_handed_back", ticket="t1", subject="mine"))
    assert not mine.hear(event("trigger_handed_back", ticket="t1", subject="theirs"))
    assert mine.hear(event("trigger_handed_back", ticket="t2", subject="mine"))
    assert not mine.held_by
    assert not mine.hear(event("eval_opened", subject="e8", trigger_ids=["theirs"]))
    assert mine.hear(event("eval_opened", subject="e9", trigger_ids=["mine"]))
    assert mine.hear(event("eval_closed", eval_id="e9", verdict="answer"))
    assert not mine.hear(event("ticket_closed", ticket="t1"))


def test_a_ticket_that_takes_the_message_as_an_answer_is_followed() -> None:
    mine = story(delivered_to=("t1",))
    assert not mine.hear(event("question_settled", ticket="t1", trigger_id="theirs"))
    assert mine.hear(event("question_settled", ticket="t1", trigger_id="mine"))
    assert mine.hear(event("command_started", ticket="t1"))


def test_a_ticket_that_reports_having_read_the_message_is_followed() -> None:
    mine = story(delivered_to=("t1",))
    assert not mine.hear(event("report_made", ticket="t1", trigger_ids=[]))
    assert mine.hear(event("report_made", ticket="t1", trigger_ids=["mine"]))
    assert mine.hear(reply(ticket="t1"))


def test_a_ticket_that_closes_with_the_message_has_kept_it() -> None:
    assert story(delivered_to=("t1",)).hear(event("ticket_closed", ticket="t1"))


def test_an_attached_message_may_still_be_handed_back() -> None:
    mine = story(eval_id="e1")
    assert mine.hear(event("eval_closed", ticket="t1", eval_id="e1", verdict="attach"))
    assert not mine.hear(event("command_ended", ticket="t1"))
    assert mine.hear(event("trigger_handed_back", ticket="t1", subject="mine"))


def test_what_was_taken_first_and_handed_back_later_is_followed_no_more() -> None:
    mine = story(delivered_to=("t1",))
    mine.hear(event("report_made", ticket="t1", trigger_ids=["mine"]))
    assert mine.hear(event("trigger_handed_back", ticket="t1", subject="mine"))
    assert not mine.hear(event("command_ended", ticket="t1"))
