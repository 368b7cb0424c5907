"""One command brings up the whole system and the agent does a job on this machine."""

import json
import platform
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.e2e.system import Running, System, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]


def nothing_is_left(system: System) -> None:
    assert system.processes() == {}
    assert system.sockets() == []
    names = {path.name for path in system.home.iterdir()}
    assert not names & {"up.lock", "server.lock", "local.json"}


def test_up_once_does_the_job_on_a_fresh_home_and_leaves_nothing_running(system: System) -> None:
    done = system.farhand("up", "--once", "run uname -a on this machine")
    assert done.status == 0, done.err
    uname = subprocess.run(["uname", "-a"], capture_output=True, check=True).stdout
    assert uname in done.stdout
    for step in ("database ready", "server ready", "enrolment ready", "this machine ready"):
        assert step in done.err
    assert "uname -a" in done.err  # progress as it happened
    nothing_is_left(system)


def test_up_once_exits_as_the_command_did(system: System) -> None:
    done = system.farhand("up", "--once", "run sh -c 'echo no >&2; exit 7' on this machine")
    assert done.status == 7, done.err
    assert b"no\n" in done.stdout
    nothing_is_left(system)


def test_up_once_that_is_answered_exits_0_and_one_that_asks_exits_3(system: System) -> None:
    answered = system.farhand("up", "--once", "which machines do I have?")
    assert answered.status == 0, answered.err
    assert "1" in answered.out
    asked = system.farhand("up", "--once", "run uname -a on the-moon")
    assert asked.status == 3, asked.err
    assert "the-moon" in asked.out
    assert platform.system() not in asked.out  # nothing ran anywhere


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--once"], "needs a text"),
        (["--once", " "], "is empty"),
        (["--twice"], "'--twice' is unknown"),
        (["--once", "run", "ls"], "quote"),
    ],
)
def test_up_misused_says_how_and_exits_2(system: System, arguments: list[str], said: str) -> None:
    done = system.farhand("up", *arguments)
    assert done.status == 2
    assert done.err.startswith("farhand: cannot start: ")
    assert done.err.count("\n") == 1
    assert said in done.err


