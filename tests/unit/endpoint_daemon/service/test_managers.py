"""Installing and removing the service, against fakes of systemctl, loginctl and launchctl.

What the fakes do not model is said where they are made. Real systemd and launchd are not tried.
"""

import os
import pwd
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from farhand_daemon.service.launchd import Launchd
from farhand_daemon.service.manager import Host, NoServiceManager, program_of
from farhand_daemon.service.spec import ServiceSpec
from farhand_daemon.service.systemd import Systemd
from farhand_daemon.service.systemd_unit import says_linger_is_ours
from farhand_shared.errors import Unavailable
from tests.fakes.fake_service_manager import FakeServiceManager


@pytest.fixture
def fake(tmp_path: Path) -> FakeServiceManager:
    return FakeServiceManager.make(tmp_path / "fake")


def spec_in(folder: Path, *, for_system: bool = False) -> ServiceSpec:
    return ServiceSpec(
        program=("/opt/farhandd",),
        home=folder / "home",
        account_home=folder / "ann",
        is_default_home=True,
        for_system=for_system,
    )


def host_in(folder: Path, fake: FakeServiceManager, platform: str = "linux") -> Host:
    return Host(
        platform=platform,
        uid=1000,
        account="ann",
        account_home=folder / "ann",
        environ={"PATH": str(fake.tools)},
    )


def user(folder: Path, fake: FakeServiceManager) -> Systemd:
    return Systemd(spec_in(folder), host_in(folder, fake), pause=lambda _: None)


def system(folder: Path, fake: FakeServiceManager) -> Systemd:
    return Systemd(
        spec_in(folder, for_system=True), host_in(folder, fake), system_folder=folder / "etc"
    )


def test_an_accounts_service_lingers_is_enabled_and_started(
    tmp_path: Path, fake: FakeServiceManager
) -> None:
    service = user(tmp_path, fake)
    service.check()
    assert service.install(restart=False) == []
    assert fake.calls() == [
        ["loginctl", "enable-linger", "ann"],
        ["systemctl", "--user", "daemon-reload"],
        ["systemctl", "--user", "enable", "farhandd.service"],
        ["systemctl", "--user", "restart", "farhandd.service"],
    ]
    assert service.file == tmp_path / "ann/.config/systemd/user/farhandd.service"
    state = service.state()
    assert (state.installed, state.as_rendered, state.active, state.problem) == (
        *(True, True, True),
        "",
    )


def test_installing_again_leaves_a_running_service_alone(
    tmp_path: Path, fake: FakeServiceManager
) -> None:
    service = user(tmp_path, fake)
    service.install(restart=False)
    fake.calls()
    again = user(tmp_path, fake)
    again.check()
    again.install(restart=False)
    assert ["systemctl", "--user", "restart", "farhandd.service"] not in (calls := fake.calls())
    assert ["systemctl", "--user", "start", "farhandd.service"] in calls
    again.install(restart=True)  # a new version
    assert ["systemctl", "--user", "restart", "farhandd.service"] in fake.calls()
    assert says_linger_is_ours(service.file.read_text())


def test_removing_leaves_nothing_and_gives_lingering_back(
    tmp_path: Path, fake: FakeServiceManager
) -> None:
    service = user(tmp_path, fake)
    service.install(restart=False)
    fake.calls()
    service.remove()
    assert fake.calls() == [
        ["systemctl", "--user", "disable", "--now", "farhandd.service"],
        ["systemctl", "--user", "daemon-reload"],
        ["systemctl", "--user", "reset-failed", "farhandd.service"],
        ["loginctl", "disable-linger", "ann"],
    ]
    assert not service.file.parent.exists()
    service.remove()
    assert fake.calls() == []


def test_lingering_that_was_there_before_stays(tmp_path: Path, fake: FakeServiceManager) -> None:
    fake.say(linger=True)
    service = user(tmp_path, fake)
    service.install(restart=False)
    service.remove()
    assert fake.state["linger"] is True
    assert not [call for call in fake.calls() if call[0] == "loginctl"]


def test_another_units_lingering_stays(tmp_path: Path, fake: FakeServiceManager) -> None:
    first = user(tmp_path, fake)
    first.install(restart=False)
    other = Systemd(replace(spec_in(tmp_path), is_default_home=False), host_in(tmp_path, fake))
    other.install(restart=False)
    first.remove()
    assert fake.state["linger"] is True
    assert other.file.exists()


def test_without_the_right_to_linger_it_says_who_can(
    tmp_path: Path, fake: FakeServiceManager
) -> None:
    fake.say(may_linger=False)
    (note,) = user(tmp_path, fake).install(restart=False)
    assert "loginctl enable-linger ann" in note
    assert "loginctl enable-linger ann" in user(tmp_path, fake).state().problem


def test_lingering_makes_the_session_that_su_and_sudo_do_not(
    tmp_path: Path, fake: FakeServiceManager
) -> None:
    fake.say(session=False)
    service = user(tmp_path, fake)
    service.check()
    service.install(restart=False)
    assert says_linger_is_ours(service.file.read_text())


