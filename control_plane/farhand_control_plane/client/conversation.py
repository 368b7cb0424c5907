"""A message to the agent, followed to its end: progress as it comes, the reply, an exit code.

`farhand chat` and `farhand up --once` share it. What a command wrote is shown as it is: the agent's
prose never retells it.
"""

import threading
import time
from typing import Any, Final

from farhand_control_plane.client.api import Api, segment
from farhand_control_plane.client.events import Event, events
from farhand_control_plane.client.output import LiveOutput, heading_of
from farhand_control_plane.client.screen import Screen
from farhand_control_plane.client.story import Story
from farhand_control_plane.domain.plain_words import end_words
from farhand_control_plane.own_program import farhand
from farhand_shared.command import TERMINAL
from farhand_shared.errors import Unavailable

WAITS_FOR_A_PERSON: Final = 3
# A reply that the model forgot, and a machine that does not prove the end of what was stopped, are
# not waited for without end. The server's heartbeats are how finely this is kept.
LAST_WORDS_S: Final = 20.0
PROOF_S: Final = 30.0
TELL_AFTER_S: Final = 10.0  # that nothing has come of a message yet
_ENDED: Final = frozenset(state.value for state in TERMINAL)


class Claims:
    """What several followers of one screen have shown: each thing is shown by the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: set[object] = set()

    def first(self, key: object) -> bool:
        with self._lock:
            is_first = key not in self._taken
            self._taken.add(key)
            return is_first


def say(
    api: Api,
    text: str,
    screen: Screen,
    *,
    conversation: str,
    client_message_id: str,
    this_machine: str | None = None,
    answer_with: str = "",
) -> int:
    """Send a message, show what comes of it, and return the exit code."""
    following = send(
        api,
        text,
        screen,
        conversation=conversation,
        client_message_id=client_message_id,
        this_machine=this_machine,
        answer_with=answer_with,
    )
    return following.run()


def send(
    api: Api,
    text: str,
    screen: Screen,
    *,
    conversation: str,
    client_message_id: str,
    this_machine: str | None = None,
    claims: Claims | None = None,
    answer_with: str = "",
) -> "Following":
    """Send a message and return what follows it.

    ``answer_with``: how the user can say something in this conversation again, for questions.
    """
    accepted = api.post(
        "/v1/chat",
        {
            "text": text,
            "conversation": conversation,
            "client_message_id": client_message_id,
            "this_machine": this_machine,
        },
        repeatable=True,  # by its client_message_id
    )
    story = Story.of(accepted)
    return Following(
        api,
        screen,
        story,
        text=text,
        after=accepted["events_after"],
        claims=claims or Claims(),
        answer_with=answer_with,
    )


class Following:
    """One message on its way, followed by one thread; others may wait for ``under_way``."""

    def __init__(
        self,
        api: Api,
        screen: Screen,
        story: Story,
        *,
        text: str,
        after: int,
        claims: Claims,
        answer_with: str,
    ) -> None:
        self._api = api
        self._screen = screen
        self._story = story
        self._text = text
        self._after = after
        self._claims = claims
        self._answer_with = answer_with
        self._live = LiveOutput(Api(api.target), screen)
        self._replied = False
        self._ending: set[str] = set()  # commands of a stopped ticket that have not ended yet
        self._give_up_at = 0.0  # monotonic; 0: nothing is waited for with a limit
        self._began = time.monotonic()
        self._told_waiting = False
        # Set once nothing of the message needs to be waited for before the next one is sent.
        self.under_way = threading.Event()

    def run(self) -> int:
        """Show what happens until the story is over; return the exit code."""
        try:
            for event in events(self._api, self._after, self._screen.progress):
                self._live.check()
                status = self._quiet() if event is None else self._take(event)
                if status is not None:
                    return status
        finally:
            self.under_way.set()
        raise Unavailable(
            f"cannot follow the conversation: the server ended it; see {farhand()} tickets list"
        )

    # ── events ──────────────────────────────────────────────────────────────────────────────────

    def _take(self, event: Event) -> int | None:
        """Show one event if it is ours; return the exit code when the story is over."""
        if not self._story.hear(event):
            return None
        shows = self._claims.first(event["seq"])
        payload = event["payload"]
        match event["kind"]:
            case "eval_closed":
                return self._eval_closed(event)
            case "ticket_opened" if shows:
                title = payload.get("title", "")
                said = "" if title in self._text else f": {title}"
                self._screen.progress(f"ticket {short(event['ticket_id'])}{said}")
            case "command_started":
                self.under_way.set()
                if shows:
                    self._screen.progress(f"{payload['machine']}: running {payload['title']}")
                    if self._claims.first(payload["command_id"]):
                        self._live.follow(payload["command_id"])
            case "command_waiting":
                self.under_way.set()
                if shows:
                    because = payload.get("because", "offline")
                    self._screen.progress(f"waiting for {payload['machine']}, which is {because}")
            case "command_ended":
                return self._command_ended(event, shows=shows)
            case "question_asked" if "command_id" in payload:
                return self._refused(event, shows=shows)
            case "reply_sent":
                return self._reply_sent(event, shows=shows)
            case "ticket_closed":
                return self._ticket_closed(event, shows=shows)
            case "model_unavailable" if shows:
                self._screen.progress(f"{payload['reason']}; trying again")
            case _:  # a later server tells more
                pass
        return None

    def _eval_closed(self, event: Event) -> int | None:
        payload = event["payload"]
        if self._story.verdict == "ignore":
            self._screen.reply(f"Nothing is done: {payload.get('reason') or 'it asks for nothing'}")
            return 0
        if payload.get("observed"):
            self._screen.reply(f"Nothing is done: {payload['reason']}")
            return 0
        if not self._story.is_judged:
            return None
        if self._replied:
            return 0
        self._give_up_at = time.monotonic() + LAST_WORDS_S
        return None

    def _command_ended(self, event: Event, *, shows: bool) -> int | None:
        payload = event["payload"]
        command_id = payload["command_id"]
        self._live.finish(command_id)
        if shows:
            status = payload.get("exit_status")
            how = end_words(payload["state"]) if status is None else f"exit {status}"
            self._screen.progress(f"{payload['machine']}: {how}")
        if command_id in self._ending:
            self._ending.discard(command_id)
            if not self._ending:
                return status_of(self._ticket(event["ticket_id"]))
        return None

    def _refused(self, event: Event, *, shows: bool) -> int:
        """A command was not started as asked: the question about it is no message of the agent."""
        ticket = self._ticket(event["ticket_id"])
        for question in ticket["questions"] if shows else ():
            if question["id"] == event["payload"]["question_id"]:
                self._screen.reply(question["text"])
                self._show_options(question)
        return WAITS_FOR_A_PERSON

    def _reply_sent(self, event: Event, *, shows: bool) -> int | None:
        payload, ticket_id = event["payload"], event["ticket_id"]
        if payload["kind"] == "acknowledgement":  # the ticket has been announced already
            return None
        if shows:
            for command_id in payload["command_ids"]:
                self._show_command(command_id)
            self._screen.reply(payload["text"])
            if payload["question_id"]:
                self._show_question(payload["question_id"])
        asked = payload["kind"] == "question"
        if ticket_id in self._story.tickets:
            ticket = self._ticket(ticket_id)
            if ticket["stage"] in ("closed", "needs_person"):
                return status_of(ticket)
            return WAITS_FOR_A_PERSON if asked else None
        if asked:
            return WAITS_FOR_A_PERSON
        self._replied = True
        return 0 if self._story.is_judged else None

    def _ticket_closed(self, event: Event, *, shows: bool) -> int | None:
        payload, ticket = event["payload"], self._ticket(event["ticket_id"])
        if payload["outcome"] == "done":
            return status_of(ticket)
        if shows:
            reason = f": {payload['reason']}" if payload.get("reason") else ""
            self._screen.progress(f"{payload['outcome']}{reason}")
        self._ending = {one["id"] for one in ticket["commands"] if one["state"] not in _ENDED}
        if self._ending:
            self._give_up_at = time.monotonic() + PROOF_S
            return None
        return status_of(ticket)

    def _quiet(self) -> int | None:
        """Nothing happens: end what is not worth waiting for, say what is waited for."""
        unanswered = self._story.held_by and not self._story.tickets
        if unanswered and not self._told_waiting and time.monotonic() - self._began > TELL_AFTER_S:
            self._told_waiting = True
            names = ", ".join(short(ticket_id) for ticket_id in sorted(self._story.held_by))
            self._screen.progress(f"brought to ticket {names}, which has not answered yet")
        if not self._give_up_at or time.monotonic() < self._give_up_at:
            return None
        if self._ending:
            self._screen.progress(
                f"its machine has not proved the end yet; {farhand()} tickets show"
            )
            return 1
        self._screen.progress(f"closed as {self._story.verdict}, without a word")
        return 0

    # ── showing ─────────────────────────────────────────────────────────────────────────────────

    def _show_command(self, command_id: str) -> None:
        """Show what a command wrote, unless it has been shown; of one that runs, what there is."""
        command = self._api.get(f"/v1/commands/{segment(command_id)}", head=0, tail=0)
        if self._claims.first(command_id):
            self._live.follow(command_id, heading_of(command))
        if command["state"] in _ENDED:
            self._live.finish(command_id)

    def _show_question(self, question_id: str) -> None:
        for question in self._api.get("/v1/questions")["items"]:
            if question["id"] == question_id:
                self._show_options(question)

    def _show_options(self, question: dict[str, Any]) -> None:  # question: JSON
        for line in options_of(question):
            self._screen.reply(line)
        self._screen.progress(how_to_answer(question, self._answer_with))

    def _ticket(self, ticket_id: str) -> dict[str, Any]:
        ticket: dict[str, Any] = self._api.get(f"/v1/tickets/{segment(ticket_id)}")
        return ticket


def status_of(ticket: dict[str, Any]) -> int:  # as GET /v1/tickets/{id} has it
    """Return the exit code for a ticket that closed or waits for a person.

    One command that ended: its own code, whatever was reported. Otherwise 3 while it waits for a
    person, 0 when it was delivered, 1 when not.
    """
    ended = [one["exit_status"] for one in ticket["commands"] if one["exit_status"] is not None]
    if len(ticket["commands"]) == 1 and ended:
        return int(ended[0])
    if ticket["stage"] == "needs_person":
        return WAITS_FOR_A_PERSON
    return 0 if ticket["outcome"] == "done" else 1


def options_of(question: dict[str, Any]) -> list[str]:  # question: JSON
    """Return what a question offers and what happens if nobody answers, as lines."""
    lines = []
    if question["options"]:
        lines.append(f"  options: {', '.join(question['options'])}")
    if question["if_unanswered"]:
        lines.append(f"  unanswered: {question['if_unanswered']}")
    return lines


def how_to_answer(question: dict[str, Any], answer_with: str = "") -> str:  # question: JSON
    """Return the ways to answer a question; ``answer_with`` comes before the general one."""
    example = question["options"][0] if question["options"] else "…"
    about = short(question["ticket_id"] or question["id"])
    here = f'{answer_with} "{example}", or ' if answer_with else ""
    return f'to answer: {here}{farhand()} tickets answer {about} "{example}"'


def short(identifier: str) -> str:
    """Return the end of an id, which tells ids of the same moment apart."""
    return identifier[-8:]
