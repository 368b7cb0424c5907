"""The machine.toml of machines that nobody sits at, as the daemon reads it."""

import tomllib
from pathlib import Path

from farhand_control_plane.provisioning.machine_file import render_machine_file
from farhand_daemon.machine_file import MachineFile, parse_machine_table


def test_the_daemon_reads_what_is_rendered() -> None:
    text = render_machine_file(
        ["/srv/a b", '/srv/"q"\x7f'],
        why="a test",
        allow_inferred=True,
        concurrency=2,
        labels=["build", "team=infra"],
    )
    assert text.startswith("# a test\n")
    assert parse_machine_table(tomllib.loads(text)) == MachineFile(
        trust_level="trusted",
        chosen_by="preset",
        roots=(Path("/srv/a b"), Path('/srv/"q"\x7f')),
        allow_inferred=True,
        concurrency=2,
        labels=("build", "team=infra"),
    )


def test_what_is_not_said_is_the_daemons_own_default() -> None:
    text = render_machine_file(["/srv"], why="a test")
    assert parse_machine_table(tomllib.loads(text)) == MachineFile(
        trust_level="trusted", chosen_by="preset", roots=(Path("/srv"),)
    )
