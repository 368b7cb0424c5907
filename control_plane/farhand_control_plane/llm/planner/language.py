"""The few sentences that the offline planner understands.

    run CMD on MACHINE      CMD runs to the last " on "
    on MACHINE: CMD
    on MACHINE:             the lines below are one script
    read FILE on MACHINE    list FOLDER on MACHINE
    run CMD on a fresh environment
    several such lines      one command each, in order
    stop [TICKET]           status          which machines do I have?

CMD is a ``/bin/sh -c`` string. A machine is one word, or ``this machine``. FILE and FOLDER are one
word, or in quotes: else every sentence about reading would be one of these. Source of the other
forms: the design's page on experience.
"""

import re
from dataclasses import dataclass
from typing import Literal

THIS_MACHINE = "this machine"
NO_MACHINE = ""  # none was named: a question, never a guess
FRESH_ENVIRONMENT = "kind=on-demand"  # the selector of it, which may be written as well

_FRESH = re.compile(
    r"\bon (?:(?:a )?(?:fresh|new) environment|kind=on[-_]demand)(?=\s*:|[.!]?\s*$)", re.I | re.M
)

_ON = re.compile(r"^on\s+(?P<machine>this machine|\S+?)\s*:\s*(?P<command>\S.*)$", re.I | re.S)
_SCRIPT = re.compile(
    r"^on\s+(?P<machine>this machine|\S+?)\s*:[ \t]*\n(?P<script>.*\S)\s*$", re.I | re.S
)
_LOOK = re.compile(
    r"^(?P<verb>read|list)\s+(?:\"(?P<quoted>[^\"]+)\"|'(?P<single>[^']+)'|(?P<word>[^\s\"']\S*))"
    r"\s+on\s+(?P<machine>this machine|\S+?)[.!]?$",
    re.I,
)
_MACHINE = re.compile(r"^(this machine|\S+?)[.!]?$", re.I)
_STOP = re.compile(
    r"^(?:please\s+)?(?:stop|cancel)(?:\s+(?:ticket\s+)?(?P<ticket>[0-9a-f-]{4,36}))?[.!]?$", re.I
)
_STATUS = re.compile(r"^(?:status|what(?:'s| is) (?:running|going on))\s*\??[.!]?$", re.I)
_MACHINES = re.compile(
    r"^(?:(?:which|what|list|show)\s+(?:are\s+)?(?:my\s+|the\s+)?machines?(?:\s+do\s+i\s+have)?|machines)"
    r"\s*[?.!]*$",
    re.I,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One command to run; ``machine`` is a name, THIS_MACHINE or NO_MACHINE."""

    command: str
    machine: str

    @property
    def words(self) -> str:
        return self.command


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One file to read or folder to list; ``machine`` as in Run."""

    verb: Literal["read", "list"]
    path: str
    machine: str

    @property
    def words(self) -> str:
        return f"{self.verb} {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    runs: tuple[Run | Look, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    ticket: str | None


@dataclass(frozen=True, slots=True)
class AskStatus:
    pass


@dataclass(frozen=True, slots=True)
class AskMachines:
    pass


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    pass


Sentence = Work | Stop | AskStatus | AskMachines | NotUnderstood


def understand(text: str) -> Sentence:
    """Return what a message asks for; anything but the forms above is NotUnderstood."""
    text = _FRESH.sub(f"on {FRESH_ENVIRONMENT}", text.strip())
    if match := _STOP.match(text):
        return Stop(ticket=match["ticket"])
    if _STATUS.match(text):
        return AskStatus()
    if _MACHINES.match(text):
        return AskMachines()
    if match := _SCRIPT.match(text):
        return Work(runs=(Run(command=match["script"], machine=_normal(match["machine"])),))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    runs = [_look(line) or _run(line) for line in lines]
    if runs and all(runs):
        return Work(runs=tuple(run for run in runs if run is not None))
    return NotUnderstood()


def machine_named(text: str) -> str | None:
    """Return the machine that a short answer names ("laptop", "on laptop."), if it is one."""
    answer = text.strip().removeprefix("on ").strip()
    match = _MACHINE.match(answer)
    return _normal(match[1]) if match else None


def _look(line: str) -> Look | None:
    match = _LOOK.match(line)
    if match is None:
        return None
    path = match["quoted"] or match["single"] or match["word"]
    verb: Literal["read", "list"] = "read" if match["verb"].lower() == "read" else "list"
    return Look(verb=verb, path=path, machine=_normal(match["machine"]))


def _run(line: str) -> Run | None:
    if match := _ON.match(line):
        return Run(command=match["command"].strip(), machine=_normal(match["machine"]))
    if line[:4].lower() != "run ":
        return None
    command, found, machine = line[3:].rpartition(" on ")
    named = machine_named(machine) if found else None
    if named is None:
        command, named = line[4:], NO_MACHINE
    return Run(command=command.strip(), machine=named) if command.strip() else None


def _normal(machine: str) -> str:
    return THIS_MACHINE if machine.lower() == THIS_MACHINE else machine
