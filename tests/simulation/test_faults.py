"""The eight fault cases over a bad link; the README says where those are that are not here."""

import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from farhand_control_plane.client.api import Api
from farhand_shared.exec_frames import FrameKind
from farhand_shared.limits import SPOOL_HEAD_BYTES, SPOOL_TAIL_BYTES
from tests.simulation.stage import Client, Stage, processes, until

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(400)]

LINES = 40


class Work:
    """A command that notes its start and writes for some seconds, and its client."""

    def __init__(self, system: Stage) -> None:
        self.starts = system.work / f"starts-{os.urandom(4).hex()}"
        self.client = system.shell(
            f"echo $$ >> {self.starts}; "
            f"for i in $(seq {LINES}); do echo line $i; sleep 0.1; done; exit 3"
        )
        until("it writes", lambda: b"line 3\n" in self.client.stdout)

    def ran_once_and_whole(self) -> None:
        told = self.client.ended()
        assert told.stdout.decode() == "".join(f"line {n}\n" for n in range(1, LINES + 1))
        assert told.status == 3, told.stderr
        assert len(self.starts.read_text().split()) == 1


def attempts(system: Stage, client: Client) -> list[dict]:
    """Return the attempts of the command whose text has ``client``'s mark."""
    return system.sql(
        "select a.* from attempts a join commands c using (instance_id, command_id)"
        " where c.title like %s",
        f"%{client}%",
    )


def epoch(system: Stage) -> int:
    (row,) = system.sql("select epoch from machine_connections")
    return int(row["epoch"])


# ── 1: the link ─────────────────────────────────────────────────────────────────────────────────


def test_a_link_reset_in_mid_command_loses_and_repeats_nothing(system: Stage) -> None:
    work = Work(system)
    assert system.link.cut() >= 1
    work.ran_once_and_whole()
    assert work.client.stderr == ""


def test_a_link_reset_again_and_again_loses_and_repeats_nothing(system: Stage) -> None:
    work = Work(system)
    for line in range(5, LINES, 5):
        with contextlib.suppress(AssertionError):  # it may have ended meanwhile
            until("it goes on", lambda line=line: b"line %d\n" % line in work.client.stdout)
        system.link.cut()
    work.ran_once_and_whole()


def test_a_link_frozen_for_a_while_loses_and_repeats_nothing(system: Stage) -> None:
    work = Work(system)
    system.link.freeze()
    with pytest.raises(AssertionError):
        until("nothing comes", lambda: work.client.process.poll() is not None, within_s=15)
    system.link.thaw()
    work.ran_once_and_whole()
    assert work.client.stderr == ""


def test_a_silent_machine_is_told_and_the_result_comes_when_the_link_is_back(
    system: Stage,
) -> None:
    """Silence is noticed within 25 s and told 10 s later; the design allows a minute in all."""
    work = Work(system)
    system.link.freeze()
    until("the client is told", lambda: "unreachable" in work.client.stderr)
    assert "the command goes on there" in work.client.stderr
    assert work.client.process.poll() is None
    system.link.thaw()
    work.ran_once_and_whole()
    said = work.client.stderr.splitlines()
    assert len(said) == 2, said
    assert said[1] == f"farhand: {system.machine.name} is back"


def test_who_gives_up_on_a_silent_machine_is_told_what_is_waited_for(system: Stage) -> None:
    work = Work(system)
    system.link.freeze()
    until("the client is told", lambda: "unreachable" in work.client.stderr)
    work.client.process.send_signal(signal.SIGINT)
    until("it is told again", lambda: "is stopped when it is back" in work.client.stderr)
    work.client.process.send_signal(signal.SIGINT)
    assert work.client.ended().status == 130


# ── 2: the daemon ───────────────────────────────────────────────────────────────────────────────


def test_a_killed_daemon_leaves_its_command_to_the_next_one_and_the_client_sees_nothing(
    system: Stage,
) -> None:
    work = Work(system)
    system.kill_daemon()
    assert system.mend() == ["daemon"]
    work.ran_once_and_whole()
    assert work.client.stderr == ""


