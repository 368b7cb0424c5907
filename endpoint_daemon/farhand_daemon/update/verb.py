"""``farhandd update``: see what there is, install it, go back, or say that nothing shall change."""

import argparse
import re
import time
from dataclasses import replace
from datetime import UTC, datetime

from farhand_daemon.machine_file import UPDATE_OFF, load_machine_file, parse_machine_table
from farhand_daemon.paths import Home, write_private
from farhand_daemon.status import running_pid
from farhand_daemon.update.decide import Asked, Install
from farhand_daemon.update.look import (
    have_tried,
    install,
    installation,
    look,
    look_by_daemon,
)
from farhand_daemon.update.state import Candidate, change_state
from farhand_shared.errors import InvalidInput, NotFound

_HOUR_MS = 3_600_000
_SETTING = re.compile(r"^[ \t]*update[ \t]*=.*$", re.MULTILINE)


def update(home: Home, options: argparse.Namespace) -> int:
    """Do what was asked; return 0. With ``--check`` 0 as well, whether or not there is one."""
    if options.by_daemon:
        look_by_daemon(home)
    elif options.off or options.channel is not None:
        _set(home, UPDATE_OFF if options.off else options.channel)
    elif options.wait is not None:
        _wait(options.wait)
    elif options.rollback:
        _roll_back(home)
    else:
        _update(home, Asked(by_person=True, version=options.to), check=options.check)
    return 0


def _update(home: Home, asked: Asked, *, check: bool) -> None:
    verdict = look(home, asked)
    if not isinstance(verdict, Install):
        step = f" ({verdict.step})" if verdict.step else ""
        print(f"Nothing to do: {verdict.reason}{step}.")
        return
    version = verdict.release.version
    if check:
        print(f"{version} of {verdict.release.channel} can be installed: farhandd update")
        return
    print(f"Installing {version}; half a minute …", flush=True)
    _told(home, install(home, verdict, asked))


def _roll_back(home: Home) -> None:
    slots, own = installation()
    previous, current = slots.previous(), slots.current() or own
    if previous is None or previous == current:
        raise NotFound(
            f"cannot go back: no version before {current.version()} is kept here; "
            "farhandd update --to VERSION installs one"
        )
    candidate = Candidate(slot=previous.name, version=previous.version(), asked=True)
    have_tried(slots, candidate)
    _told(home, candidate)


def _told(home: Home, candidate: Candidate) -> None:
    if running_pid(home) is None:
        print(f"{candidate.version} is tried when the daemon starts; none runs now.")
        return
    seconds = load_machine_file(home.machine_file).update_probation_s
    print(
        f"The daemon changes to {candidate.version} now; running commands go on. It has {seconds} "
        "s to connect and stay so, or the version before goes on: see farhandd status."
    )


def _wait(hours: int) -> None:
    slots, _ = installation()
    until_ms = time.time_ns() // 1_000_000 + hours * _HOUR_MS
    change_state(slots.folder, lambda state: replace(state, not_before_ms=until_ms))
    if hours:
        until = datetime.fromtimestamp(until_ms / 1000, tz=UTC).astimezone()
        print(f"No version changes by itself before {until:%Y-%m-%d %H:%M}.")
    else:
        print("Versions may change by themselves again.")


def _set(home: Home, value: str) -> None:
    """Write one line of the machine file, as its owner would with an editor."""
    path = home.machine_file.resolve()  # a link to it stays one
    load_machine_file(path)  # a file with a fault is not ours to mend
    try:
        parse_machine_table({"trust_level": "off", "update": value})
    except InvalidInput as error:
        raise InvalidInput(f"cannot set the channel: {error}") from None
    text, line = path.read_text(encoding="utf-8"), f'update = "{value}"'
    text = _SETTING.sub(line, text) if _SETTING.search(text) else f"{text.rstrip()}\n{line}\n"
    write_private(path, text.encode())
    if load_machine_file(path).update != value:
        raise InvalidInput(f"cannot set update in {path}: another line of it says it; edit it")
    print(
        "No version changes by itself any more."
        if value == UPDATE_OFF
        else f"Signed releases of {value} are installed by themselves."
    )