class TestWhileItIsUp:
    @pytest.fixture(scope="class")
    @staticmethod
    def up(system: System):
        with system.up() as running:
            yield running

    def test_it_says_where_it_is(self, up: Running, system: System) -> None:
        where = up.wait_for("Farhand runs at http://127.0.0.1:")
        assert str(system.home) in where
        assert "without a sandbox" in up.text

    def test_the_commands_it_tells_to_copy_work_as_they_are(
        self, up: Running, system: System
    ) -> None:
        chat = up.wait_for("in another terminal: ").partition("terminal: ")[2].strip()
        sign_in = up.wait_for("another one: ").partition("another one: ")[2]
        for command in (chat, sign_in.partition(";")[0].rstrip(") \n")):
            done = system.run_shell(command)
            assert done.status == 0, done.err
        assert not system.run_shell("command -v farhand").out, "and it is on no PATH"

    def test_the_local_token_is_private(self, up: Running, system: System) -> None:
        assert (system.home / "token").stat().st_mode & 0o777 == 0o600
        assert system.home.stat().st_mode & 0o777 == 0o700

    def test_a_second_up_says_that_one_runs_and_where(self, up: Running, system: System) -> None:
        for arguments in ([], ["--once", "run uname -a on this machine"]):
            second = system.farhand("up", *arguments)
            assert second.status == 1
            assert second.err.count("\n") == 1
            assert "already runs in" in second.err
            assert f"(process {up.process.pid})" in second.err
            assert "at http://127.0.0.1:" in second.err

    def test_chat_answers_a_question_without_a_ticket(self, up: Running, system: System) -> None:
        before = system.farhand("tickets", "list", "--json").json()["items"]
        done = system.farhand("chat", "which machines do I have?")
        assert done.status == 0, done.err
        name = system.farhand("machines", "list", "--json").json()["items"][0]["name"]
        assert name in done.out
        assert system.farhand("tickets", "list", "--json").json()["items"] == before

    def test_chat_runs_a_command_and_exits_as_it_did(self, up: Running, system: System) -> None:
        done = system.farhand("chat", "run sh -c 'printf \"\\000\\377\"; exit 5' on this machine")
        assert done.status == 5, done.err
        assert b"\x00\xff" in done.stdout  # not a terminal: the very bytes

    def test_a_request_for_a_machine_that_is_not_there_becomes_one_question(
        self, up: Running, system: System
    ) -> None:
        done = system.farhand("chat", "--conversation", "moon", "run hostname on the-moon")
        assert done.status == 3, done.err
        assert done.out.count("?") == 1
        first = system.farhand("tickets", "list", "--json").json()["items"][0]
        assert (first["stage"], first["needs"]) == ("needs_person", "answer")
        name = system.farhand("machines", "list", "--json").json()["items"][0]["name"]
        assert system.farhand("tickets", "answer", first["id"][-8:], name).status == 0
        until(
            "the answered ticket runs and closes",
            lambda: system.farhand("tickets", "show", first["id"], "--json").json()["outcome"],
        )
        shown = system.farhand("tickets", "show", first["id"], "--json").json()
        assert shown["outcome"] == "done"
        assert [command["machine"] for command in shown["commands"]] == [name]

    def test_listings_have_one_shape(self, up: Running, system: System) -> None:
        machines = system.farhand("machines", "list", "--json").json()
        assert set(machines) == {"items", "next_cursor"}
        assert {"id", "name", "status", "presence", "trust_level", "labels"} <= set(
            machines["items"][0]
        )
        assert machines["items"][0]["presence"] == "online"
        assert machines["items"][0]["trust_level"] == "trusted"
        tickets = system.farhand("tickets", "list", "--json").json()
        assert {"id", "title", "stage", "needs", "outcome", "machines"} <= set(tickets["items"][0])
        tokens = system.farhand("tokens", "list", "--json").json()
        assert [token["name"] for token in tokens["items"]] == ["local"]

    def test_every_verb_speaks_for_people_too(self, up: Running, system: System) -> None:
        for verb in (
            ("machines", "list"),
            (
                "machines",
                "show",
                system.farhand("machines", "list", "--json").json()["items"][0]["name"],
            ),
            ("tickets", "list"),
            (
                "tickets",
                "show",
                system.farhand("tickets", "list", "--json").json()["items"][0]["id"],
            ),
            ("tokens", "list"),
            ("doctor",),
        ):
            done = system.farhand(*verb)
            assert done.status == 0, (verb, done.err, done.out)
            assert done.out.strip()

    def test_a_token_of_ones_own_works_through_the_environment(
        self, up: Running, system: System
    ) -> None:
        url = json.loads((system.home / "local.json").read_text())["url"]
        made = system.farhand("tokens", "create", "ci", "--scope", "read", "--json").json()
        other = {"FARHAND_HOME": str(system.folder / "elsewhere"), "FARHAND_URL": url}
        seen = system.farhand("machines", "list", FARHAND_TOKEN=made["token"], **other)
        assert seen.status == 0, seen.err
        refused = system.farhand("chat", "hello", FARHAND_TOKEN=made["token"], **other)
        assert refused.status == 1
        assert "lacks the scope 'chat'" in refused.err
        assert system.farhand("tokens", "revoke", made["id"]).status == 0
        gone = system.farhand("machines", "list", FARHAND_TOKEN=made["token"], **other)
        assert gone.status == 1
        assert "revoked" in gone.err

    @pytest.mark.parametrize(
        ("arguments", "status", "said"),
        [
            (["chat", ""], 1, "cannot send: the message is empty"),
            (["chat", "x" * 100_000], 1, "65,536 bytes"),
            (["machines", "show", "nobody"], 1, "cannot find machine 'nobody'"),
            (["tickets", "show", "feedbeef"], 1, "cannot find ticket 'feedbeef'"),
            (["machines", "paint"], 2, "no such command"),
            (["machines", "list", "--colour"], 2, "--colour"),
        ],
    )
    def test_bad_input_is_one_line_that_says_what_to_do(
        self, up: Running, system: System, arguments: list[str], status: int, said: str
    ) -> None:
        done = system.farhand(*arguments)
        assert done.status == status, done.err
        assert done.err.startswith("farhand: cannot ")
        assert done.err.count("\n") == 1
        assert "Traceback" not in done.err
        assert said.lower() in done.err.lower()

    def test_a_message_of_1_mb_names_its_size_and_the_limit(
        self, up: Running, system: System
    ) -> None:
        # Longer than one argument may be, so it comes by the prompt.
        done = system.farhand("chat", stdin=b"x" * 1_000_000 + b"\n")
        assert done.status == 1
        assert "1,000,000 bytes" in done.err
        assert "65,536 bytes" in done.err


def test_ctrl_c_leaves_nothing_and_the_next_up_finds_everything(
    new_system: Callable[..., System],
) -> None:
    system = new_system()
    with system.up():
        assert system.farhand("chat", "run echo one on this machine").status == 0
        machine = system.farhand("machines", "list", "--json").json()["items"][0]["id"]
        ticket = system.farhand("tickets", "list", "--json").json()["items"][0]["id"]
    nothing_is_left(system)
    ports = json.loads((system.home / "ports.json").read_text())
    with system.up() as again:
        assert "enrolment" not in again.text
        assert system.farhand("machines", "list", "--json").json()["items"][0]["id"] == machine
        assert system.farhand("tickets", "list", "--json").json()["items"][0]["id"] == ticket
        assert json.loads((system.home / "ports.json").read_text()) == ports
    nothing_is_left(system)


def test_ctrl_c_stops_what_runs_and_says_why(new_system: Callable[..., System]) -> None:
    system = new_system()
    with system.up():
        chat = system.start("farhand", "chat", "run sleep 1000 on this machine")
        chat.wait_for("running sleep 1000")
        until("it runs", lambda: any("sleep 1000" in p for p in system.processes().values()))
        chat.process.send_signal(signal.SIGINT)
        assert chat.ended() == 130
    nothing_is_left(system)
    with system.up():
        commands = until(
            "the result is there",
            lambda: [
                one
                for one in _commands(system)
                if one["result"] and one["result"]["reason"] == "shutdown"
            ],
        )
        assert commands[0]["title"] == "sleep 1000"


def _commands(system: System) -> list[dict]:
    ticket = system.farhand("tickets", "list", "--json").json()["items"][0]["id"]
    return system.farhand("tickets", "show", ticket, "--json").json()["commands"]
