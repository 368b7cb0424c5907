"""The machine's own file, ``machine.toml``: the first form of its ceiling.

Only a person on this machine changes it. The daemon reads it and nothing that arrives over the
link reaches it: the control plane can subtract from what is allowed here, never add.
"""

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farhand_daemon.paths import write_private
from farhand_shared.errors import FarhandError, InvalidInput
from farhand_shared.labels import parse_labels
from farhand_shared.limits import CONCURRENCY_DEFAULT

TRUST_LEVELS = ("trusted", "off")
_NEED_SANDBOX = ("ask", "workspace")  # levels of the design that wait for the sandbox
CHOSEN_BY = ("typed", "up", "preset", "default")
CONCURRENCY_MAX = 1024
UPDATE_OFF = "off"
UPDATE_DEFAULT = "stable"
PROBATION_DEFAULT_S = 120
_PROBATION_MAX_S = 3600
_CHANNEL = re.compile(r"[a-z][a-z0-9-]{0,31}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFile:
    """What this machine allows. Every field has a key of the same name in the file."""

    trust_level: str
    chosen_by: str = "default"  # how the level came to be
    roots: tuple[Path, ...] = ()  # working directories must lie beneath one; empty: the home
    allow_inferred: bool = False  # whether work that nobody asked for in words may run
    concurrency: int = CONCURRENCY_DEFAULT  # commands at once
    env_allow: tuple[str, ...] = ()  # variables kept although their names look like secrets
    labels: tuple[str, ...] = ()  # build or team=infra: by which work finds this machine
    update: str = UPDATE_DEFAULT  # the channel whose signed releases may be installed, or off
    update_probation_s: int = PROBATION_DEFAULT_S  # a new version must be connected by then

    def all_roots(self) -> tuple[Path, ...]:
        """Return the roots, the account's home when none is named; the first is the default cwd."""
        return self.roots or (Path.home(),)


def load_machine_file(path: Path) -> MachineFile:
    """Read and check the file; raise InvalidInput naming the key, the reason and the way out."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(
            f"cannot read {path}: there is no such file; run farhandd enroll"
        ) from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}; make it readable") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {path}: not TOML: {error}; correct it") from error
    try:
        return parse_machine_table(table)
    except InvalidInput as error:
        raise InvalidInput(f"cannot use {path}: {error}") from None


def parse_machine_table(table: dict[str, Any]) -> MachineFile:
    """Check a decoded table. Keys that this version does not know are refused, never skipped.

    ``Any``: what TOML holds is known only after these checks.
    """
    known = MachineFile.__dataclass_fields__
    for key in table:
        if key not in known:
            raise InvalidInput(f"key {key!r} is unknown; the keys are {', '.join(known)}")
    level = table.get("trust_level")
    if level in _NEED_SANDBOX:
        raise InvalidInput(
            f"trust_level {level!r} needs the sandbox, which this version does not have; "
            "use 'trusted' or 'off'"
        )
    if level not in TRUST_LEVELS:
        raise InvalidInput(f"trust_level is {level!r}; use 'trusted' or 'off'")
    chosen_by = table.get("chosen_by", "default")
    if chosen_by not in CHOSEN_BY:
        raise InvalidInput(f"chosen_by is {chosen_by!r}; use one of {', '.join(CHOSEN_BY)}")
    concurrency = table.get("concurrency", CONCURRENCY_DEFAULT)
    if type(concurrency) is not int or not 1 <= concurrency <= CONCURRENCY_MAX:
        raise InvalidInput(f"concurrency is {concurrency!r}; use a number 1 to {CONCURRENCY_MAX}")
    allow_inferred = table.get("allow_inferred", False)
    if type(allow_inferred) is not bool:
        raise InvalidInput(f"allow_inferred is {allow_inferred!r}; use true or false")
    roots = tuple(Path(text).expanduser() for text in _texts(table, "roots"))
    for root in roots:
        if not root.is_absolute():
            raise InvalidInput(f"root {str(root)!r} is not absolute; begin it with / or ~")
    labels = _texts(table, "labels")
    parse_labels(labels)
    update = table.get("update", UPDATE_DEFAULT)
    if type(update) is not str or not _CHANNEL.fullmatch(update):
        raise InvalidInput(f"update is {update!r}; use 'off' or a channel such as 'stable'")
    probation_s = table.get("update_probation_s", PROBATION_DEFAULT_S)
    if type(probation_s) is not int or not 1 <= probation_s <= _PROBATION_MAX_S:
        raise InvalidInput(
            f"update_probation_s is {probation_s!r}; use a number 1 to {_PROBATION_MAX_S}"
        )
    return MachineFile(
        trust_level=level,
        chosen_by=chosen_by,
        roots=roots,
        allow_inferred=allow_inferred,
        concurrency=concurrency,
        env_allow=_texts(table, "env_allow"),
        labels=labels,
        update=update,
        update_probation_s=probation_s,
    )


def _texts(table: dict[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise InvalidInput(f"{key} is {value!r}; use a list of non-empty strings")
    return tuple(value)


def write_machine_file(path: Path, machine: MachineFile) -> None:
    """Write the file at enrolment. Nothing else calls this; ``update --off`` edits one line."""
    lines = [
        "# What this machine allows. Only this file decides; the control plane cannot widen it.",
        "# trust_level: trusted (any command as this account, no sandbox) or off (nothing runs)",
        f"trust_level = {_toml(machine.trust_level)}",
        f"chosen_by = {_toml(machine.chosen_by)}",
        "# working directories must lie beneath one of these; the first is the default",
        f"roots = [{', '.join(_toml(str(root)) for root in machine.all_roots())}]",
        "# may work run here that nobody asked for in words?",
        f"allow_inferred = {'true' if machine.allow_inferred else 'false'}",
        f"concurrency = {machine.concurrency}",
        "# variables passed on to commands although their names look like secrets",
        f"env_allow = [{', '.join(_toml(name) for name in machine.env_allow)}]",
        '# by which work finds this machine, such as "build" or "team=infra"',
        f"labels = [{', '.join(_toml(label) for label in machine.labels)}]",
        "# whose signed releases are installed by themselves: a channel, or off",
        f"update = {_toml(machine.update)}",
    ]
    write_private(path, "\n".join([*lines, ""]).encode())


def _toml(text: str) -> str:
    """Quote a TOML basic string: JSON's escapes are a subset of TOML's, except for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


class Ceiling:
    """The machine file as it is now: read again whenever it has changed on disk.

    A file that has become unreadable or wrong allows nothing until it is right again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._machine: MachineFile | None = None
        self._fault = ""

    def current(self) -> MachineFile:
        """Return what applies now; raise InvalidInput with the fault of a wrong file.

        One ``stat`` when nothing changed: cheap enough for every decision.
        """
        try:
            state = self.path.stat()
            stamp = (state.st_mtime_ns, state.st_size, state.st_ino)
        except OSError:
            stamp = None
        if stamp is None or stamp != self._stamp:
            self._stamp = stamp
            try:
                self._machine, self._fault = load_machine_file(self.path), ""
            except FarhandError as error:
                self._machine, self._fault = None, str(error)
        if self._machine is None:
            raise InvalidInput(self._fault)
        return self._machine
