"""The daemon as a service of systemd: of the account (``--user``, lingering) or of the system."""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from farhand_daemon.service.manager import (
    Answer,
    Host,
    NoServiceManager,
    ServiceState,
    write_service_file,
)
from farhand_daemon.service.spec import ServiceSpec
from farhand_daemon.service.systemd_unit import render_unit, says_linger_is_ours, settings_of
from farhand_shared.errors import Unavailable

SYSTEM_FOLDER: Final = Path("/etc/systemd/system")
_RUNS: Final = frozenset({"running", "degraded", "starting", "initializing", "maintenance"})
_SESSION_S: Final = 5.0  # lingering starts the account's manager; it is there in a moment
_LOOK_S: Final = 0.2
_BY_HAND: Final = "run the daemon in the foreground with farhandd run"


class Systemd:
    """One unit. Asks ``systemctl`` and ``loginctl``, which the host's runner starts."""

    name = "systemd"

    def __init__(
        self,
        spec: ServiceSpec,
        host: Host,
        *,
        system_folder: Path = SYSTEM_FOLDER,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spec, self._host, self._pause = spec, host, pause
        environ = dict(host.environ)
        if not spec.for_system:
            # Missing after su, sudo and some ssh: the folder is where systemd always makes it.
            environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{host.uid}")
        self._environ: Mapping[str, str] = environ
        self._linger_is_ours = False
        config = environ.get("XDG_CONFIG_HOME") or str(host.account_home / ".config")
        folder = system_folder if spec.for_system else Path(config) / "systemd" / "user"
        self.file = folder / spec.unit

    def check(self) -> None:
        """Raise NoServiceManager unless it runs here; lets the account linger where it must."""
        system = self._host.run("systemctl", "is-system-running", environ=self._environ)
        if not _answers(system):
            why = (
                "systemd is not installed"
                if system.status == 127
                else "systemd does not run on this computer, as in most containers"
            )
            raise NoServiceManager(f"cannot make a service: {why}; {_BY_HAND}")
        if self._spec.for_system or self._session():
            return
        # Nobody is logged in as systemd sees it. Lingering starts the account's manager.
        self._let_linger()
        tries_left = round(_SESSION_S / _LOOK_S)
        while not self._session():
            if not tries_left:
                raise NoServiceManager(
                    f"cannot make a service: systemd keeps no session for {self._host.account}; "
                    f"have an administrator run: loginctl enable-linger {self._host.account}, "
                    f"log in anew and try again, or {_BY_HAND}"
                )
            tries_left -= 1
            self._pause(_LOOK_S)  # systemd tells nobody who has no session yet

    def install(self, *, restart: bool) -> list[str]:
        """Write the unit, enable and start it."""
        notes = []
        if not self._spec.for_system and not self._lingers() and not self._let_linger():
            notes.append(
                "it stops when you log out: to let it run, have an administrator run: "
                f"loginctl enable-linger {self._host.account}"
            )
        ours = self._linger_is_ours or says_linger_is_ours(self._installed())
        text = render_unit(replace(self._spec, linger_is_ours=ours))
        private = bool(self._spec.environment)
        changed = write_service_file(self.file, text, private=private)
        self._must("daemon-reload")
        self._must("enable", self._spec.unit)
        self._must("restart" if changed or restart else "start", self._spec.unit)
        return notes

    def remove(self) -> None:
        """Stop and forget it; lingering goes back to what it was where no unit of ours is left."""
        ours = says_linger_is_ours(self._installed())
        if not self.file.exists():
            return
        # Where systemd does not run (any more) there is nothing to stop, and the file still goes.
        self._ask("disable", "--now", self._spec.unit)
        self.file.unlink(missing_ok=True)
        self._ask("daemon-reload")
        self._ask("reset-failed", self._spec.unit)
        others = list(self.file.parent.glob("farhandd*.service"))
        if ours and not others:
            self._host.run("loginctl", "disable-linger", self._host.account, environ=self._environ)
        for folder in (self.file.parent, self.file.parent.parent) if not others else ():
            if not self._spec.for_system:  # ~/.config/systemd/user, when it was made for us
                with contextlib.suppress(OSError):
                    (folder / "default.target.wants").rmdir()
                with contextlib.suppress(OSError):
                    folder.rmdir()

    def state(self) -> ServiceState:
        """Say how it is, whether or not systemd runs."""
        unit = self._installed()
        installed = bool(unit)
        active = installed and self._ask("is-active", self._spec.unit).status == 0
        enabled = installed and self._ask("is-enabled", self._spec.unit).status == 0
        problem = ""
        if installed and not enabled:
            problem = "it does not start with the computer; run farhandd service install"
        elif installed and not self._spec.for_system and not self._lingers():
            problem = (
                "it stops when you log out; run farhandd service install, or have an administrator "
                f"run loginctl enable-linger {self._host.account}"
            )
        wanted = settings_of(render_unit(self._spec))
        return ServiceState(
            manager="systemd" if self._spec.for_system else "systemd --user",
            name=self._spec.unit,
            file=self.file,
            installed=installed,
            as_rendered=installed and settings_of(unit) == wanted,
            active=active,
            starts_by_itself=enabled,
            problem=problem,
        )

    def _installed(self) -> str:
        try:
            return self.file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def _session(self) -> bool:
        return _answers(self._ask("is-system-running"))

    def _lingers(self) -> bool:
        shown = self._host.run(
            *("loginctl", "show-user", self._host.account, "--property=Linger", "--value"),
            environ=self._environ,
        )
        return shown.out.strip() == "yes"

    def _let_linger(self) -> bool:
        """Ask for it where it is not so; tell whether that changed something."""
        if self._lingers():
            return False
        answer = self._host.run(
            "loginctl", "enable-linger", self._host.account, environ=self._environ
        )
        self._linger_is_ours = answer.status == 0  # noted in the unit, for its removal
        return self._linger_is_ours

    def _ask(self, *words: str) -> Answer:
        scope = () if self._spec.for_system else ("--user",)
        return self._host.run("systemctl", *scope, *words, environ=self._environ)

    def _must(self, *words: str) -> None:
        answer = self._ask(*words)
        if answer.status != 0:
            where = "" if self._spec.for_system else " --user"
            raise Unavailable(
                f"cannot make a service: systemctl {' '.join(words)} says: {answer.reason}; "
                f"see journalctl{where} -u {self._spec.unit}, or {_BY_HAND}"
            )


def _answers(answer: Answer) -> bool:
    return answer.out.strip() in _RUNS
