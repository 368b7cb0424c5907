"""`farhand chat`: say one thing and follow it, or talk."""

import sys

from farhand_control_plane.cli.session import api, note
from farhand_control_plane.client import conversation
from farhand_control_plane.client.api import Api, complaint
from farhand_control_plane.client.screen import TerminalScreen
from farhand_shared.errors import FarhandError, InvalidInput
from farhand_shared.ids import new_id


def chat(text: str | None, *, conversation_name: str, machine: str | None) -> int:
    """Send ``text`` and show what comes of it; talk line by line when it is None."""
    server = api()
    this_machine = machine or server.target.this_machine
    if text is not None:
        if not text.strip():
            raise InvalidInput('cannot send: the message is empty; farhand chat "TEXT"')
        try:
            return _say(server, text, conversation_name, this_machine)
        except KeyboardInterrupt:
            note("Not followed any longer; the work goes on: farhand tickets list")
            return 130
    return _talk(server, conversation_name, this_machine)


def _say(server: Api, text: str, conversation_name: str, this_machine: str | None) -> int:
    return conversation.say(
        server,
        text,
        TerminalScreen(),
        conversation=conversation_name,
        client_message_id=new_id(),
        this_machine=this_machine,
    )


def _talk(server: Api, conversation_name: str, this_machine: str | None) -> int:
    """Read lines until the end of input; Ctrl-C leaves what is followed, then the chat."""
    people = sys.stdin.isatty()
    if people:
        import readline  # noqa: F401  # gives input() its editing and history

        note("Talk to the agent; Ctrl-D ends.")
    status = 0
    while True:
        try:
            line = input("> " if people else "").strip()
        except EOFError:
            return status
        except KeyboardInterrupt:
            return 130
        if not line:
            continue
        try:
            status = _say(server, line, conversation_name, this_machine)
        except KeyboardInterrupt:
            note("Not followed any longer; the work goes on: farhand tickets list")
        except FarhandError as error:
            note(f"farhand: {complaint(str(error), 'send')}")
            status = 1
