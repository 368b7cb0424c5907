"""Which events belong to one message: several people and shells may talk in one conversation.

A message is judged (an eval of its own) or brought to the tickets that hear the conversation. Those
may keep it, which makes their answers its answers, or hand it back, and then it is judged.
"""

from dataclasses import dataclass, field
from typing import Any

from farhand_control_plane.client.events import Event


@dataclass(slots=True, kw_only=True)
class Story:
    """What has become of one message, as far as the events have told."""

    trigger_id: str
    thread_id: str
    evals: set[str] = field(default_factory=set)  # that judge it
    held_by: set[str] = field(default_factory=set)  # tickets that have it and have not said a word
    tickets: list[str] = field(default_factory=list)  # that it opened or that took it
    verdict: str = ""

    @classmethod
    def of(cls, accepted: dict[str, Any]) -> "Story":  # accepted: JSON of POST /v1/chat
        return cls(
            trigger_id=accepted["trigger_id"],
            thread_id=accepted["thread_id"],
            evals={accepted["eval_id"]} - {None},
            held_by=set(accepted["delivered_to"]),
        )

    def hear(self, event: Event) -> bool:
        """Take an event in; tell whether it belongs to the message."""
        payload, ticket_id = event["payload"], event["ticket_id"]
        match event["kind"]:
            case "eval_opened" if self.trigger_id in payload.get("trigger_ids", ()):
                self.evals.add(event["subject_id"])
                return True
            case "eval_closed" if payload["eval_id"] in self.evals:
                self.verdict = payload["verdict"]
                if self.verdict == "attach" and ticket_id is not None:
                    self.held_by.add(ticket_id)
                return True
            case "ticket_opened" if payload.get("eval_id") in self.evals:
                self._take(ticket_id)
                return True
            case "trigger_handed_back" if event["subject_id"] == self.trigger_id:
                self.held_by.discard(ticket_id)
                if ticket_id in self.tickets:
                    self.tickets.remove(ticket_id)
                return True
            case "question_settled" if payload.get("trigger_id") == self.trigger_id:
                self._take(ticket_id)
                return True
            case "report_made" if self.trigger_id in payload.get("trigger_ids", ()):
                self._take(ticket_id)
                return True
            case "ticket_closed" if ticket_id in self.held_by:
                # What was not read is handed back before; so it was read, and kept to the end.
                self._take(ticket_id)
                return True
            case "reply_sent" if ticket_id not in self.tickets:
                return self._is_answer(event)
            case "model_unavailable" if ticket_id is None:
                return not self.verdict and not self.tickets
            case _:
                return ticket_id is not None and ticket_id in self.tickets

    @property
    def is_judged(self) -> bool:
        """True while nothing but a reply is to come."""
        return not self.tickets and self.verdict in ("answer", "stop", "ignore")

    def _take(self, ticket_id: str) -> None:
        self.held_by.discard(ticket_id)
        if ticket_id not in self.tickets:
            self.tickets.append(ticket_id)

    def _is_answer(self, event: Event) -> bool:
        to = event["payload"].get("reply_to_trigger_id")
        if to is not None:
            return bool(to == self.trigger_id)
        # The model need not say what it answers. Then it answers whoever in the conversation waits.
        waiting = not self.tickets and not self.held_by
        return event["ticket_id"] is None and event["thread_id"] == self.thread_id and waiting
