"""Records survive their JSON, also that of a newer supervisor."""

import json

from farhand_daemon.supervisor.records import ExitRecord, Reason, SpawnProblem, Started
from farhand_shared.command import Note

RECORD = ExitRecord(
    attempt_id="a",
    reason=Reason.TIMEOUT,
    exit_code=None,
    signal=15,
    core_dumped=False,
    problem=SpawnProblem(kind="too_big", message="m", item="argv[1]", size_bytes=9, limit_bytes=8),
    started=Started(pid=3, start_time=4, boot_id="b", at_ms=5, group="farhand-3-4"),
    total_bytes=(6, 7),
    omitted_bytes=(0, 1),
    sha256=(b"\x01" * 32, b"\x02" * 32),
    wall_ms=8,
    stdout_left_open=True,
    descendants_left=False,
    survivors=0,
    ended_at_ms=9,
    notes=(Note(code="process_limit", text="t"),),
)


def test_record_comes_back_from_its_json() -> None:
    assert ExitRecord.from_json(RECORD.to_json()) == RECORD


def test_fields_of_a_newer_supervisor_are_ignored() -> None:
    document = json.loads(RECORD.to_json())
    document["novelty"] = document["problem"]["novelty"] = document["started"]["novelty"] = 1
    assert ExitRecord.from_json(json.dumps(document).encode()) == RECORD


def test_the_record_of_an_older_supervisor_has_neither_notes_nor_a_group() -> None:
    document = json.loads(RECORD.to_json())
    del document["notes"], document["started"]["group"]
    record = ExitRecord.from_json(json.dumps(document).encode())
    assert record.notes == ()
    assert record.started is not None
    assert record.started.group == ""