def test_a_killed_parent_of_supervisors_takes_no_command_with_it(system: Stage) -> None:
    work = Work(system)
    assert system.kill_fork_server()
    later = system.exec("echo", "later")
    assert later.ended().stdout == b"later\n"
    work.ran_once_and_whole()


# ── 3: the replica and its database ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gently", [True, False])
def test_exec_resumes_by_itself_when_the_replica_is_restarted(system: Stage, gently: bool) -> None:
    work = Work(system)
    assert system.replica is not None
    system.replica.send_signal(signal.SIGTERM if gently else signal.SIGKILL)
    system.replica.wait()
    assert system.mend() == ["replica"]
    work.ran_once_and_whole()
    assert work.client.stderr == ""
    said = (system.folder / "daemon.log").read_text()  # what the machine's terminal shows
    assert ("the control plane is stopping" if gently else "broke off") in said
    assert not [raw for raw in ("UNAVAILABLE", "UNKNOWN", "ipv4:", "Socket closed") if raw in said]


def test_a_killed_database_is_waited_for(system: Stage) -> None:
    work = Work(system)
    system.kill_database()
    until("the database is back", lambda: "database" in system.mend())
    work.ran_once_and_whole()


# ── 4, 5: what commands leave behind ────────────────────────────────────────────────────────────


def test_a_child_that_holds_the_output_does_not_hold_the_answer(system: Stage) -> None:
    mark = f"9{os.urandom(3).hex()}"
    client = system.exec("bash", "-c", f"(exec -a held-{mark} sleep 300) & echo {mark}; exit 4")
    told = client.ended()
    assert (told.status, told.stdout) == (4, f"{mark}\n".encode())
    held = [pid for pid, line in processes(str(system.work)).items() if f"held-{mark}" in line]
    assert held, "the answer came while the child lives"
    states = attempts(system, mark)
    assert [one["result"]["stdout_left_open"] for one in states if one["exit_code"] == 4] == [True]
    for pid in held:
        os.kill(pid, signal.SIGKILL)


def test_what_ignores_the_request_to_end_is_killed_with_all_its_descendants(
    system: Stage,
) -> None:
    mark = f"stubborn-{os.urandom(4).hex()}"
    script = (
        "trap '' TERM; "  # whoever is started inherits that
        f"setsid bash -c 'exec -a {mark}-far sleep 300' & "
        f"(exec -a {mark}-near sleep 300) & echo ready; wait; sleep 300"
    )
    client = system.exec("bash", "-c", script)
    until("it is ready", lambda: client.stdout == b"ready\n")

    def left() -> list[str]:
        return [line for line in processes(str(system.work)).values() if f"{mark}-" in line]

    until("both descendants are there", lambda: len([x for x in left() if "300" in x]) >= 2)
    client.process.send_signal(signal.SIGINT)
    assert client.ended().status == 130
    (attempt,) = attempts(system, mark)
    assert (attempt["state"], attempt["reason"]) == ("exited", "cancel")
    assert not left()


# ── 6, 7, 8: what commands take and write ───────────────────────────────────────────────────────


def test_an_argument_of_a_megabyte_is_refused_by_name_and_the_link_does_not_notice(
    system: Stage,
) -> None:
    work, before = Work(system), epoch(system)
    body = json.dumps({"machine": system.machine.name, "argv": ["echo", "x" * 1_000_000]})
    frames = system.frames("POST", "/v1/exec", body.encode())
    (end,) = [frame.json()["result"] for frame in frames if frame.kind is FrameKind.EXIT]
    assert end["reason"] == "spawn_error"
    assert "argv[1] is 1,000,001 bytes" in end["error"]  # with the NUL that ends it
    assert "the limit is 131,072 bytes" in end["error"]
    work.ran_once_and_whole()
    assert epoch(system) == before


