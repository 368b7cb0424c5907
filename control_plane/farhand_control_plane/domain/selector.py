"""What a selector asks of a machine: text to terms and back, with errors that point at a character.

    machine=NAME                     this machine and no other
    os=linux arch=x86_64             what its system says
    kind=managed kind=on-demand      how it came to be; on-demand: a fresh environment
    gpu plugged                      has a graphics card; is not running on its battery
    repo:acme/web                    has a working copy; also repo:github.com/acme/web
    tool:docker tool:docker>=24      has a tool, of a version
    label=build label:team=infra     its owner labelled it so
    cpu>=8 memory>=16G disk>=100G    counts and sizes; disk is what is free

Terms stand side by side and all of them hold. A value with spaces or quotes is written "…", with \\
before a quote or a backslash.
"""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from farhand_control_plane.domain.words import MachineKind
from farhand_shared.errors import InvalidInput


class Operator(StrEnum):
    """How a value is compared; longer signs first, as the parser tries them."""

    AT_LEAST = ">="
    AT_MOST = "<="
    MORE = ">"
    LESS = "<"
    EQUAL = "="


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A machine by its name or id."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """``os`` or ``arch``, compared without regard to case."""

    fact: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How the machine came to be; ``on-demand`` may mean one that does not exist yet."""

    kind: MachineKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """``gpu`` or ``plugged``."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """The end of a normalised remote, by whole parts: owner/name or host/owner/name."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    operator: Operator | None = None  # None: any version
    version: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    name: str
    value: str | None = None  # None: whatever its value


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """``cpu`` in cores, ``memory`` and ``disk`` in bytes."""

    fact: str
    operator: Operator
    amount: int


Term = System | Kind | Flag | Repository | Tool | Label | Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a machine must have, all of it; at least one term."""

    terms: tuple[Term, ...]


Selector = Named | Needs

TEXT_MAX: Final = 2_000
FLAGS: Final = ("gpu", "plugged")
SIZES: Final = ("memory", "disk")
# Decimal: a computer sold with 16 GB has a little less than 16 GiB for use, and has memory>=16G.
UNITS: Final = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
COMPARE: Final[dict[Operator, Callable[[int, int], bool]]] = {
    Operator.AT_LEAST: operator.ge,
    Operator.AT_MOST: operator.le,
    Operator.MORE: operator.gt,
    Operator.LESS: operator.lt,
    Operator.EQUAL: operator.eq,
}

_HINT: Final = (
    "write machine=NAME or terms such as os=linux gpu repo:acme/web tool:docker>=24 label=build "
    "cpu>=8 memory>=16G kind=on-demand"
)
# As people write them: the wire's word has an underscore, which is understood too.
KINDS: Final = {kind.value.replace("_", "-"): kind for kind in MachineKind}
_KIND: Final = re.compile(r"[A-Za-z_-]+")
_WORD: Final = re.compile(r"[A-Za-z]+")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*")
_BARE: Final = re.compile(r'[^\s"]+')
_VERSION: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,5}")
_AMOUNT: Final = re.compile(r"[0-9]{1,9}")
_REPOSITORY: Final = re.compile(r"[^\s/\"]+(/[^\s/\"]+)+")


class SelectorError(InvalidInput):
    """A selector that cannot be read; ``position`` counts characters from 0."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        self.position = position
        self.reason = reason
        # Other white space would move the caret away from what it points at.
        line = "".join(character if character.isprintable() else " " for character in text)
        super().__init__(
            f"cannot read the selector at character {position + 1}: {reason}\n"
            f"    {line}\n    {' ' * position}^"
        )


def parse(text: str) -> Selector:
    """Return what the text asks for; raise SelectorError."""
    if len(text) > TEXT_MAX:
        raise InvalidInput(f"cannot read the selector: it is over {TEXT_MAX} characters long")
    return _Reader(text).selector()


def asks_on_demand(selector: Selector) -> bool:
    """Tell whether an environment on demand is asked for, one that exists or a fresh one."""
    return isinstance(selector, Needs) and Kind(kind=MachineKind.ON_DEMAND) in selector.terms


def render(selector: Selector) -> str:
    """Return the text of a selector; ``parse`` of it gives the same selector."""
    if isinstance(selector, Named):
        return f"machine={_quoted(selector.name)}"
    return " ".join(map(render_term, selector.terms))


def render_term(term: Term) -> str:
    """Return the text of one term."""
    match term:
        case System():
            return f"{term.fact}={_quoted(term.value)}"
        case Kind():
            return f"kind={kind_text(term.kind)}"
        case Flag():
            return term.name
        case Repository():
            return f"repo:{term.path}"
        case Tool():
            version = ".".join(map(str, term.version))
            return f"tool:{term.name}{term.operator or ''}{version}"
        case Label(value=None):
            return f"label={term.name}"
        case Label():
            return f"label:{term.name}={_quoted(term.value or '')}"
        case Quantity():
            amount = size_text(term.amount) if term.fact in SIZES else str(term.amount)
            return f"{term.fact}{term.operator}{amount}"


def kind_text(kind: MachineKind) -> str:
    """Return a kind as selectors and people write it."""
    return kind.value.replace("_", "-")


def size_text(amount: int) -> str:
    """Return a size in the largest unit that leaves nothing over; whole thousands of bytes only."""
    unit = max((unit for unit in UNITS if amount % UNITS[unit] == 0), key=lambda u: UNITS[u])
    return f"{amount // UNITS[unit]}{unit}"


