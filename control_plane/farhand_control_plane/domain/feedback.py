"""How the agent speaks: few words, one acknowledgement, one question at a time."""

import re
from typing import Final

from farhand_shared.errors import InvalidInput, TooLarge
from farhand_shared.ids import ReportId
from farhand_shared.limits import KIB, REPLY_MAX_WORDS

TEXT_MAX_BYTES: Final = 64 * KIB  # of one report, question or answer
_TITLE_MAX_CHARACTERS: Final = 80
_ACKNOWLEDGEMENT_MAX_WORDS: Final = 25

# Scripts written without spaces: about two characters make a word.
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def count_words(prose: str) -> int:
    """Count the words of prose: runs between white space that hold a letter or a digit.

    Han and Kana, written without spaces, count one word per two characters.
    """
    unspaced = len(_UNSPACED.findall(prose))
    spaced = _UNSPACED.sub(" ", prose).split()
    return (unspaced + 1) // 2 + sum(any(c.isalnum() for c in run) for run in spaced)


def check_prose(prose: str) -> None:
    """Raise InvalidInput when a reply says nothing or more than the limit."""
    words = count_words(prose)
    if not prose.strip():
        raise InvalidInput("cannot send the reply: it is empty; say something or send nothing")
    if words > REPLY_MAX_WORDS:
        raise InvalidInput(
            f"cannot send the reply: it has {words} words, the limit is {REPLY_MAX_WORDS}; "
            "say less, command output is attached by id and does not count"
        )


def acknowledgement(title: str) -> str:
    """Return the one short acknowledgement of a request, made by code from the Ticket's title."""
    words = title.split()
    cut = " ".join(words[:_ACKNOWLEDGEMENT_MAX_WORDS])[:_TITLE_MAX_CHARACTERS].rstrip()
    return f"On it: {cut}" if cut == " ".join(words) else f"On it: {cut}…"


def template_key(report_id: ReportId) -> str:
    """Return the idempotency key of a report that code posts because the Router is silent."""
    return f"template:{report_id}"


def shorten(prose: str) -> str:
    """Return prose cut to what one reply may hold; a cut shows."""
    if count_words(prose) <= REPLY_MAX_WORDS:
        return prose
    kept: list[str] = []
    for run in re.findall(r"\S+\s*", prose):
        if count_words("".join(kept) + run) > REPLY_MAX_WORDS:
            break
        kept.append(run)
    # One run of a script without spaces may be over the limit alone: two characters a word.
    return ("".join(kept).rstrip() or prose.strip()[:REPLY_MAX_WORDS]) + " …"


def clean_title(title: str, *, room_for: str = "") -> str:
    """Return a title on one line, cut to what a list shows; raise InvalidInput for an empty one.

    A cut shows. ``room_for`` is what its caller writes after it.
    """
    limit = _TITLE_MAX_CHARACTERS - len(room_for)
    line = " ".join(storable(title).split())
    if not line:
        raise InvalidInput("cannot open a ticket: its title is empty; give a short one")
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def storable(text: str) -> str:
    """Return text that the database can hold: U+0000 and lone surrogates become U+FFFD.

    For what a model wrote; a person's text is refused instead, so that nothing changes unseen.
    """
    return "".join("\ufffd" if c == "\0" or 0xD800 <= ord(c) <= 0xDFFF else c for c in text)


def person_text(text: str, *, what: str, limit_bytes: int = TEXT_MAX_BYTES) -> str:
    """Return a person's text unchanged; raise InvalidInput or TooLarge, naming ``what``."""
    if not text.strip():
        raise InvalidInput(f"cannot accept the {what}: it is empty; write something")
    if storable(text) != text:
        raise InvalidInput(
            f"cannot accept the {what}: it holds a NUL or a broken character; remove it"
        )
    size = len(text.encode())
    if size > limit_bytes:
        raise TooLarge(f"the {what}", size, limit_bytes, "send less, or put it in a file")
    return text
