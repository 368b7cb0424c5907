"""A second machine: another home and another environment, with nothing but the daemon in it."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.system import Running, System, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def second(new_system: Callable[..., System], url: str) -> System:
    """Another user's folder, with the daemon's wheel installed and nothing else."""
    other = new_system(distribution="farhand-daemon")
    other.environ["FARHAND_DAEMON_HOME"] = str(other.folder / "daemon home")
    return other


@pytest.fixture(scope="module")
def enrolled(system: System, second: System, url: str) -> Iterator[Running]:
    """The second machine: enrolled by prompt, confirmed by its six words, running."""
    made = system.farhand("machines", "add", "--name", "second", "--json").json()
    enrolling = second.start(
        "farhandd", "enroll", url, "--name", "ignored-hint", stdin=subprocess.PIPE
    )
    assert enrolling.process.stdin is not None
    enrolling.process.stdin.write(f"{made['code'].lower()}\nyes\n".encode())
    enrolling.process.stdin.close()
    words = enrolling.wait_for("Six words").partition(": ")[2].split()
    assert len(words) == 6
    pending = system.farhand("machines", "show", "second", "--json").json()
    assert pending["status"] == "pending"
    assert pending["words"] == words

    # Nothing runs there before its maker has confirmed.
    early = system.farhand("exec", "second", "--", "true")
    assert early.status == 125
    assert "six words" in early.err

    wrong = system.farhand("machines", "confirm", "second", "--words", "a b c d e f")
    assert wrong.status == 1
    declined = system.farhand("machines", "confirm", "second", stdin=b"no\n")
    assert declined.status == 1
    assert "stays pending" in declined.err
    confirmed = system.farhand("machines", "confirm", "second", stdin=b"yes\n")
    assert confirmed.status == 0, confirmed.err
    assert " ".join(words) in confirmed.out
    assert enrolling.ended() == 0

    running = second.start("farhandd", "run")
    until("it is online", lambda: _presence(system) == "online")
    yield running
    if running.process.poll() is None:
        running.process.send_signal(signal.SIGTERM)
    running.ended()


def _presence(system: System) -> str:
    return str(system.farhand("machines", "show", "second", "--json").json()["presence"])


def test_a_request_runs_on_the_machine_that_it_names(
    system: System, second: System, enrolled: Running
) -> None:
    there = system.farhand("chat", "run pwd on second")  # a machine's first root is its own
    assert there.status == 0, there.err
    assert str(second.folder) in there.out
    here = system.farhand("chat", "run pwd on this machine")
    assert str(system.folder) in here.out
    assert str(second.folder) not in here.out


def test_exec_reaches_the_machine_that_it_names(
    system: System, second: System, enrolled: Running
) -> None:
    done = system.farhand("exec", "--shell", "second", "--", "pwd; id -u")
    assert done.status == 0, done.err
    assert done.out == f"{second.folder}\n{second.user.uid}\n"


def test_both_machines_are_listed_and_told(system: System, enrolled: Running) -> None:
    listed = system.farhand("machines", "list", "--json").json()["items"]
    assert len(listed) == 2
    assert {one["presence"] for one in listed} == {"online"}
    told = system.farhand("chat", "which machines do I have?")
    assert all(one["name"] in told.out for one in listed)


def test_a_request_that_names_no_machine_is_never_a_guess(
    system: System, enrolled: Running
) -> None:
    before = system.farhand("tickets", "list", "--json").json()["items"]
    done = system.farhand("chat", "--conversation", "vague", "run uname -a")
    assert done.status == 3, done.err  # it waits for a person
    assert "You named no machine. Which one shall run `uname -a`?" in done.out
    assert "Linux" not in done.out
    after = system.farhand("tickets", "list", "--json").json()["items"]
    (asking,) = [one for one in after if one["id"] not in {known["id"] for known in before}]
    assert (asking["stage"], asking["needs"]) == ("needs_person", "answer")
    assert system.farhand("tickets", "stop", asking["id"]).status == 0


def test_status_and_doctor_on_the_machine_say_that_all_is_well(
    second: System, enrolled: Running
) -> None:
    status = second.run("farhandd", "status")
    assert status.status == 0, status.err
    assert "second" in status.out
    doctor = second.run("farhandd", "doctor")
    wrong = [line for line in doctor.out.splitlines() if line.startswith("FAIL")]
    # How long the account's own profile takes is not ours to say.
    assert [line for line in wrong if "environment" not in line] == [], doctor.out + doctor.err


def test_the_environment_of_a_command_holds_nothing_of_ours(
    system: System, enrolled: Running
) -> None:
    for machine in ("second", _own(system)):
        seen = system.farhand("exec", machine, "--", "env").out
        assert "FARHAND" not in seen
        assert "GRPC" not in seen


def _own(system: System) -> str:
    return str(json.loads((system.home / "local.json").read_text())["machine_name"])


class TestCodesThatDoNotOpen:
    def enroll(self, second: System, url: str, code: str) -> tuple[int, str]:
        done = second.run(
            "farhandd", "enroll", url, "--home", str(second.folder / "third"),
            stdin=f"{code}\nyes\n".encode(),
        )  # fmt: skip
        assert "Traceback" not in done.err
        return done.status, done.err.splitlines()[-1]

    def test_a_used_code(self, system: System, second: System, enrolled: Running, url: str) -> None:
        made = system.farhand("machines", "add", "--name", "fourth", "--json").json()
        fourth = str(second.folder / "fourth")
        first = second.run(
            "farhandd", "enroll", url, "--home", fourth, "--no-wait", "--trust", "off",
            stdin=f"{made['code']}\n".encode(),
        )  # fmt: skip
        assert first.status == 0, first.err
        status, said = self.enroll(second, url, made["code"])
        assert status == 1
        assert said.startswith("farhandd: cannot ")
        assert system.farhand("machines", "revoke", "fourth", "--yes").status == 0

    def test_a_mistyped_code(self, system: System, second: System, url: str) -> None:
        made = system.farhand("machines", "add", "--json").json()["code"]
        flipped = made[:-1] + ("A" if made[-1] != "A" else "B")
        status, said = self.enroll(second, url, flipped)
        assert status == 1
        assert "code" in said
        assert flipped not in said

    def test_a_code_of_another_server(
        self, new_system: Callable[..., System], second: System, system: System, url: str
    ) -> None:
        other = new_system()
        with other.up():
            made = other.farhand("machines", "add", "--json").json()["code"]
        status, said = self.enroll(second, url, made)
        assert status == 1
        assert "cannot trust" in said

    def test_no_server_there(self, second: System) -> None:
        status, said = self.enroll(second, "http://127.0.0.1:9", "FH1-whatever")
        assert status == 1
        assert "cannot reach http://127.0.0.1:9" in said


def test_work_for_an_offline_machine_waits_and_runs_when_it_is_back(
    system: System, second: System, enrolled: Running
) -> None:
    enrolled.process.send_signal(signal.SIGTERM)
    enrolled.ended()
    until("it is offline", lambda: _presence(system) == "offline")
    refused = system.farhand("exec", "second", "--", "true")
    assert refused.status == 125
    assert "offline" in refused.err
    marker = second.folder / "ran"
    chat = system.start("farhand", "chat", f"run sh -c 'echo ran >> {marker}' on second")
    chat.wait_for("waiting for second, which is offline")
    waiting = system.start("farhand", "exec", "--wait-offline", "second", "--", "echo", "patience")
    listed = system.farhand("tickets", "list").out
    assert "waits for second" in listed
    again = second.start("farhandd", "run")
    assert chat.ended() == 0, chat.text
    assert waiting.ended() == 0, waiting.text
    assert waiting.out == ["patience"]
    assert marker.read_text() == "ran\n"
    again.process.send_signal(signal.SIGTERM)
    again.ended()


def test_a_revoked_machine_is_gone_for_good(system: System, second: System) -> None:
    running = second.start("farhandd", "run")
    until("it is online", lambda: _presence(system) == "online")
    asked = system.farhand("machines", "revoke", "second", stdin=b"no\n")
    assert asked.status == 1
    machine = system.farhand("machines", "show", "second", "--json").json()["id"]
    assert system.farhand("machines", "revoke", "second", stdin=b"yes\n").status == 0
    until("its daemon has ended", lambda: running.process.poll() is not None, within_s=10)
    assert "revoked" in running.text
    gone = system.farhand("exec", "second", "--", "true")
    assert gone.status == 125
    shown = system.farhand("machines", "show", machine, "--json").json()
    assert shown["status"] == "revoked"
    assert shown["presence"] == "offline"


def test_the_daemons_environment_is_light(second: System) -> None:
    """What a machine gets holds nothing of the control plane."""
    packages = {
        path.name.partition("-")[0].lower()
        for path in second.bin.parent.glob("lib/*/site-packages/*")
    }
    assert not packages & {"fastapi", "pydantic", "httpx", "sqlmodel", "openai", "psycopg", "typer"}