def test_bytes_that_are_no_text_and_split_characters_come_through_cuts(system: Stage) -> None:
    """Three-byte characters written a byte at a time, and bytes that no text has."""
    written = "€ü漢".encode() * 6 + bytes(range(256))
    pieces = [written[i : i + 1] for i in range(24)] + [written[24:]]
    code = (
        "import base64,os,time\n"
        f"data = base64.b64decode({base64.b64encode(written)!r})\n"
        "for i in range(40): os.write(1, data[i:i+1]); time.sleep(0.05)\n"
        "os.write(1, data[40:])\n"
    )
    assert b"".join(pieces) == written
    client = system.exec("python3", "-c", code)
    for count in (3, 10, 20):
        until("some came", lambda count=count: len(client.stdout) >= count)
        system.link.cut()
    told = client.ended()
    assert told.stdout == written
    assert told.status == 0


def test_one_line_of_100_mib_is_exact_to_its_client_and_counted_in_the_store(
    system: Stage,
) -> None:
    size, mark = 100 << 20, f"line-{os.urandom(4).hex()}"
    client = system.exec("sh", "-c", f": {mark}; head -c {size} /dev/zero | tr '\\0' x")
    told = client.ended()
    assert told.status == 0, told.stderr
    assert len(told.stdout) == size
    (attempt,) = attempts(system, mark)
    stdout = attempt["result"]["stdout"]
    assert stdout["produced"] == size
    assert stdout["sha256"] == hashlib.sha256(told.stdout).hexdigest()
    (kept,) = system.sql(
        "select sum(length(data)) as bytes from output_chunks where attempt_id = %s",
        attempt["attempt_id"],
    )
    assert kept["bytes"] == SPOOL_HEAD_BYTES + SPOOL_TAIL_BYTES
    later = system.frames("GET", f"/v1/attempts/{attempt['attempt_id']}/output")
    assert [frame.json() for frame in later if frame.kind is FrameKind.OMITTED] == [
        {
            "stream": "stdout",
            "offset": SPOOL_HEAD_BYTES,
            "length": size - SPOOL_HEAD_BYTES - SPOOL_TAIL_BYTES,
        }
    ]


# ── a copied state folder ───────────────────────────────────────────────────────────────────────


def rejoin(system: Stage, home: Path, api: Api, *arguments: str) -> dict[str, Any]:
    """Run `farhandd enroll --rejoin` with a new code and confirm the machine it makes."""
    code = api.post("/v1/machines/codes")
    done = subprocess.run(
        [sys.executable, "-m", "farhand_daemon", "enroll", "--rejoin", "--code-stdin", "--no-wait",
         "--json", "--home", home, *arguments],
        input=code["code"], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
    api.post(f"/v1/machines/{told['machine_id']}/confirm", {"words": told["words"]})
    return told


def test_a_copied_machine_is_locked_out_and_both_come_back_as_what_they_are(
    system: Stage,
) -> None:
    # https://github.com/saltstack/salt/issues/16209: machines made from one image share an identity
    copy_home = system.folder / "machine's copy"
    shutil.copytree(
        system.daemon_home, copy_home, ignore=shutil.ignore_patterns("*.sock", "daemon.lock")
    )
    copy = system.start_copy(copy_home)
    assert system.daemon is not None
    assert copy.wait(60) == system.daemon.wait(60) == 3, "neither may stay, neither tries again"
    assert "farhandd enroll --rejoin" in (system.folder / "daemon.log").read_text()
    with system.api() as api:
        path = f"/v1/machines/{system.machine.machine_id}"
        assert api.get(path)["status"] == "quarantined"
        back = rejoin(system, system.daemon_home, api)
        assert back["machine_id"] == system.machine.machine_id
        other = rejoin(system, copy_home, api, "--name", "copy")
        assert other["machine_id"] != back["machine_id"]
        assert system.mend() == ["daemon"]
        copy = system.start_copy(copy_home)
        try:
            for machine in (back, other):
                path = f"/v1/machines/{machine['machine_id']}"
                until("both are there", lambda path=path: api.get(path)["presence"] == "online")
                client = system.farhand("exec", machine["machine_name"], "--", "true")
                assert client.ended().status == 0
            assert copy.poll() is None
        finally:
            copy.terminate()
            copy.wait(30)
