"""A message to the agent, followed to its end: progress as it comes, the reply, an exit code.

`farhand chat` and `farhand up --once` share it. What a command wrote is fetched by its id and shown
as it is: the agent's prose never retells it.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from farhand_control_plane.client.api import Api, Body, Refused, path_with
from farhand_shared.errors import FarhandError, Unavailable
from farhand_shared.exec_frames import FrameDecoder, FrameKind

WAITS_FOR_A_PERSON: Final = 3
# How long the server may be away while we follow: a restart takes seconds.
RESUME_FOR_S: Final = 300.0
_RESUME_FIRST_S: Final = 0.1
_RESUME_CAP_S: Final = 2.0
# Of each stream, what a terminal is shown; everything goes to a file or a pipe.
_SHOWN_BYTES: Final = 16 * 1024

Event = dict[str, Any]  # one of GET /v1/events


class Screen(Protocol):
    """Where a conversation is shown."""

    @property
    def for_people(self) -> bool:
        """True on a terminal: output is cut and made harmless; False: all its bytes go out."""
        ...

    def progress(self, text: str) -> None:
        """Show that something happens, beside the answer."""
        ...

    def reply(self, text: str) -> None:
        """Show what the agent says."""
        ...

    def heading(self, text: str) -> None:
        """Say whose output follows."""
        ...

    def output(self, data: bytes) -> None:
        """Show what a command wrote."""
        ...


@dataclass(slots=True, kw_only=True)
class _Followed:
    """What belongs to the message, as far as the events told."""

    thread_id: str
    eval_id: str | None
    tickets: list[str] = field(default_factory=list)
    verdict: str = ""
    replied: bool = False
    asked: bool = False  # the last reply was a question


def say(
    api: Api,
    text: str,
    screen: Screen,
    *,
    conversation: str,
    client_message_id: str,
    this_machine: str | None = None,
) -> int:
    """Send a message, show what comes of it, and return the exit code."""
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
    followed = _Followed(
        thread_id=accepted["thread_id"],
        eval_id=accepted["eval_id"],
        tickets=list(accepted["delivered_to"]),
    )
    if followed.tickets:
        screen.progress("passed on to the work that is under way")
    for event in events(api, accepted["events_after"], screen):
        status = _take(api, event, followed, screen)
        if status is not None:
            return status
    raise Unavailable("cannot follow the conversation: the server ended it; see farhand tickets")


def events(api: Api, after: int | None, screen: Screen | None = None) -> Iterator[Event]:
    """Yield events numbered above ``after`` (None: from now on), over many connections at need."""
    wait_s, away_since = _RESUME_FIRST_S, 0.0
    while True:
        try:
            body = api.open("GET", path_with("/v1/events", {"after": after}))
            with contextlib.closing(body):
                for event in _parsed(body.chunks()):
                    wait_s, away_since = _RESUME_FIRST_S, 0.0
                    after = event["seq"]
                    yield event
            broken: FarhandError = Unavailable("the server ended the stream")
        except Unavailable as error:
            broken = error
        except Refused as error:
            if error.status < 500:
                raise
            broken = error
        now = time.monotonic()
        if not away_since:
            away_since = now
        elif now - away_since > RESUME_FOR_S:
            raise Unavailable(f"cannot follow any longer: {broken}") from broken
        elif screen is not None and wait_s == _RESUME_CAP_S:
            screen.progress("the server is away; waiting for it")
        time.sleep(wait_s)  # nothing tells us when the server is back
        wait_s = min(wait_s * 2, _RESUME_CAP_S)


def _parsed(chunks: Iterator[bytes]) -> Iterator[Event]:
    """Yield the events of a server-sent stream; comments and ids need no attention."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n\n")
        for block in whole:
            for line in block.split(b"\n"):
                if line.startswith(b"data: "):
                    yield json.loads(line[len(b"data: ") :])


