"""What doctor finds on the computer itself."""

import os
import sys
from pathlib import Path

import pytest

from farhand_daemon.doctor import local, sandbox
from farhand_daemon.paths import Home
from farhand_daemon.service import manager
from farhand_daemon.service.manager import Host, manager_for, spec_for
from farhand_daemon.status import DaemonStatus
from farhand_daemon.supervisor.cgroup import Hierarchy
from tests.fakes.fake_service_manager import FakeServiceManager


def test_what_only_this_shell_has_is_told_apart() -> None:
    assert local.only_in("/a:/b::/c:/a", "/b:/d") == ["/a", "/c"]


def test_the_daemons_own_environment_is_seen_where_the_system_shows_it() -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux shows it as a file")
    assert local.environment_of(os.getpid()) is not None
    assert local.environment_of(None) is None


def test_an_older_daemon_that_still_runs_is_noticed() -> None:
    last = DaemonStatus(
        state="connected", since_ms=0, machine_name="m", link_address="a:1", version="0.0.1"
    )
    assert "still 0.0.1" in local.versions(1, last).result
    assert local.versions(None, last).ok
    assert "Python 3." in local.versions(None, None).result


def test_the_service_is_judged_by_what_its_manager_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeServiceManager.make(tmp_path / "fake")
    host = Host(
        platform="linux",
        uid=1000,
        account="ann",
        account_home=tmp_path / "ann",
        environ={"PATH": str(fake.tools)},
    )
    monkeypatch.setattr(local, "this_host", lambda: host)
    home = Home(tmp_path / "home")
    assert local.service(home).ok
    assert "farhandd service install" in local.service(home).result
    service = manager_for(spec_for(home, host), host)
    service.install(restart=False)
    assert local.service(home).result.endswith("runs, with the settings of this version")

    fake.say(linger=False)
    assert "when you log out" in local.service(home).result
    fake.say(linger=True, active=[])
    assert "does not run" in local.service(home).result
    service.file.write_text(service.file.read_text().replace("Delegate=yes", "Delegate=no"))
    check = local.service(home)
    assert not check.ok
    assert check.next_step == "run farhandd service install"
    service.install(restart=False)
    assert local.service(home).ok


def test_the_sandbox_check_states_facts_and_never_fails() -> None:
    check = sandbox.sandbox()
    assert check.ok
    if sys.platform == "linux":
        for part in ("bubblewrap: ", "user namespaces: ", "Landlock: "):
            assert part in check.result


def test_a_bubblewrap_that_cannot_work_is_told_from_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform != "linux":
        pytest.skip("looked at on Linux only")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "bubblewrap: not installed" in sandbox.sandbox().result
    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n")
    bwrap.chmod(0o755)
    assert "does not work here (bwrap: setting up uid map: Permission denied)" in (
        sandbox.sandbox().result
    )


def test_a_program_of_the_manager_that_is_missing_or_broken_is_an_answer(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    assert manager.run_program("/nowhere/systemctl", environ=environ).status == 127
    (tmp_path / "folder").mkdir()
    assert manager.run_program(str(tmp_path / "folder"), environ=environ).status == 126


def test_what_can_be_limited_is_told_for_where_the_daemon_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no daemon runs" in sandbox.limits(None).result
    monkeypatch.setattr(sandbox, "usable_hierarchies", lambda own, mounts: [])
    assert "service install" in sandbox.limits(os.getpid()).result
    base = str(tmp_path)
    monkeypatch.setattr(sandbox, "usable_hierarchies", lambda own, mounts: [Hierarchy(base, base)])
    assert sandbox.limits(os.getpid()).result.startswith("open files; commands have control groups")
    assert not list(tmp_path.iterdir())
    assert all(sandbox.limits(pid).ok for pid in (None, os.getpid(), 1 << 30))
