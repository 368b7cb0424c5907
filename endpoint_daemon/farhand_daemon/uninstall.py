"""``farhandd uninstall``: nothing of the daemon is left on this computer.

The order lets it be broken off and repeated: what starts the daemon goes first, the identity after
everything that could still need it, the program last, because it is what runs here.
"""

import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Final

from farhand_daemon.event_log import OLD_SUFFIX
from farhand_daemon.identity import MachineCredentials, load_identity
from farhand_daemon.paths import LEFTOVER, Home, find_home
from farhand_daemon.program import Program, installed_program
from farhand_daemon.running import Running, end_commands, running_commands
from farhand_daemon.service.manager import Host, ServiceManager, manager_for, spec_for, this_host
from farhand_daemon.status import HomeLock, running_pid
from farhand_shared.errors import Conflict, FarhandError, NotAllowed, Unavailable
from farhand_shared.limits import GRACE_MS

_STOP_S: Final = GRACE_MS / 1000 + 20.0  # the daemon's own end of all commands, and some more
_LOOK_S: Final = 0.1
# What the daemon makes in its home. A home of a person's choice may hold other things.
_OURS: Final = (
    *("machine.toml", "identity.json", "enrolling.json", "status.json"),
    *("daemon.log", f"daemon.log{OLD_SUFFIX}", "supervisor.log", "service.log"),
    *("journal", "journal.new", "spool", "supervisors", "orphans"),
)


def uninstall(home: Home, *, yes: bool, force: bool, host: Host | None = None) -> int:
    """Remove service, state and program after a typed yes (or ``yes``); return 0.

    Conflict while commands run, unless ``force`` ends them. Nothing there is no error.
    """
    host = host or this_host()
    manager = manager_for(spec_for(home, host), host)
    program = installed_program(Path(sys.prefix), host.account_home)
    others = () if program is None else program.other_homes(home.root)
    is_there = home.root.exists()
    if not is_there and not manager.file.exists() and (program is None or others):
        print(f"There is nothing to remove: {home.root} does not exist, and there is no service.")
        return 0
    identity = _identity(home)
    _refuse_while(running_commands(home.root), force=force)
    if not yes:
        _ask(home, identity, manager, None if others else program)
    _stop(home, manager, force=force)
    if is_there:
        left = _remove_state(home)
        print(f"Removed {home.root}" + (f", but not what is not ours: {left}" if left else ""))
    if program is not None:
        program.forget(home.root)
        if others:
            print(f"The program stays for {', '.join(map(str, others))}: {program.folder}")
        else:
            program.remove()
            print(f"Removed {program.folder}")
    elif is_there:
        print(f"The program in {sys.prefix} was not put there by the installer and stays.")
    if identity is not None:
        print(
            f"Now revoke the machine, or it stays in the list: on {identity.server_url}, or with "
            f"farhand machines revoke {identity.machine_name}"
        )
    return 0


def _identity(home: Home) -> MachineCredentials | None:
    try:
        return load_identity(home)
    except FarhandError:
        return None


def _refuse_while(running: tuple[Running, ...], *, force: bool) -> None:
    if running and not force:
        some = f"{len(running)} commands run" if len(running) > 1 else "a command runs"
        raise Conflict(
            f"cannot uninstall: {some} on this machine ({running[0].attempt_id}"
            f"{', …' if len(running) > 1 else ''}); wait for the end, or give --force to end them"
        )


def _ask(
    home: Home,
    identity: MachineCredentials | None,
    manager: ServiceManager,
    program: Program | None,
) -> None:
    if not sys.stdin.isatty():
        raise NotAllowed(
            "cannot uninstall: there is no terminal to type the yes on; give --yes if it is meant"
        )
    print("This removes from this computer:")
    if identity is not None:
        print(
            f"  the machine {identity.machine_name} of {identity.server_url}: it cannot come back"
        )
    if home.root.exists():
        print(f"  its key (it cannot come back), settings and undelivered results: {home.root}")
    if manager.file.exists():
        print(f"  its service: {manager.file}")
    if program is not None:
        print(f"  the program: {program.folder}")
    print("Type yes to go on: ", end="", flush=True)
    if sys.stdin.readline().strip().lower() != "yes":
        raise NotAllowed("cannot uninstall: no yes was typed; nothing was changed")


def _stop(home: Home, manager: ServiceManager, *, force: bool) -> None:
    """Stop the daemon and what starts it; with ``force`` its commands too."""
    if force:
        # An interrupt ends the commands in order; ended so, no service manager starts it again.
        _signal_and_wait(home, signal.SIGINT)
    if manager.file.exists():
        manager.remove()
        print(f"Removed the service {manager.file}")
    _signal_and_wait(home, signal.SIGTERM)
    running = running_commands(home.root)
    _refuse_while(running, force=force)  # one may have started before the daemon stopped
    end_commands(running)


def _signal_and_wait(home: Home, number: signal.Signals) -> None:
    pid = running_pid(home)
    if pid is None:
        return
    if pid > 0:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # it ended just now
        except PermissionError:
            raise Unavailable(
                f"cannot uninstall: the daemon (pid {pid}) is another account's; run this as that"
            ) from None
    until = time.monotonic() + _STOP_S
    while running_pid(home) is not None:
        if time.monotonic() > until:
            raise Unavailable(
                f"cannot uninstall: the daemon (pid {pid}) does not end; kill it and try again"
            )
        time.sleep(_LOOK_S)  # its lock tells, and a lock can only be looked at


def _remove_state(home: Home) -> str:
    """Remove what is ours; give what is left, "" when the folder went too."""
    root = home.root
    whole = home == find_home(None, {})  # nobody but us puts anything there
    with HomeLock.take(home):  # no daemon starts meanwhile
        for entry in root.iterdir():
            ours = entry.name in _OURS or LEFTOVER.fullmatch(entry.name) is not None
            if entry == home.lock_file or not (ours or whole):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)
    left = ", ".join(sorted(entry.name for entry in root.iterdir()))
    if not left and not root.is_symlink():
        root.rmdir()
    return left
