"""Which daemons are asked for what."""

import pytest

from farhand_control_plane.domain.capability import MachineTooOld, is_known, refuse_unknown
from farhand_shared.command import Argv, CommandSpec, Limits, Pty, Shell
from farhand_shared.file_operation import ReadFile

_PLAIN = CommandSpec(run=Shell(script=b"true"))
_NEW = {
    "work on files": CommandSpec(run=ReadFile(path=b"a")),
    "give a command a terminal": CommandSpec(run=Argv(argv=(b"sh",)), pty=Pty(rows=24, columns=80)),
    "give a command input": CommandSpec(run=Shell(script=b"cat"), stdin=True),
    "limit a command": CommandSpec(run=Shell(script=b"make"), limits=Limits(processes=50)),
}


def test_plain_commands_go_to_the_oldest_daemon() -> None:
    assert is_known(_PLAIN, 1)
    refuse_unknown(_PLAIN, name="old", capability=1, daemon_version="0.0.1")


@pytest.mark.parametrize("what", _NEW)
def test_what_a_daemon_does_not_know_is_refused_by_name_and_version(what: str) -> None:
    refuse_unknown(_NEW[what], name="new", capability=3, daemon_version="0.1.0")
    with pytest.raises(MachineTooOld) as caught:
        refuse_unknown(_NEW[what], name="laptop", capability=2, daemon_version="0.0.9")
    assert str(caught.value) == (
        f"cannot {what}: laptop runs daemon 0.0.9, which cannot do that; update it"
    )


def test_a_version_that_is_not_known_is_said_so() -> None:
    with pytest.raises(MachineTooOld, match="daemon of unknown version"):
        refuse_unknown(_NEW["work on files"], name="laptop", capability=0, daemon_version="")
