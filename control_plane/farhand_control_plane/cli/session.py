"""What every verb starts from: the server to talk to, and the ways to show an answer."""

import json
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from farhand_control_plane.client.api import Api, find_target
from farhand_control_plane.client.screen import harmless
from farhand_control_plane.config import Settings, load
from farhand_shared.errors import InvalidInput


class Misuse(InvalidInput):
    """What was typed makes no sense, whatever a server says: exit code 2."""


def settings() -> Settings:
    """Return the settings of this use."""
    return load(os.environ)


def api() -> Api:
    """Return the server that the settings name."""
    return Api(find_target(settings()))


def show_json(value: Any) -> None:  # JSON
    """Print an answer for programs, as the API gave it."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def show(line: str = "") -> None:
    """Print a line for people."""
    print(harmless(line))


def note(line: str) -> None:
    """Print a line beside the answer."""
    sys.stdout.flush()
    sys.stderr.write(f"{harmless(line)}\n")


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
    """Print aligned columns, or ``empty``: what to do next."""
    if not rows:
        show(empty)
        return
    cells = [[harmless(cell).replace("\n", " ") for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    for row in cells:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def when(moment: str | None) -> str:
    """Return a moment of the API in this computer's own time."""
    if moment is None:
        return "never"
    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M")


def asks_yes(question: str) -> bool:
    """Ask a person for a typed yes; anything else, and the end of input, is a no."""
    sys.stdout.flush()
    sys.stderr.write(f"{question} Type yes: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() == "yes"
