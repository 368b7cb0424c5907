"""``farhandd service install | remove | status``: the daemon as a service of this computer."""

import json
import sys
from dataclasses import asdict
from typing import Final

from farhand_daemon.identity import load_identity
from farhand_daemon.paths import Home
from farhand_daemon.service.manager import (
    Host,
    NoServiceManager,
    ServiceManager,
    ServiceState,
    manager_for,
    spec_for,
    this_host,
)
from farhand_daemon.status import running_pid
from farhand_shared.errors import Conflict

EXIT_NO_MANAGER: Final = 4  # nothing here keeps services: an installer then runs it itself


def service(
    home: Home, action: str, *, restart: bool, as_json: bool, host: Host | None = None
) -> int:
    """Do what was asked; return 0, 1 when ``status`` finds no running service, or 4."""
    host = host or this_host()
    manager = manager_for(spec_for(home, host), host)
    try:
        if action == "install":
            return _install(home, manager, restart=restart)
        if action == "remove":
            return _remove(manager)
        return show_service(manager, as_json=as_json)
    except NoServiceManager as error:
        print(f"farhandd: {error}", file=sys.stderr)
        return EXIT_NO_MANAGER


def _install(home: Home, manager: ServiceManager, *, restart: bool) -> int:
    load_identity(home)  # a service over a home that is no machine would only fail
    manager.check()
    pid = running_pid(home)
    if pid is not None and not manager.state().active:
        raise Conflict(
            f"cannot make a service: a daemon (pid {pid}) runs already, started by hand; "
            "stop it (Ctrl-C there) and try again"
        )
    notes = manager.install(restart=restart)
    state = manager.state()
    print(f"The daemon runs as a service of {state.manager}, {state.name}: {state.file}")
    for note in notes:
        print(f"But {note}")
    return 0


def _remove(manager: ServiceManager) -> int:
    if not manager.state().installed:
        print("There is no service of this daemon.")
        return 0
    manager.remove()
    print("The service is stopped and removed; running commands go on. Its machine stays enrolled.")
    return 0


def show_service(manager: ServiceManager, *, as_json: bool) -> int:
    """Print how the service is; return 0 while it runs, else 1."""
    state = manager.state()
    if as_json:
        print(json.dumps({**asdict(state), "file": str(state.file)}))
    else:
        print(f"{'service':<12} {state.manager}, {state.name}")
        print(f"{'state':<12} {describe(state)}")
        if state.installed:
            print(f"{'file':<12} {state.file}")
    return 0 if state.active else 1


def describe(state: ServiceState) -> str:
    """Return one line about a service."""
    if not state.installed:
        return "not installed; farhandd service install makes it"
    text = "running" if state.active else "not running"
    if not state.as_rendered:
        text += "; its settings are not those of this version: run farhandd service install"
    return f"{text}; {state.problem}" if state.problem else text