def _take(api: Api, event: Event, followed: _Followed, screen: Screen) -> int | None:
    """Show one event; return the exit code when the story is over."""
    ticket_id, payload = event["ticket_id"], event["payload"]
    if event["thread_id"] == followed.thread_id:
        if ticket_id and ticket_id not in followed.tickets and event["kind"] == "ticket_opened":
            followed.tickets.append(ticket_id)
    elif ticket_id is None or ticket_id not in followed.tickets:
        return None
    match event["kind"]:
        case "eval_closed":
            return _eval_closed(event, followed, screen)
        case "ticket_opened":
            screen.progress(f"taken on as ticket {short(ticket_id)}: {payload.get('title', '')}")
        case "command_started":
            screen.progress(f"{payload['machine']}: running {payload['title']}")
        case "command_waiting":
            screen.progress(f"waiting for {payload['machine']}, which is offline")
        case "command_ended":
            screen.progress(f"{payload['machine']}: {_ended(payload)} {payload['title']}")
        case "reply_sent":
            return _reply_sent(api, event, followed, screen)
        case "ticket_closed":
            return _finish(api, ticket_id)
        case _:  # a later server tells more
            pass
    return None


def _eval_closed(event: Event, followed: _Followed, screen: Screen) -> int | None:
    payload = event["payload"]
    followed.verdict = payload["verdict"]
    match followed.verdict:
        case "accept" | "attach":
            ticket_id = payload.get("ticket_id") or event["ticket_id"]
            if ticket_id and ticket_id not in followed.tickets:
                followed.tickets.append(ticket_id)
        case "ignore":
            screen.reply(f"Nothing is done: {payload.get('reason') or 'it asks for nothing'}")
            return 0
        case "unavailable":
            screen.progress("the model does not answer; trying again")
        case _:  # answer, stop: their reply follows, or came first
            if followed.replied:
                return WAITS_FOR_A_PERSON if followed.asked else 0
    return None


def _reply_sent(api: Api, event: Event, followed: _Followed, screen: Screen) -> int | None:
    payload = event["payload"]
    if payload["kind"] == "acknowledgement":
        screen.progress(payload["text"])
        return None
    followed.replied, followed.asked = True, payload["kind"] == "question"
    screen.reply(payload["text"])
    for command_id in payload["command_ids"]:
        _show_command(api, command_id, screen)
    ticket_id = event["ticket_id"] or (followed.tickets[-1] if followed.tickets else None)
    if ticket_id is not None:
        ticket = api.get(f"/v1/tickets/{ticket_id}")
        if ticket["stage"] in ("closed", "needs_person"):
            return _status_of(ticket)
        return WAITS_FOR_A_PERSON if followed.asked else None
    if followed.asked:
        return WAITS_FOR_A_PERSON
    return 0 if followed.verdict in ("answer", "stop") else None


def _finish(api: Api, ticket_id: str) -> int:
    return _status_of(api.get(f"/v1/tickets/{ticket_id}"))


def _status_of(ticket: dict[str, Any]) -> int:  # as GET /v1/tickets/{id} has it
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


def _show_command(api: Api, command_id: str, screen: Screen) -> None:
    """Show what a command wrote, all of it or its ends."""
    command = api.get(f"/v1/commands/{command_id}", head=_SHOWN_BYTES, tail=_SHOWN_BYTES)
    status = command["exit_status"]
    how = command["state"] if status is None else f"exit {status}"
    screen.heading(f"{command['machine']} $ {command['title']}  [{how}]")
    body = None if screen.for_people else _whole_output(api, command["attempt_id"])
    if body is None:
        for name in ("stdout", "stderr"):
            stream = command[name]
            screen.output(stream["head"].encode("utf-8", "replace"))
            if stream["omitted_bytes"]:
                screen.heading(f"… {stream['omitted_bytes']:,} bytes of {name} not shown …")
            screen.output(stream["tail"].encode("utf-8", "replace"))
        return
    decoder = FrameDecoder()
    with contextlib.closing(body):
        for chunk in body.chunks():
            for frame in decoder.feed(chunk):
                if frame.kind in (FrameKind.STDOUT, FrameKind.STDERR):
                    screen.output(frame.payload)
                elif frame.kind is FrameKind.OMITTED:
                    gap = frame.json()
                    screen.progress(f"{gap['length']:,} bytes of {gap['stream']} were not kept")


def _whole_output(api: Api, attempt_id: str) -> Body | None:
    """Return the bytes of both streams; None when the token in hand may only read text."""
    try:
        return api.open("GET", f"/v1/attempts/{attempt_id}/output?stdout=0&stderr=0")
    except Refused as error:
        if error.status == 403:
            return None
        raise


def _ended(payload: dict[str, Any]) -> str:
    status = payload.get("exit_status")
    return f"{payload['state']}," if status is None else f"exit {status} from"


def short(identifier: str) -> str:
    """Return the end of an id, which tells ids of the same moment apart."""
    return identifier[-8:]