def test_no_session_and_no_right_is_said_with_what_to_do(
    tmp_path: Path, fake: FakeServiceManager
) -> None:
    fake.say(session=False, may_linger=False)
    with pytest.raises(NoServiceManager, match="have an administrator run: loginctl enable-linger"):
        user(tmp_path, fake).check()


def test_a_container_has_no_systemd(tmp_path: Path, fake: FakeServiceManager) -> None:
    fake.say(system=False, session=False)
    for service in (user(tmp_path, fake), system(tmp_path, fake)):
        with pytest.raises(NoServiceManager, match="as in most containers; run the daemon in the"):
            service.check()
    none = FakeServiceManager.make(tmp_path / "none", names=())
    with pytest.raises(NoServiceManager, match="systemd is not installed"):
        user(tmp_path, none).check()


def test_roots_service_is_the_systems_and_needs_no_session(
    tmp_path: Path, fake: FakeServiceManager
) -> None:
    fake.say(session=False)
    service = system(tmp_path, fake)
    service.check()
    service.install(restart=False)
    assert fake.calls() == [
        ["systemctl", "daemon-reload"],
        ["systemctl", "enable", "farhandd.service"],
        ["systemctl", "restart", "farhandd.service"],
    ]
    assert service.file == tmp_path / "etc" / "farhandd.service"
    service.remove()
    assert not service.file.exists()
    assert (tmp_path / "etc").exists()


def test_what_systemd_refuses_is_told_in_one_line(tmp_path: Path, fake: FakeServiceManager) -> None:
    fake.say(broken=["restart"])
    with pytest.raises(Unavailable) as told:
        user(tmp_path, fake).install(restart=False)
    assert "systemctl restart farhandd.service says: Failed to restart: Access denied; " in str(
        told.value
    )
    assert "journalctl --user -u farhandd.service" in str(told.value)


def test_a_proxys_password_is_nobody_elses_to_read(
    tmp_path: Path, fake: FakeServiceManager
) -> None:
    spec = replace(spec_in(tmp_path), environment={"https_proxy": "http://u:p@proxy"})
    service = Systemd(spec, host_in(tmp_path, fake))
    service.install(restart=False)
    assert service.file.stat().st_mode & 0o777 == 0o600
    # What a shell happens to have when somebody only asks is no fault of the unit.
    assert user(tmp_path, fake).state().as_rendered


def test_a_unit_that_somebody_changed_is_noticed_and_put_right(
    tmp_path: Path, fake: FakeServiceManager
) -> None:
    service = user(tmp_path, fake)
    service.install(restart=False)
    text = service.file.read_text()
    service.file.write_text(text.replace("KillMode=process", "KillMode=control-group"))
    assert not service.state().as_rendered
    service.install(restart=False)
    assert service.file.read_text() == text


def test_a_job_of_launchd_is_loaded_once_and_unloaded(
    tmp_path: Path, fake: FakeServiceManager
) -> None:
    host = host_in(tmp_path, fake, "darwin")
    service = Launchd(spec_in(tmp_path), host, pause=lambda _: None)
    with pytest.raises(NoServiceManager, match="not logged in on the screen"):
        service.check()
    fake.say(domains=["gui/1000"])
    service.check()
    service.install(restart=False)
    plist = str(tmp_path / "ann/Library/LaunchAgents/dev.farhand.farhandd.plist")
    job = "gui/1000/dev.farhand.farhandd"
    load = [["launchctl", "enable", job], ["launchctl", "bootstrap", "gui/1000", plist]]
    assert fake.calls() == load
    service.install(restart=False)
    assert fake.calls() == [["launchctl", "enable", job]]
    service.install(restart=True)
    assert fake.calls() == [["launchctl", "bootout", job], *load]
    assert service.state().active
    service.remove()
    assert fake.calls() == [["launchctl", "bootout", job]]
    assert not Path(plist).exists()
    service.remove()
    assert fake.calls() == []


def test_the_service_starts_by_the_link_that_updates_move(tmp_path: Path) -> None:
    version = tmp_path / "0123"
    (version / "bin").mkdir(parents=True)
    (version / "bin" / "farhandd").touch()
    python = version / "bin" / "python"
    assert program_of(version, python) == (str(version / "bin" / "farhandd"),)
    (tmp_path / "current").symlink_to(version)
    assert program_of(version, python) == (str(tmp_path / "current" / "bin" / "farhandd"),)
    assert program_of(tmp_path / "elsewhere", python) == (str(python), "-m", "farhand_daemon")


def test_without_a_home_variable_the_account_database_says_where(tmp_path: Path) -> None:
    """A service of the system is started without HOME; nothing may land in its working folder."""
    program = (
        "from farhand_daemon.paths import find_home\n"
        "from farhand_daemon.service.manager import spec_for, this_host\n"
        "home = find_home(None, {})\n"
        "spec = spec_for(home, this_host())\n"
        "print(home.root, spec.account_home, spec.unit, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": os.defpath},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    home, account_home, unit = done.stdout.splitlines()
    assert account_home == pwd.getpwuid(os.getuid()).pw_dir
    assert home.startswith(f"{account_home}/")
    assert unit == "farhandd.service"
