"""The daemon as a job of launchd: a LaunchAgent of the account, or a LaunchDaemon of the system.

Written after launchctl(1); not tried on a Mac.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from farhand_daemon.service.launchd_plist import render_plist
from farhand_daemon.service.manager import (
    Answer,
    Host,
    NoServiceManager,
    ServiceState,
    write_service_file,
)
from farhand_daemon.service.spec import ServiceSpec
from farhand_shared.errors import Unavailable

SYSTEM_FOLDER: Final = Path("/Library/LaunchDaemons")
_BY_HAND: Final = "run the daemon in the foreground with farhandd run"
_GONE_S: Final = 10.0  # a job that is booted out is there until its process has ended
_LOOK_S: Final = 0.2


class Launchd:
    """One job. Asks ``launchctl``, which the host's runner starts."""

    name = "launchd"

    def __init__(
        self,
        spec: ServiceSpec,
        host: Host,
        *,
        system_folder: Path = SYSTEM_FOLDER,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spec, self._host, self._pause = spec, host, pause
        agents = host.account_home / "Library" / "LaunchAgents"
        self.file = (system_folder if spec.for_system else agents) / f"{spec.label}.plist"
        self._domain = "system" if spec.for_system else f"gui/{host.uid}"

    def check(self) -> None:
        """Raise NoServiceManager where the account has no session of launchd, as over ssh."""
        answer = self._ask("print", self._domain)
        if answer.status == 0:
            return
        why = (
            "launchctl is not installed"
            if answer.status == 127
            else f"{self._host.account} is not logged in on the screen of this Mac"
        )
        raise NoServiceManager(
            f"cannot make a service: {why}; log in there and try again, or {_BY_HAND}"
        )

    def install(self, *, restart: bool) -> list[str]:
        """Write the property list and load it; a job that was loaded is loaded anew if needed."""
        private = bool(self._spec.environment)
        changed = write_service_file(self.file, render_plist(self._spec), private=private)
        loaded = self._is_loaded()
        if loaded and (changed or restart):
            self._boot_out()
            loaded = False
        self._must("enable", self._job)
        if not loaded:
            self._must("bootstrap", self._domain, str(self.file))
        return []

    def remove(self) -> None:
        """Unload and forget it."""
        if not self.file.exists():
            return
        self._boot_out()
        self.file.unlink(missing_ok=True)

    def state(self) -> ServiceState:
        """Say how it is."""
        try:
            found = self.file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            found = ""
        loaded = bool(found) and self._is_loaded()
        problem = "it is not loaded; run farhandd service install" if found and not loaded else ""
        return ServiceState(
            manager="launchd",
            name=self._spec.label,
            file=self.file,
            installed=bool(found),
            as_rendered=found == render_plist(self._spec),
            active=loaded,
            starts_by_itself=bool(found),
            problem=problem,
        )

    @property
    def _job(self) -> str:
        return f"{self._domain}/{self._spec.label}"

    def _is_loaded(self) -> bool:
        return self._ask("print", self._job).status == 0

    def _boot_out(self) -> None:
        if not self._is_loaded():
            return
        self._ask("bootout", self._job)
        tries_left = round(_GONE_S / _LOOK_S)
        while tries_left and self._is_loaded():
            tries_left -= 1
            self._pause(_LOOK_S)  # bootout answers before the job is gone

    def _ask(self, *words: str) -> Answer:
        return self._host.run("launchctl", *words, environ=self._host.environ)

    def _must(self, *words: str) -> None:
        answer = self._ask(*words)
        if answer.status != 0:
            raise Unavailable(
                f"cannot make a service: launchctl {words[0]} says: {answer.reason}; "
                f"see {self._spec.home / 'service.log'}, or {_BY_HAND}"
            )
