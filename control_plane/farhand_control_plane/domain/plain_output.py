"""What a command's output says once a terminal has drawn it: for models, and for lists of lines.

Stored bytes stay as they came. Programs that draw (progress bars, colours, spinners) write over
their own lines with carriage returns and control sequences; read as they stand, these are one long
smear that hides the last state among all earlier ones.
"""

import re
from typing import Final

_DRAWN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and line feed
_PIECE: Final = re.compile(
    "(?P<text>[^\x00-\x08\x0a-\x1f\x7f-\x9f]+)"  # a tab is text: its width is nobody's affair here
    "|(?P<end>\r*\n)"
    # As long as no sequence in use is; one that is broken off ends with its line.
    "|(?:\x1b\\[|\x9b)(?P<numbers>[0-?]{0,128})[ -/]{0,8}(?P<final>[@-~]?)"
    "|(?:\x1b[PX\\]^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\\\|\x9c)?"
    "|\x1b[ -/]{0,8}[0-~]?"
    "|(?P<other>[\x00-\x1f\x7f-\x9f])"
)
_WIDEST: Final = 4096  # characters; a cursor is moved no further, whatever a sequence says


def plain(text: str) -> str:
    """Return the lines that are left on a screen, without anything that only drives one.

    Carriage return and backspace move, what follows writes over; erasing and moving within a line
    is done; colours, titles and modes are dropped, as is movement between lines.
    """
    if not _DRAWN.search(text):
        return text
    lines: list[str] = []
    line = _Line()
    for found in _PIECE.finditer(text):
        if found["text"] is not None:
            line.write(found["text"])
        elif found["end"] is not None:
            lines.append(line.text())
            line = _Line()
        elif found["final"] is not None:
            line.obey(found["final"], found["numbers"])
        elif found["other"] is not None:
            line.control(found["other"])
    lines.append(line.text())
    return "\n".join(lines)


class _Line:
    """One line while it is drawn."""

    __slots__ = ("_at", "_characters")

    def __init__(self) -> None:
        self._characters: list[str] = []
        self._at = 0

    def write(self, text: str) -> None:
        missing = self._at - len(self._characters)
        if missing > 0:
            self._characters += " " * missing
        self._characters[self._at : self._at + len(text)] = text
        self._at += len(text)

    def control(self, character: str) -> None:
        match character:
            case "\r":
                self._at = 0
            case "\b":
                self._at = max(0, self._at - 1)

    def obey(self, final: str, numbers: str) -> None:
        first = numbers.partition(";")[0]
        # Of more digits than a screen has columns only their size counts.
        number = min(int(first[:9]), _WIDEST) if first.isascii() and first.isdigit() else 0
        match final:
            case "K":
                self._erase(number)
            case "G":
                self._at = max(0, number - 1)
            case "C":
                self._at = max(self._at, min(self._at + max(1, number), _WIDEST))
            case "D":
                self._at = max(0, self._at - max(1, number))
            case "P":
                del self._characters[self._at : self._at + max(1, number)]

    def _erase(self, which: int) -> None:
        if which == 0:
            del self._characters[self._at :]
        elif which == 1:
            erased = min(self._at + 1, len(self._characters))
            self._characters[:erased] = " " * erased
        elif which == 2:
            self._characters.clear()

    def text(self) -> str:
        return "".join(self._characters)
