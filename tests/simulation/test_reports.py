"""Failures that others have reported, with their own inputs, against the whole system."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from farhand_control_plane.domain.plain_output import plain
from farhand_shared.limits import SPOOL_HEAD_BYTES, SPOOL_TAIL_BYTES
from tests.simulation.stage import Stage, processes, until

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]

MEMORY_GROWTH_MB = 64


def recorded(system: Stage, mark: str) -> dict[str, Any]:
    """Return the API's account of the command whose text has ``mark``."""
    (row,) = system.sql("select command_id from commands where title like %s", f"%{mark}%")
    with system.api() as api:
        return dict(api.get(f"/v1/commands/{row['command_id']}"))


def memory_mb(system: Stage) -> float:
    """Return the memory of the daemon with its supervisors, shared pages shared out."""
    pids = [pid for pid, line in processes(str(system.daemon_home)).items() if "farhand" in line]
    rollups = (Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() for pid in pids)
    pss = [int(line.split()[1]) for lines in rollups for line in lines if line.startswith("Pss:")]
    assert pss, "no process of the daemon was found"
    return sum(pss) / 1024


def test_after_three_reconnects_a_command_runs_once(system: Stage) -> None:
    """https://github.com/saltstack/salt/issues/37307"""
    for _ in range(3):
        system.link.cut()
        assert system.exec("true", options=("--wait-offline",)).ended().status == 0
    count = system.work / f"count-{os.urandom(4).hex()}"
    assert system.shell(f"echo x >> {count}").ended().status == 0
    assert count.read_text() == "x\n"


def test_what_ended_and_was_not_acknowledged_is_told_by_the_next_daemon_and_not_run_again(
    system: Stage,
) -> None:
    """https://github.com/hashicorp/nomad/issues/10449"""
    ran = system.work / f"ran-{os.urandom(4).hex()}"
    started, go = ran.with_suffix(".started"), ran.with_suffix(".go")
    client = system.shell(
        f"touch {started}; until [ -e {go} ]; do sleep 0.05; done; echo done >> {ran}; exit 6"
    )
    until("it is started", started.exists)
    attempt_id = recorded(system, ran.name)["attempt_id"]
    system.link.freeze()
    go.touch()
    until("the daemon has seen its end", lambda: ended(system, attempt_id))
    system.kill_daemon()
    system.link.heal()
    assert system.mend() == ["daemon"]
    assert client.ended().status == 6
    assert ran.read_text() == "done\n"


def ended(system: Stage, attempt_id: str) -> bool:
    """Tell whether the daemon's log has the attempt's end."""
    lines = map(json.loads, (system.daemon_home / "daemon.log").read_text().splitlines())
    return any(one["event"] == "ended" and one.get("attempt") == attempt_id for one in lines)


def test_bytes_that_no_text_has_are_stored_as_they_are_and_shown_as_replacements(
    system: Stage,
) -> None:
    """https://github.com/coder/coder/issues/23292"""
    mark = f"bytes-{os.urandom(4).hex()}"
    told = system.shell(f": {mark}; printf 'a\\377b\\000c\\n'; echo later").ended()
    assert told.stdout == b"a\xffb\0c\nlater\n"
    command = recorded(system, mark)
    assert command["stdout"]["head"] == "a\N{REPLACEMENT CHARACTER}b\0c\nlater\n"
    assert (command["stdout_bytes"], command["result"]["stdout"]["produced"]) == (12, 12)


def test_a_line_longer_than_a_readers_buffer_holds_nothing_up(system: Stage) -> None:
    """https://github.com/scaleapi/scale-agentex-python/pull/509

    Lines of hundreds of megabytes: `test_faults`, and `scripts/bench/output.py`.
    """
    told = system.exec("python3", "-c", "print('x'*81988); print('after')").ended()
    assert told.stdout == b"x" * 81988 + b"\nafter\n"


def test_endless_output_costs_no_memory_and_no_ping_and_says_what_is_missing(
    system: Stage,
) -> None:
    """https://github.com/sensu/sensu-go/pull/3859; 15 s in `scripts/bench/output.py`."""
    mark = f"endless-{os.urandom(4).hex()}"
    script = f": {mark}; timeout 2 yes"
    before = memory_mb(system)
    (link,) = system.sql("select epoch from machine_connections")
    client = system.shell(script)
    peak = before
    while client.process.poll() is None:
        peak = max(peak, memory_mb(system))
    assert client.ended().status == 124
    assert peak - before < MEMORY_GROWTH_MB
    assert system.sql("select epoch from machine_connections") == [link]
    command = recorded(system, mark)
    produced = command["result"]["stdout"]["produced"]
    assert len(client.stdout) == produced
    (kept,) = system.sql(
        "select coalesce(sum(length(data)), 0)::bigint as bytes from output_chunks"
        " where attempt_id = %s",
        command["attempt_id"],
    )
    assert kept["bytes"] == min(produced, SPOOL_HEAD_BYTES + SPOOL_TAIL_BYTES)
    shown = command["stdout"]
    left_out = produced - len(shown["head"]) - len(shown["tail"])
    assert (shown["total_bytes"], shown["omitted_bytes"]) == (produced, left_out)


def test_what_draws_over_itself_is_kept_raw_and_read_as_it_looked(system: Stage) -> None:
    """https://github.com/vorn-run/vorn/pull/470"""
    mark = f"drawn-{os.urandom(4).hex()}"
    drawn = "Working\\rDone   \\n\\033[?25l50%%\\r100%%\\033[?25h\\n"
    told = system.shell(f": {mark}; printf '{drawn}'").ended()
    assert told.stdout == b"Working\rDone   \n\x1b[?25l50%\r100%\x1b[?25h\n"
    raw = recorded(system, mark)["stdout"]["head"]
    assert raw.encode() == told.stdout
    assert plain(raw) == "Done   \n100%\n"


def test_a_full_disk_refuses_before_the_start_and_works_again_by_itself(system: Stage) -> None:
    """https://github.com/buildkite/agent/issues/1105"""
    if not system.has_own_disk:
        pytest.skip("only root can give the machine a small disk of its own")
    mark = f"full-{os.urandom(4).hex()}"
    note = system.work / mark
    try:
        system.fill_disk(left_bytes=100 << 20)
        until("it is noticed", lambda: system.exec("true").ended().status == 125)
        refused = system.shell(f"touch {note}").ended()
        assert refused.status == 125
        assert "bytes are free on the disk" in refused.stderr
        command = recorded(system, mark)
        assert (command["state"], command["result"]["error_code"]) == ("refused", "disk_full")
        assert not note.exists()
    finally:
        system.empty_disk()

    def works() -> bool:
        return system.exec("true").ended().status == 0

    until("it takes work again", works)
    attempts = system.sql(
        "select state from attempts a join commands c using (instance_id, command_id)"
        " where c.title like %s",
        f"%{mark}%",
    )
    assert attempts == [{"state": "refused"}], json.dumps(attempts)
