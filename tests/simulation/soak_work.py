"""What a soak asks for, what clients were told of it, and what was found at the end."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

OUR_FAILURE: Final = 125  # `farhand exec` has no result to tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One command: what it is to write and how it is to end."""

    id: str
    script: str
    stdout: bytes
    status: int
    gives_up_after_s: float | None = None  # then its client gets Ctrl-C; None: it waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a client was told."""

    status: int
    stdout: bytes
    stderr: str


@dataclass(slots=True)
class Report:
    """What is known at the end; `wrong` is empty if all held."""

    counts: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)


def work(seed: int, number: int, record: Path) -> Work:
    """Return the command of this number: short or long, quiet or with much to say."""
    chance = random.Random(f"{seed}/{number}")
    name = f"soak-{seed}-{number:06d}"
    lines, status = chance.choice([0, 1, 10, 200, 20_000]), chance.choice([0, 0, 0, 1, 7])
    pauses = [chance.choice([0.0, 0.0, 0.2, 1.0, 4.0]) for _ in range(2)]
    script = (
        f": {name}; echo {name} >> '{record}'; sleep {pauses[0]}; "
        f"seq -f '{name} %.0f' 1 {lines}; sleep {pauses[1]}; echo end; exit {status}"
    )
    stdout = "".join(f"{name} {line}\n" for line in range(1, lines + 1)) + "end\n"
    return Work(
        id=name,
        script=script,
        stdout=stdout.encode(),
        status=status,
        gives_up_after_s=chance.choice([0.2, 0.5, 1.0, 3.0]) if chance.random() < 0.08 else None,
    )
