"""The unit and the property list: every setting, and paths that are not made for units.

systemd and launchd themselves are not here: what their documentation says of a file is followed by
a small reader of it, and its command line is then run for real.
"""

import os
import plistlib
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from farhand_daemon import daemon
from farhand_daemon.service import spec as service_spec
from farhand_daemon.service.launchd_plist import render_plist
from farhand_daemon.service.spec import ServiceSpec
from farhand_daemon.service.systemd_unit import (
    quoted,
    quoted_value,
    render_unit,
    says_linger_is_ours,
    settings_of,
)
from farhand_shared.errors import InvalidInput

GOLDEN = Path(__file__).with_name("golden")
USER = ServiceSpec(
    program=("/home/ann/.local/share/farhandd-program/current/bin/farhandd",),
    home=Path("/home/ann/.local/share/farhandd"),
    account_home=Path("/home/ann"),
    is_default_home=True,
    for_system=False,
)
SYSTEM = ServiceSpec(
    program=("/root/.local/share/farhandd-program/current/bin/farhandd",),
    home=Path('/srv/a second home, 100% "mine"'),
    account_home=Path("/root"),
    is_default_home=False,
    for_system=True,
    environment={"https_proxy": "http://u:p%40s@proxy:3128", "no_proxy": "localhost"},
)
AWKWARD = (
    "plain",
    "two words",
    "100%",
    "%h",
    "$HOME",
    "${HOME}",
    'a"b',
    "it's",
    "back\\slash",
    "é",
)


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    assert path.read_text() == text, f"{path} differs; if that is meant, write it anew"


def test_the_unit_of_an_account() -> None:
    golden("user.service", render_unit(USER))


def test_the_unit_of_the_system() -> None:
    golden("system.service", render_unit(SYSTEM))


@pytest.mark.parametrize("name", ["user", "system"])
def test_systemd_itself_finds_no_fault_in_a_unit(name: str, tmp_path: Path) -> None:
    """Its checker reads the file and looks for the first program; it starts nothing."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / f"{name}.service"
    shutil.copy(GOLDEN / f"{name}.service", unit)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(["--user"] if name == "user" else []), unit],
        env={"PATH": os.defpath, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    faults = [line for line in done.stderr.splitlines() if str(unit) in line]
    # Known since 254; before, the delay between two starts does not grow, and groups limit nothing.
    new = ("RestartSteps", "RestartMaxDelaySec", "DelegateSubgroup")
    assert [line for line in faults if not any(name in line for name in new)] == []


def test_the_agent_of_launchd() -> None:
    golden("agent.plist", render_plist(USER))


def test_the_daemon_of_launchd() -> None:
    golden("daemon.plist", render_plist(SYSTEM))


@pytest.mark.parametrize("spec", [USER, SYSTEM])
def test_the_settings_that_running_commands_need(spec: ServiceSpec) -> None:
    settings = settings_of(render_unit(spec))
    needed = {
        "Type": "notify",
        "KillMode": "process",
        "OOMPolicy": "continue",
        "Delegate": "yes",
        "DelegateSubgroup": "farhandd-self",
        "Restart": "on-failure",
        "RestartPreventExitStatus": "2 3",
    }
    assert needed.items() <= settings.items()
    # SELinux refuses a service whose program lies in a home (203/EXEC); it allows a shell.
    assert settings["ExecStart"].startswith("/bin/sh -c ")


def test_the_exit_status_that_is_not_restarted_is_the_daemons() -> None:
    assert service_spec.EXIT_NOT_WANTED == daemon.EXIT_NOT_WANTED


def words_as_systemd_reads_them(line: str) -> list[str]:
    """systemd.service(5), systemd.unit(5): quotes, then backslashes, specifiers, variables."""
    words = []
    for double, single, bare in re.findall(r'"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|(\S+)', line):
        word = re.sub(r"\\(.)", r"\1", double) if double else single or bare
        assert "%" not in word.replace("%%", ""), f"a specifier is left in {word!r}"
        assert "$" not in word.replace("$$", ""), f"a variable is left in {word!r}"
        words.append(word.replace("%%", "%").replace("$$", "$"))
    return words


@pytest.mark.parametrize("odd", AWKWARD)
def test_any_path_reaches_the_program_as_it_is(odd: str, tmp_path: Path) -> None:
    folder = tmp_path / odd
    folder.mkdir()
    program = folder / "farhandd"
    program.write_text('#!/bin/sh\nprintf \'%s\\n\' "$0" "$@" "$$"\n')
    program.chmod(0o755)
    spec = ServiceSpec(
        program=(str(program),),
        home=tmp_path / odd / "home",
        account_home=tmp_path,
        is_default_home=False,
        for_system=False,
    )
    words = words_as_systemd_reads_them(settings_of(render_unit(spec))["ExecStart"])
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        out, _ = process.communicate()
    # The last is its pid: the shell has become the program, as notifications need.
    assert out.splitlines() == [*spec.arguments, str(process.pid)]
    loaded = plistlib.loads(render_plist(spec).encode())
    assert loaded["ProgramArguments"][:4] == list(spec.arguments)


def test_a_path_that_no_unit_can_hold_is_refused() -> None:
    for odd in ("new\nline", "tab\t", "undecodable \udcff"):
        with pytest.raises(InvalidInput, match="printable name"):
            quoted(odd)
    assert quoted_value("A=$x") == '"A=$x"'  # Environment= knows no variables


def test_a_home_has_one_name_and_another_home_another() -> None:
    assert (USER.unit, USER.label) == ("farhandd.service", "dev.farhand.farhandd")
    assert re.fullmatch(r"farhandd-[0-9a-f]{8}\.service", SYSTEM.unit)
    assert SYSTEM.name == ServiceSpec(
        program=("x",),
        home=SYSTEM.home,
        account_home=Path("/"),
        is_default_home=False,
        for_system=False,
    ).name  # fmt: skip


def test_lingering_of_our_own_is_noted_where_systemd_ignores_it() -> None:
    marked = render_unit(replace(USER, linger_is_ours=True))
    assert says_linger_is_ours(marked)
    assert not says_linger_is_ours(render_unit(USER))
    assert marked.endswith("\n[X-Farhand]\nLinger=ours\n")
    assert settings_of(marked) == settings_of(render_unit(USER))
