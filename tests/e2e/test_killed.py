"""kill -9 of anything in mid-ticket: the command runs once, its whole output is there."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.system import System, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

LINES = 50


def script(system: System) -> str:
    """A command that notes each start and writes for some seconds."""
    return (
        f"echo $$ >> {system.folder}/starts; "
        f"for i in $(seq {LINES}); do echo line $i; sleep 0.1; done"
    )


def starts(system: System) -> int:
    with contextlib.suppress(FileNotFoundError):
        return len((system.folder / "starts").read_text().split())
    return 0


def whole_output() -> str:
    return "".join(f"line {number}\n" for number in range(1, LINES + 1))


def ran_once_and_whole(system: System) -> None:
    ticket = system.farhand("tickets", "list", "--json").json()["items"][0]
    until("the ticket closes", lambda: _show(system, ticket["id"])["outcome"])
    shown = _show(system, ticket["id"])
    assert shown["outcome"] == "done"
    (command,) = shown["commands"]
    assert command["state"] == "exited"
    assert command["exit_status"] == 0
    assert command["stdout_bytes"] == len(whole_output())
    assert starts(system) == 1


def _show(system: System, ticket_id: str) -> dict:
    return system.farhand("tickets", "show", ticket_id, "--json").json()


@pytest.mark.parametrize("victim", ["server", "daemon", "database"])
def test_one_process_is_killed_and_the_chat_goes_on_to_the_whole_answer(
    new_system: Callable[..., System], victim: str
) -> None:
    system = new_system()
    with system.up() as up:
        chat = system.start("farhand", "chat", f"run {script(system)} on this machine")
        until("it has started", lambda: starts(system))
        os.kill(system.pid_of(victim), signal.SIGKILL)
        up.wait_for(f"the {victim} has ended")
        assert chat.ended() == 0, chat.text + up.text
        assert whole_output() in chat.text + "\n"
        ran_once_and_whole(system)


def test_everything_is_killed_and_the_next_up_finishes_the_ticket(
    new_system: Callable[..., System],
) -> None:
    system = new_system()
    with system.up() as up:
        chat = system.start("farhand", "chat", f"run {script(system)} on this machine")
        until("it has started", lambda: starts(system))
        system.kill_everything(up.process.pid)
        up.ended()
    assert starts(system) == 1
    with system.up() as again:
        ran_once_and_whole(system)
        assert chat.ended() == 0, chat.text  # whoever asked is still told
        assert whole_output() in chat.text + "\n"
        assert "enrolment" not in again.text


def test_up_alone_is_killed_and_the_next_up_waits_for_its_children(
    new_system: Callable[..., System],
) -> None:
    system = new_system()
    with system.up() as up:
        up.process.kill()
        up.ended()
        with system.up():
            assert system.farhand("exec", _own(system), "--", "true").status == 0


def _own(system: System) -> str:
    return str(system.farhand("machines", "list", "--json").json()["items"][0]["name"])


def test_up_once_is_killed_at_any_moment_and_the_next_one_works(
    new_system: Callable[..., System],
) -> None:
    """Killed while it sets everything up, at moments spread over the start."""
    system = new_system()
    for moment_s in (0.1, 0.5, 1.0, 2.0, 4.0):
        running = system.start("farhand", "up", "--once", "run uname -a on this machine")
        time.sleep(moment_s)  # the moment of the kill is the point
        system.kill_everything(running.process.pid)
        running.ended()
    done = system.farhand("up", "--once", "run uname -a on this machine")
    assert done.status == 0, done.err
    assert "Linux" in done.out


def test_a_killed_server_is_replaced_on_the_same_ports(new_system: Callable[..., System]) -> None:
    system = new_system()
    with system.up() as up:
        ports = (system.home / "ports.json").read_text()
        for number in (1, 2):
            os.kill(system.pid_of("server"), signal.SIGKILL)
            up.wait_for("server ready again", times=number)
        assert (system.home / "ports.json").read_text() == ports
        until("the daemon is back", lambda: _is_online(system))
        assert system.farhand("chat", "run true on this machine").status == 0


def _is_online(system: System) -> bool:
    listed = system.farhand("machines", "list", "--json")
    return listed.status == 0 and listed.json()["items"][0]["presence"] == "online"


def test_a_stop_that_is_asked_twice_does_not_wait_and_the_command_is_adopted(
    new_system: Callable[..., System],
) -> None:
    system = new_system()
    with system.up() as up:
        stubborn = f"trap '' TERM; {script(system)}"
        system.start("farhand", "chat", f"run {stubborn} on this machine")
        until("it has started", lambda: starts(system))
        up.process.send_signal(signal.SIGINT)
        up.wait_for("stopping")
        up.process.send_signal(signal.SIGINT)
        assert up.ended() == 0
    with system.up():
        commands = until("it has ended", lambda: _ended(system))
        assert starts(system) == 1
        assert commands[0]["state"] == "exited"


def _ended(system: System) -> list[dict]:
    ticket = system.farhand("tickets", "list", "--json").json()["items"][0]["id"]
    return [one for one in _show(system, ticket)["commands"] if one["result"]]


def test_a_stop_ends_the_command_whose_supervisor_was_killed(
    new_system: Callable[..., System],
) -> None:
    system = new_system()
    with system.up():
        long = f"echo $$ >> {system.folder}/starts; sleep 300; echo end >> {system.folder}/end"
        system.start("farhand", "chat", f"run {long} on this machine")
        until("it has started", lambda: starts(system))
        pid = int((system.folder / "starts").read_text())
        os.kill(_parent_of(pid), signal.SIGKILL)
        (command,) = until("nobody can tell how it ends", lambda: _ended(system))
        assert command["state"] == "indeterminate"
        assert f"process {pid} still runs on the machine" in command["result"]["error"]
        assert _exists(pid)
        ticket = system.farhand("tickets", "list", "--json").json()["items"][0]["id"]
        stopped = system.farhand("tickets", "stop", ticket)
        assert stopped.status == 0, stopped.err
        until("nothing of it is left", lambda: not _exists(pid))
        assert not (system.folder / "end").exists()


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _exists(pid: int) -> bool:
    """Whether a process of its group lives; a zombie counts until it is reaped."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True
