"""Machines that nobody sits at: environments made for tickets, and one that root has set up.

What a real cloud-init, systemd and container engine would do is not tried here: the script that
cloud-init runs is, as root for another account and as an ordinary user for their own.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ORDINARY
from tests.e2e.conftest import _python_for as python_for
from tests.e2e.system import Running, System, User, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

NEEDED = ("cffi", "cryptography", "grpcio", "platformdirs", "protobuf", "pycparser", "typing_ext")
FRESH = "on a fresh environment"


@pytest.fixture(scope="module")
def user() -> User:
    """An ordinary one: what differs for root is tried with the managed machine."""
    return User.named(ORDINARY) if os.getuid() == 0 else User.current()


@pytest.fixture(scope="module")
def yard(new_system: Callable[..., System]) -> Iterator[System]:
    """`farhand up` that makes environments; after Ctrl-C nothing of them is left."""
    system = new_system()
    system.environ |= {
        "FARHAND_PROVISIONER": "local_process",
        "FARHAND_ENVIRONMENT_GRACE_S": "0",
    }
    with system.up():
        yield system
        made = system.farhand("machines", "create", "--wait", "--json")
        assert made.status == 0, made.err
    assert environments(system) == ([], [])


def environments(system: System) -> tuple[list[str], list[str]]:
    """Return the folders of environments, and what runs in them."""
    folder = system.home / "environments"
    names = [path.name for path in folder.glob("*/*")]
    lines = [line for line in system.processes().values() if str(folder) in line]
    return names, lines


def is_gone(system: System) -> bool:
    listed = system.farhand("provisioners", "list", "--json").json()["items"]
    (ours,) = [one for one in listed if one["in_use"]]
    return ours["environments"] == 0 and environments(system) == ([], [])


def test_a_ticket_runs_in_an_environment_of_its_own_that_goes_with_it(yard: System) -> None:
    done = yard.farhand("chat", f'run echo "at $PWD"; echo mine > ~/file; id -u {FRESH}')
    assert done.status == 0, done.err
    assert f"at {yard.home}/environments/" in done.out
    assert f"\n{yard.user.uid}\n" in done.out
    assert "being made" in done.err
    until("nothing of it is left", lambda: is_gone(yard))


def test_a_server_that_is_killed_in_the_middle_takes_nothing_along_and_leaves_nothing(
    yard: System,
) -> None:
    gate = yard.folder / "gate"
    command = f"echo begun > {gate}; while [ -e {gate} ]; do sleep 0.1; done; echo over {FRESH}"
    talking = yard.start("farhand", "chat", f"run {command}")
    until("it runs", gate.exists)
    os.kill(yard.pid_of("server"), signal.SIGKILL)
    names, lines = environments(yard)
    assert len(names) == 1
    assert lines, "the environment does not live by the server"
    until("there is a server again", lambda: yard.farhand("machines", "list").status == 0)
    gate.unlink()
    assert talking.ended() == 0, talking.text
    assert "over" in talking.out
    until("nothing of it is left", lambda: is_gone(yard))


def test_a_server_that_is_killed_while_it_makes_one_makes_it_once(yard: System) -> None:
    made, other = (yard.farhand("machines", "create").out.split()[0] for _ in range(2))
    refused = yard.farhand("machines", "create")
    assert refused.status == 1
    assert f"you have 2 ({made}, {other}), the limit is 2; close a ticket or" in refused.err
    listed = yard.farhand("provisioners", "list").out
    assert "2 of 4" in listed
    assert [line.split()[0] for line in listed.splitlines() if line.startswith("env-")] == [
        made,
        other,
    ]
    os.kill(yard.pid_of("server"), signal.SIGKILL)

    def shown() -> dict[str, str]:
        listed = yard.farhand("machines", "list", "--json")
        items = listed.json()["items"] if listed.status == 0 else []
        return next((one for one in items if one["name"] == made), {})

    until("it is online", lambda: shown().get("presence") == "online")
    assert shown()["kind"] == "on_demand"
    done = yard.farhand("exec", made, "--", "pwd")
    assert (done.status, done.out.strip().endswith("/work")) == (0, True), done.err
    assert len(environments(yard)[0]) == 2, "each of the two once"
    for name in (made, other):
        destroyed = yard.farhand("machines", "destroy", name, "--yes", "--wait")
        assert destroyed.out == f"{name} is gone.\n", destroyed.err
    assert environments(yard) == ([], [])


def test_what_work_would_go_to_is_explained(yard: System) -> None:
    explained = yard.farhand("machines", "explain", "kind=on-demand os=linux")
    assert explained.out.startswith("local_process makes a fresh environment\n"), explained.err
    here = yard.farhand("machines", "explain", "kind=managed")
    assert "it is personal" in here.out
    own = yard.farhand("machines", "list").out.splitlines()[0].split()
    assert own[:3] == ["NAME", "KIND", "STATUS"]
    personal = json.loads((yard.home / "local.json").read_text())["machine_name"]
    refused = yard.farhand("machines", "destroy", personal, "--yes")
    assert "it is a personal machine" in refused.err


# ── a managed machine ───────────────────────────────────────────────────────────────────────────


@pytest.fixture
def wheels(e2e_folder: Path, wheelhouse: Path) -> Path:
    folder = e2e_folder / "dependencies"
    if not folder.exists():
        folder.mkdir()
        for wheel in wheelhouse.glob("*.whl"):
            if wheel.name.lower().startswith(NEEDED):
                shutil.copy(wheel, folder)
    return folder


def test_a_managed_machine_is_set_up_without_a_question(
    yard: System, e2e_folder: Path, wheels: Path
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed, and the script is for it")
    # Root sets it up for another account, an ordinary user for their own.
    setter, account = User.current(), yard.user
    folder = e2e_folder / "managed"
    folder.mkdir()
    printed = yard.farhand(
        "machines", "add", "--managed", "--name", "runner", "--label", "team=infra"
    )
    assert printed.status == 0, printed.err
    script = (
        printed.out.replace("/var/lib/farhandd", f"{folder}/home")
        .replace("/etc/farhandd", f"{folder}/etc")
        .replace("/etc/systemd/system", f"{folder}/units")
        .replace("account=farhand\n", f"account={account.name}\n")
        .replace("User=farhand\n", f"User={account.name}\n")
    )
    done = subprocess.run(
        ["/bin/sh"],
        input=script.encode(),
        capture_output=True,
        check=False,
        cwd="/",
        env={
            "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHON": python_for(account.name),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
        },
        **setter.options(),
    )
    said = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, said
    (words,) = [line for line in said.splitlines() if "Six words" in line]
    confirmed = yard.farhand(
        "machines", "confirm", "runner", "--words", words.partition(": ")[2].strip()
    )
    assert confirmed.status == 0, confirmed.err
    assert "no systemd is in charge here" in said
    (line,) = [line for line in said.splitlines() if "no systemd" in line]
    command = line.partition(f"run as {account.name}: ")[2].split()
    unit = (folder / "units" / "farhandd.service").read_text()
    assert f"ExecStart={' '.join(command)}\n" in unit, "what a person runs is what the unit runs"

    running = Running(
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "HOME": f"{folder}/home"},
            **account.options(),
        )
    )
    try:
        running.wait_for("connected as runner")
        one = yard.farhand("machines", "show", "runner", "--json").json()
        assert (one["kind"], one["trust_level"], one["chosen_by"]) == (
            "managed",
            "trusted",
            "preset",
        )
        assert one["labels"] == {"team": "infra"}
        ran = yard.farhand("exec", "--shell", "runner", "--", "pwd; id -un")
        assert ran.out.split() == [f"{folder}/home/work", account.name], ran.err
        chosen = yard.farhand("machines", "explain", "kind=managed label:team=infra")
        assert chosen.out.startswith("runner: "), chosen.err
    finally:
        running.process.send_signal(signal.SIGTERM)
        running.ended()
