"""The one line of the page: a computer that has nothing of ours becomes a machine that works.

It is run as people run it: in a shell on a terminal, in a fresh home. The server is a real one; the
daemon's dependencies come from the wheelhouse instead of the package index.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.computer import Computer, Terminal, dependencies_in
from tests.e2e.later_release import NEW, carry
from tests.e2e.system import System, until
from tests.fakes.carried_release import Signer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def computer(system: System, url: str, e2e_folder: Path, wheelhouse: Path) -> Iterator[Computer]:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed, and the line is for it")
    wheels = dependencies_in(e2e_folder, wheelhouse)
    folder = e2e_folder / f"a computer of {system.user.name}"
    folder.mkdir(mode=0o700)
    os.chown(folder, system.user.uid, system.user.gid)
    computer = Computer(system, url, folder, wheels)
    yield computer
    computer.close()


@pytest.fixture(scope="module")
def added(computer: Computer) -> tuple[Terminal, str]:
    """The computer, added by the line of the page; its terminal and its name."""
    made = computer.code()
    terminal = computer.line(made["install_line"])
    name = computer.enrols(terminal, made["code"])
    terminal.waits_for("the daemon runs until Ctrl-C")
    until("it is online", lambda: computer.presence(name) == "online")
    return terminal, name


def test_the_line_takes_a_computer_to_its_first_output(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    terminal, name = added
    done = computer.system.farhand("exec", "--shell", name, "--", "pwd; id -u")
    assert done.status == 0, done.err
    assert done.out == f"{computer.folder}\n{computer.user.uid}\n"
    # Nothing was asked that could be known, and nothing of pip's is on the screen.
    questions = [line for line in terminal.shown.splitlines() if line.rstrip().endswith("?")]
    assert questions == []
    assert "WARNING" not in terminal.shown
    # No service manager runs here: it noticed by itself, and said so in one line.
    (why,) = [line for line in terminal.shown.splitlines() if "no service is made: " in line]
    assert "; the daemon runs until Ctrl-C; to start it again: " in why
    link = computer.folder / ".local" / "bin" / "farhandd"
    assert link.readlink() == computer.programs / "current" / "bin" / "farhandd"


def test_the_line_again_leaves_a_running_machine_as_it_is(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    first, name = added
    again = computer.line(computer.code()["install_line"])
    assert again.ended() == 0, again.shown
    assert "installed already" in again.shown
    assert f"this computer is {name} already" in again.shown
    assert re.search(r"its daemon runs \(pid \d+\)", again.shown)
    assert computer.presence(name) == "online"
    assert first.process.poll() is None


def test_another_home_is_another_machine(computer: Computer, added: tuple[Terminal, str]) -> None:
    made = computer.code()
    terminal = computer.line(f"{made['install_line']} -s -- --home 'another home'")
    name = computer.enrols(terminal, made["code"])
    assert name != added[1]
    home = computer.folder / "another home"
    assert f"run --home '{home}'" in terminal.waits_for("to start it again")
    until("it is online", lambda: computer.presence(name) == "online")
    assert (home / "identity.json").exists()
    terminal.types("\x03")
    terminal.ended()
    until("it is offline", lambda: computer.presence(name) == "offline")
    assert computer.presence(added[1]) == "online"


def test_what_it_said_starts_the_daemon_again_and_so_does_the_line(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    first, name = added
    said = first.waits_for("to start it again: ").partition("to start it again: ")[2].strip()
    first.types("\x03")
    first.ended()
    until("it is offline", lambda: computer.presence(name) == "offline")
    for line in (said, computer.code()["install_line"]):
        terminal = computer.line(line)
        until("it is online", lambda: computer.presence(name) == "online")
        terminal.types("\x03")
        terminal.ended()
        until("it is offline", lambda: computer.presence(name) == "offline")


def test_an_installation_that_was_broken_off_is_done_again_and_old_versions_go(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    current = (computer.programs / "current").resolve()
    (current / "complete").unlink()
    shutil.rmtree(current / "lib")
    old = computer.programs / "0123456789abcdef"
    old.mkdir()
    terminal = computer.line(computer.code()["install_line"])
    terminal.waits_for("connected as")
    assert "installing the daemon" in terminal.shown
    assert (current / "complete").exists()
    assert not old.exists() or shutil.which("ps") is None
    terminal.types("\x03")
    terminal.ended()


def test_a_computer_of_another_server_is_told_how_to_be_both(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    identity = computer.folder / ".local" / "share" / "farhandd" / "identity.json"
    kept = identity.read_text()
    identity.write_text(json.dumps(json.loads(kept) | {"server_url": "http://other.example"}))
    terminal = computer.line(computer.code()["install_line"])
    assert terminal.ended() != 0 or "cannot" in terminal.shown
    assert f"this computer is {added[1]} of http://other.example already" in terminal.shown
    assert "sh -s -- --home DIR" in terminal.shown
    identity.write_text(kept)


def test_without_a_terminal_it_installs_and_says_how_to_go_on(computer: Computer) -> None:
    folder = computer.folder / "elsewhere"
    done = subprocess.run(
        [
            "setsid",
            "--wait",
            "sh",
            "-c",
            f"curl -fsSL {computer.url}/install.sh | sh -s -- --home '{folder}'",
        ],
        env=computer._environ,
        cwd=computer.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **computer.user.options(),
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("farhand: cannot enrol: there is no terminal to type the code on")
    assert line.endswith(f"/current/bin/farhandd' enroll {computer.url} --home '{folder}'")


def test_a_revoked_machine_is_enrolled_anew_by_the_same_line(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    name = added[1]
    running = computer.line(computer.code()["install_line"])
    until("it is online", lambda: computer.presence(name) == "online")
    done = computer.system.farhand("machines", "revoke", name, stdin=b"yes\n")
    assert done.status == 0, done.err
    running.ended()
    made = computer.code()
    terminal = computer.line(made["install_line"])
    terminal.waits_for(f"{name} was revoked: it is enrolled anew")
    again = computer.enrols(terminal, made["code"])
    until("it is online", lambda: computer.presence(again) == "online")
    terminal.types("\x03")
    terminal.ended()


def once(computer: Computer) -> None:
    """Try what is the same for every account with an ordinary one."""
    if os.getuid() == 0 and computer.user.uid == 0:
        pytest.skip("it is the same for every account, and tried with an ordinary one")


def test_a_command_lives_through_an_update_to_a_signed_release(
    computer: Computer, added: tuple[Terminal, str], e2e_folder: Path, wheelhouse: Path
) -> None:
    # https://github.com/gravitational/teleport/issues/44482
    once(computer)
    signer, system = Signer.make(), computer.system
    farhandd = f"'{computer.programs}/current/bin/farhandd'"
    home = computer.folder / ".local" / "share" / "farhandd"
    name = json.loads((home / "identity.json").read_text())["machine_name"]
    # As a build with a release key has it.
    (keys,) = computer.programs.glob("current/lib/*/site-packages/farhand_daemon/update/*.txt")
    keys.write_text(f"{signer.public.text}\n")
    text = (home / "machine.toml").read_text()
    (home / "machine.toml").write_text(f"{text}update_probation_s = 4\n")
    (dist,) = system.bin.parent.glob("lib/*/site-packages/farhand_control_plane/_dist")
    folder = carry(dist, dependencies_in(e2e_folder, wheelhouse), signer)

    def shown() -> dict[str, object]:
        return dict(system.farhand("machines", "show", name, "--json").json())

    try:
        daemon = computer.line(f"{farhandd} run")
        until("it is online", lambda: computer.presence(name) == "online")
        go = computer.folder / "go"
        command = f"while [ ! -e '{go}' ]; do sleep 0.1; done; echo alive"
        waiting = system.start("farhand", "exec", "--shell", name, "--", command)
        until("it runs", lambda: shown()["running"] == 1)
        updating = computer.line(f"{farhandd} update")
        updating.waits_for(f"The daemon changes to {NEW} now; running commands go on")
        until("it has passed", lambda: (computer.programs / "previous").exists())
        until("the new version is there", lambda: shown()["daemon_version"] == NEW)
        until("it is online", lambda: computer.presence(name) == "online")
        go.touch()
        assert waiting.ended() == 0, waiting.text
        assert waiting.out == ["alive"]
        assert daemon.process.poll() is None  # the same process on the same terminal
        daemon.types("\x03")
        daemon.ended()
        until("it is offline", lambda: computer.presence(name) == "offline")
    finally:
        shutil.rmtree(folder.parent)
        (home / "machine.toml").write_text(text)


def test_a_machine_whose_words_differ_is_enrolled_anew_by_the_next_line(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    once(computer)
    made = computer.code()
    terminal = computer.line(f"{made['install_line']} -s -- --home 'a refused home'")
    terminal.waits_for("Enrolment code")
    terminal.types(f"{made['code']}\n")
    terminal.waits_for("Type yes")
    terminal.types("yes\n")
    terminal.waits_for("Six words")
    (pending,) = [one for one in computer.machines() if one["status"] == "pending"]
    done = computer.system.farhand("machines", "revoke", str(pending["name"]), stdin=b"yes\n")
    assert done.status == 0, done.err
    assert terminal.ended() != 0 or "was refused or revoked" in terminal.shown
    made = computer.code()
    again = computer.line(f"{made['install_line']} -s -- --home 'a refused home'")
    again.waits_for("it is enrolled anew")
    name = computer.enrols(again, made["code"])
    until("it is online", lambda: computer.presence(name) == "online")
    again.types("\x03")
    again.ended()


def test_where_systemd_runs_a_service_is_made_and_the_line_ends(
    computer: Computer, added: tuple[Terminal, str]
) -> None:
    if computer.user.uid == 0:
        pytest.skip("as root it would be a unit of the computer that runs the tests")
    computer.services.say(system=True, session=True)
    made = computer.code()
    terminal = computer.line(f"{made['install_line']} -s -- --home 'a served home'")
    name = computer.enrols(terminal, made["code"])
    assert terminal.ended() == 0, terminal.shown
    assert "The daemon runs as a service of systemd --user, farhandd-" in terminal.shown
    (unit,) = (computer.folder / ".config" / "systemd" / "user").glob("farhandd-*.service")
    assert ["systemctl", "--user", "restart", unit.name] in computer.services.calls()
    # The fake starts nothing: its command line does, read as systemd reads it.
    words = re.search(r"^ExecStart=/bin/sh -c '.*?' (.*)$", unit.read_text(), re.MULTILINE)
    assert words is not None
    daemon = computer.line(words[1])
    until("it is online", lambda: computer.presence(name) == "online")
    done = computer.line(
        f"'{computer.programs}/current/bin/farhandd' uninstall --yes --home 'a served home'"
    )
    assert done.ended() == 0, done.shown
    daemon.ended()
    assert not unit.exists()
    assert not (computer.folder / "a served home").exists()
    computer.services.say(system=False, session=False)


def test_uninstall_asks_and_leaves_nothing_of_the_last_machine(computer: Computer) -> None:
    def uninstall(home: Path) -> Terminal:
        program = f"'{computer.programs}/current/bin/farhandd'"
        terminal = computer.line(f"{program} uninstall --home '{home}'")
        terminal.waits_for("Type yes to go on")
        terminal.types("yes\n")
        assert terminal.ended() == 0, terminal.shown
        assert "farhand machines revoke" in terminal.shown
        return terminal

    default = computer.folder / ".local" / "share" / "farhandd"
    refused = computer.folder / "a refused home"
    for another in (computer.folder / "another home", *([refused] if refused.exists() else [])):
        assert "The program stays for " in uninstall(another).shown
        assert not another.exists()
    uninstall(default)
    left = [path for path in computer.folder.rglob("*") if "farhand" in path.name]
    assert left == []
