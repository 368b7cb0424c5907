"""What sets up a managed machine: as the examples in deploy/managed, and fit for its readers.

The examples are made anew by: python tests/unit/control_plane/provisioning/test_cloud_init.py
"""

import re
import shutil
import subprocess
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import pytest

from farhand_control_plane.provisioning.cloud_init import (
    SCRIPT,
    ManagedMachine,
    render_preset,
    render_set_up,
    render_unit,
    render_user_data,
)
from farhand_daemon.service.spec import ServiceSpec
from farhand_daemon.service.systemd_unit import render_unit as render_daemons_unit
from farhand_daemon.service.systemd_unit import settings_of
from farhand_shared.errors import InvalidInput

EXAMPLES = Path(__file__).resolve().parents[4] / "deploy" / "managed"
EXAMPLE = ManagedMachine(
    url="https://farhand.example.org",
    code="FH1-THE-CODE-OF-THIS-MACHINE",
    expires_at=datetime(2030, 1, 2, 3, 4, tzinfo=UTC),
    labels=("build", "team=infra"),
)
RENDERED = {
    "machine.toml": render_preset(EXAMPLE),
    "farhandd.service": render_unit(EXAMPLE),
    "set-up.sh": render_set_up(EXAMPLE),
    "user-data.yaml": render_user_data(EXAMPLE),
}


@pytest.mark.parametrize("name", RENDERED)
def test_the_examples_are_what_is_rendered(name: str) -> None:
    assert (EXAMPLES / name).read_text() == RENDERED[name]


def test_the_unit_has_the_settings_that_the_daemon_gives_its_own(tmp_path: Path) -> None:
    own = render_daemons_unit(
        ServiceSpec(
            program=("/opt/farhandd",),
            home=tmp_path,
            account_home=tmp_path,
            is_default_home=False,
            for_system=True,
        )
    )
    ours = settings_of(RENDERED["farhandd.service"])
    assert ours.pop("User") == "farhand"
    assert ours.pop("BindReadOnlyPaths") == (
        "/etc/farhandd/machine.toml:/var/lib/farhandd/daemon/machine.toml"
    )
    differ = ("ExecStart", "Description")
    theirs = settings_of(own)
    assert {key: value for key, value in ours.items() if key not in differ} == {
        key: value for key, value in theirs.items() if key not in differ
    }


def test_systemd_itself_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze is installed here")
    unit = tmp_path / "farhandd.service"
    # A program that is there: whether one can be run is checked too.
    text = RENDERED["farhandd.service"].replace(EXAMPLE.program, "/bin/true")
    unit.write_text(text.replace("User=farhand", "User=root"))
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    faults = [line for line in done.stderr.splitlines() if "farhandd.service" in line]
    # systemd before 254 does not know these three, says so and goes on.
    newer = ("RestartSteps", "RestartMaxDelaySec", "DelegateSubgroup")
    known = [
        line for line in faults if not ("Unknown key" in line and any(k in line for k in newer))
    ]
    assert known == []


def test_the_script_is_any_shells_and_the_user_data_holds_it_whole() -> None:
    done = subprocess.run(
        ["/bin/sh", "-n"], input=RENDERED["set-up.sh"].encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    data = RENDERED["user-data.yaml"]
    assert data.startswith("#cloud-config\n")
    block = data.partition("    content: |\n")[2].partition("runcmd:\n")[0]
    assert textwrap.dedent(block) == RENDERED["set-up.sh"]
    assert f"  - [{SCRIPT}]\n" in data
    # Plain YAML: two spaces a level, nothing that would need quotes outside of the block.
    outside = data.replace(block, "")
    assert not re.search(r"\t|: .*[{}&*!%@`]", outside)


def test_the_code_is_in_no_command_line() -> None:
    lines = RENDERED["set-up.sh"].splitlines()
    (at,) = [number for number, line in enumerate(lines) if EXAMPLE.code in line]
    assert lines[at] == EXAMPLE.code, "a line of its own, of standard input"
    assert lines[at - 1].endswith("<<'END_OF_CODE'")


def test_a_path_that_no_unit_can_hold_is_refused() -> None:
    machine = ManagedMachine(url="u", code="c", expires_at=EXAMPLE.expires_at, folder="/srv/a b")
    with pytest.raises(InvalidInput, match="cannot make a unit for '/srv/a b'"):
        render_unit(machine)


if __name__ == "__main__":
    EXAMPLES.mkdir(exist_ok=True)
    for name, text in RENDERED.items():
        (EXAMPLES / name).write_text(text)
