"""`farhand chat`: say one thing and follow it, or talk."""

import shlex
import sys
import threading
from dataclasses import dataclass, field

from farhand_control_plane.cli.session import api, note
from farhand_control_plane.client import conversation
from farhand_control_plane.client.api import Api, Target, complaint
from farhand_control_plane.client.conversation import Claims, Following
from farhand_control_plane.client.screen import MutedScreen, PromptScreen, TerminalScreen
from farhand_control_plane.own_program import farhand
from farhand_shared.errors import FarhandError, InvalidInput
from farhand_shared.ids import new_id

_MAIN = "main"  # the conversation when none is named


def chat(text: str | None, *, conversation_name: str, machine: str | None) -> int:
    """Send ``text`` and show what comes of it; talk line by line when it is None."""
    server = api()
    this_machine = machine or server.target.this_machine
    if text is None:
        server.close()
        talk = _Talk(server.target, conversation_name, this_machine)
        return talk.with_a_person() if sys.stdin.isatty() else talk.with_a_program()
    if not text.strip():
        raise InvalidInput('cannot send: the message is empty; farhand chat "TEXT"')
    again = f"{farhand()} chat"
    if conversation_name != _MAIN:
        again += f" --conversation {shlex.quote(conversation_name)}"
    try:
        return conversation.say(
            server,
            text,
            TerminalScreen(),
            conversation=conversation_name,
            client_message_id=new_id(),
            this_machine=this_machine,
            answer_with=again,
        )
    except KeyboardInterrupt:
        note(_left())
        return 130


def _left() -> str:
    return f"Not followed any longer; the work goes on: {farhand()} tickets list"


@dataclass(slots=True, kw_only=True)
class _Sent:
    """A message of the talk, followed in a thread of its own."""

    following: Following
    screen: MutedScreen
    status: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def follow(self) -> None:
        try:
            self.status = self.following.run()
        except FarhandError as error:
            self.screen.progress(f"farhand: {complaint(str(error), 'follow')}")
            self.status = 1
        except BrokenPipeError:  # whoever read our output has gone
            self.status = 141
        finally:
            self.over.set()


class _Talk:
    """Lines become messages; each is followed while the next ones are typed."""

    def __init__(self, target: Target, conversation_name: str, this_machine: str | None) -> None:
        self._target = target
        self._conversation = conversation_name
        self._this_machine = this_machine
        self._claims = Claims()
        self._screen = PromptScreen()
        self._sent: list[_Sent] = []
        self._refused = False  # the last line could not be sent

    def with_a_person(self) -> int:
        """Read from a terminal; Ctrl-C leaves what is followed, then the chat."""
        import readline  # noqa: F401  # gives input() its editing and history

        note("Talk to the agent; Ctrl-D ends.")
        while True:
            try:
                with self._screen.prompting("> ") as prompt:
                    line = input(prompt)
            except EOFError:
                status = self._status()
                self._leave()
                return status
            except KeyboardInterrupt:
                if not self._leave():
                    return 130
                continue
            self._send(line)

    def with_a_program(self) -> int:
        """Read from a pipe or file: a line is sent once the one before is under way or over."""
        try:
            for line in sys.stdin:
                sent = self._send(line.rstrip("\n"))
                if sent is not None:
                    sent.following.under_way.wait()
            for sent in self._sent:
                sent.over.wait()
        except KeyboardInterrupt:
            note(_left())
            return 130
        return self._status()

    def _send(self, line: str) -> _Sent | None:
        if not line.strip():
            return None
        screen = MutedScreen(self._screen)
        try:
            following = conversation.send(
                Api(self._target),
                line.strip(),
                screen,
                conversation=self._conversation,
                client_message_id=new_id(),
                this_machine=self._this_machine,
                claims=self._claims,
                answer_with="type",
            )
        except FarhandError as error:
            self._screen.progress(f"farhand: {complaint(str(error), 'send')}")
            self._refused = True
            return None
        self._refused = False
        sent = _Sent(following=following, screen=screen)
        self._sent.append(sent)
        threading.Thread(target=sent.follow, name="follow", daemon=True).start()
        return sent

    def _leave(self) -> bool:
        """Stop showing what is followed; tell whether there was anything."""
        left = [sent for sent in self._sent if not sent.over.is_set()]
        for sent in left:
            sent.screen.mute()
        if left:
            self._screen.progress(_left())
        self._sent.clear()
        return bool(left)

    def _status(self) -> int:
        """Return the exit code that the last message has so far."""
        if self._refused:
            return 1
        return self._sent[-1].status if self._sent else 0