def _quoted(value: str) -> str:
    if _BARE.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def selector(self) -> Selector:
        """Return the whole text's selector."""
        self._skip_spaces()
        if self._ended:
            raise self._error(f"there is nothing; {_HINT}")
        start = self._at
        if self._take("machine="):
            named = Named(name=self._value("the machine's name"))
            self._skip_spaces()
            if not self._ended:
                raise self._error("machine=NAME stands alone; leave the other terms out")
            return named
        terms: list[Term] = []
        while not self._ended:
            if self._text.startswith("machine=", self._at):
                raise self._error("machine=NAME stands alone; leave the other terms out")
            start = self._at
            term = self._term()
            if not self._ended and not self._text[self._at].isspace():
                raise self._error("a space belongs between two terms")
            if term in terms:
                raise self._error(f"{render_term(term)} is there twice", start)
            terms.append(term)
            self._skip_spaces()
        return Needs(terms=tuple(terms))

    def _term(self) -> Term:
        start = self._at
        word = self._match(_WORD)
        match word:
            case "os" | "arch":
                self._expect("=", f"{word} needs a value, such as {word}={_EXAMPLES[word]}")
                return System(fact=word, value=self._value(f"a value of {word}"))
            case "kind":
                self._expect("=", f"kind needs a value: {_KINDS_TEXT}")
                return self._kind()
            case "gpu" | "plugged":
                return Flag(name=word)
            case "repo":
                self._expect(":", "repo needs a repository, such as repo:acme/web")
                return Repository(
                    path=self._need(_REPOSITORY, "owner/name or host/owner/name").lower()
                )
            case "tool":
                self._expect(":", "tool needs a name, such as tool:docker or tool:docker>=24")
                return self._tool()
            case "label":
                return self._label()
            case "cpu" | "memory" | "disk":
                return self._quantity(word)
            case "machine":
                raise self._error("machine needs a name: machine=NAME")
            case _:
                raise self._error(f"this is no term that a selector knows; {_HINT}", start)

    def _kind(self) -> Kind:
        start = self._at
        kind = KINDS.get(self._match(_KIND).lower().replace("_", "-"))
        if kind is None:
            raise self._error(f"here belongs a kind: {_KINDS_TEXT}", start)
        return Kind(kind=kind)

    def _tool(self) -> Tool:
        name = self._need(_NAME, "the name of a tool").lower()
        comparison = self._operator()
        if comparison is None:
            return Tool(name=name)
        version = self._need(_VERSION, "a version, such as 24 or 3.11")
        return Tool(name=name, operator=comparison, version=tuple(map(int, version.split("."))))

    def _label(self) -> Label:
        if self._take("="):
            return Label(name=self._need(_NAME, "the name of a label"))
        self._expect(":", "label needs a name: label=build, or label:team=infra")
        name = self._need(_NAME, "the name of a label")
        self._expect("=", f"label:{name} needs a value; without one write label={name}")
        return Label(name=name, value=self._value("the label's value"))

    def _quantity(self, fact: str) -> Quantity:
        comparison = self._operator()
        if comparison is None:
            raise self._error(f"{fact} needs a comparison, such as {fact}>={_EXAMPLES[fact]}")
        number = int(self._need(_AMOUNT, f"a number, such as {_EXAMPLES[fact]}"))
        if fact not in SIZES:
            return Quantity(fact=fact, operator=comparison, amount=number)
        unit = "" if self._ended else self._text[self._at].upper()
        if unit not in UNITS:
            raise self._error(f"{fact} needs a unit here: K, M, G or T, as in {fact}>=16G")
        self._at += 1
        return Quantity(fact=fact, operator=comparison, amount=number * UNITS[unit])

    def _operator(self) -> Operator | None:
        return next((sign for sign in Operator if self._take(sign.value)), None)

    def _value(self, what: str) -> str:
        """Read a bare or quoted value that is not empty."""
        if not self._take('"'):
            return self._need(_BARE, what)
        start = self._at - 1
        value = ""
        while not self._take('"'):
            if self._take("\\") and (self._ended or self._text[self._at] not in '"\\'):
                raise self._error('after \\ comes " or another \\')
            if self._ended:
                raise self._error('the closing " is missing', start)
            value += self._text[self._at]
            self._at += 1
        if not value:
            raise self._error(f"here belongs {what}", start)
        return value

    @property
    def _ended(self) -> bool:
        return self._at >= len(self._text)

    def _skip_spaces(self) -> None:
        while not self._ended and self._text[self._at].isspace():
            self._at += 1

    def _take(self, expected: str) -> bool:
        found = self._text.startswith(expected, self._at)
        self._at += len(expected) if found else 0
        return found

    def _expect(self, expected: str, reason: str) -> None:
        if not self._take(expected):
            raise self._error(reason)

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found.group() if found else ""

    def _need(self, pattern: re.Pattern[str], what: str) -> str:
        found = self._match(pattern)
        if not found:
            raise self._error(f"here belongs {what}")
        return found

    def _error(self, reason: str, position: int | None = None) -> SelectorError:
        return SelectorError(self._text, self._at if position is None else position, reason)


_EXAMPLES: Final = {"os": "linux", "arch": "x86_64", "cpu": "8", "memory": "16G", "disk": "100G"}
_KINDS_TEXT: Final = ", ".join(f"kind={word}" for word in KINDS)
