"""Which machine a piece of work goes to, and for each of the others why not.

The order: the one that is named → has the repository → satisfies tools and the other needs →
online → least busy. Up to there a machine fits or does not; an offline machine that fits is waited
for only when no online one fits. An environment on demand is taken only by work that asks for one
(or names it), and made afresh when none fits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from farhand_control_plane.domain.environments import Offer, against_fresh
from farhand_control_plane.domain.machine_names import the_one_named
from farhand_control_plane.domain.selector import (
    COMPARE,
    SIZES,
    Flag,
    Kind,
    Label,
    Named,
    Operator,
    Quantity,
    Repository,
    Selector,
    System,
    Term,
    Tool,
    asks_on_demand,
    kind_text,
    render_term,
    size_text,
)
from farhand_control_plane.domain.words import MachineKind, MachineStatus
from farhand_shared.ids import MachineId


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a machine has told of itself beyond its system."""

    disk_free_bytes: int = 0
    gpus: tuple[str, ...] = ()
    on_battery: bool = False
    tools: Mapping[str, str] = field(default_factory=dict)  # name → version, "" when it tells none
    repositories: tuple[str, ...] = ()  # host/owner/name, lower case


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One machine as placement sees it."""

    machine_id: MachineId
    name: str
    status: MachineStatus = MachineStatus.ACTIVE
    kind: MachineKind = MachineKind.PERSONAL
    of_other_work: bool = False  # an environment that was made for another ticket
    online: bool = True
    takes_commands: bool = True  # its own file lets commands run
    is_askers: bool = True  # belongs to whom the work is for: by default only they may run there
    os: str = ""
    arch: str = ""
    cpus: int = 0
    memory_bytes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    survey: Survey | None = None  # None: it has not told yet
    open_commands: int = 0  # running and queued
    concurrency: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One machine's answer to a selector."""

    machine_id: MachineId
    name: str
    fits: bool
    online: bool
    reasons: tuple[str, ...]  # in words: why it fits, or everything that is against it


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """``chosen`` is None when no machine fits; one that ``waits`` starts when it is back."""

    chosen: MachineId | None
    waits: bool
    summary: str
    machines: tuple[Judged, ...]  # the chosen one first, then the order in which they would be
    makes: str | None = None  # the provisioner that makes a fresh environment for it


def place(
    selector: Selector, candidates: Sequence[Candidate], offer: Offer | None = None
) -> Placement:
    """Return the choice, and each machine's why or why not.

    ``offer``: what can be made when no machine fits work that asks for an environment.
    """
    if isinstance(selector, Named):
        # As everywhere else a name may be written in another case.
        meant = the_one_named(selector.name, [candidate.name for candidate in candidates])
        selector = selector if meant is None else Named(name=meant)
    judged = [(candidate, _judge(selector, candidate)) for candidate in candidates]
    judged.sort(key=lambda pair: _rank(*pair))
    machines = tuple(answer for _, answer in judged)
    fitting = [candidate for candidate, answer in judged if answer.fits]
    if not fitting and asks_on_demand(selector):
        return _fresh(selector, offer, machines)
    if not fitting:
        return Placement(
            chosen=None, waits=False, summary=_nothing(selector, candidates), machines=machines
        )
    best = fitting[0]
    waits = not best.online or best.status is MachineStatus.PAUSED
    return Placement(
        chosen=best.machine_id,
        waits=waits,
        summary=_summary(selector, best, fitting),
        machines=machines,
    )


def _fresh(selector: Selector, offer: Offer | None, machines: tuple[Judged, ...]) -> Placement:
    against = against_fresh(selector, offer)
    makes = None if against or offer is None else offer.provisioner
    return Placement(
        chosen=None,
        waits=makes is not None,
        summary="; ".join(against) if makes is None else f"{makes} makes a fresh environment",
        machines=machines,
        makes=makes,
    )


def _rank(candidate: Candidate, answer: Judged) -> tuple[object, ...]:
    """Best first. Of what does not fit, what little is against comes first."""
    return (
        not answer.fits,
        0 if answer.fits else len(answer.reasons),
        not candidate.online,
        _busy(candidate),
        candidate.open_commands,
        candidate.name,
        candidate.machine_id,
    )


def _busy(candidate: Candidate) -> float:
    """Return how full it is: 1 is as many commands as it runs at once."""
    return candidate.open_commands / max(1, candidate.concurrency)


def _summary(selector: Selector, best: Candidate, fitting: Sequence[Candidate]) -> str:
    if isinstance(selector, Named):
        if best.status is MachineStatus.PAUSED:
            return f"{best.name} is named; it is paused, so the work waits until it is resumed"
        if not best.online:
            return f"{best.name} is named; it is offline, so the work waits and starts by itself"
        return f"{best.name} is named and online"
    online = [candidate for candidate in fitting if candidate.online]
    if not online:
        which = "it alone fits" if len(fitting) == 1 else "all that fit are offline"
        return f"the work waits for {best.name} and starts by itself: {which}"
    if len(online) == 1:
        others = "" if len(fitting) == 1 else "; others that fit are offline"
        return f"{best.name}: the only one that fits and is online{others}"
    if best.open_commands == 0:
        return f"{best.name}: idle, of {len(online)} that fit and are online"
    return f"{best.name}: the least busy of {len(online)} that fit and are online"


def _nothing(selector: Selector, candidates: Sequence[Candidate]) -> str:
    if not candidates:
        return "there is no machine yet; add one with farhand machines add"
    if isinstance(selector, Named):
        if not any(_is_named(selector, candidate) for candidate in candidates):
            return f"there is no machine named {selector.name}; see farhand machines list"
        return f"{selector.name} cannot take the work"
    return "no machine fits; leave a term out, or add a machine that has what is asked"


def _is_named(selector: Named, candidate: Candidate) -> bool:
    return selector.name in (candidate.name, candidate.machine_id)


def _judge(selector: Selector, candidate: Candidate) -> Judged:
    against = _unusable(candidate, named=isinstance(selector, Named))
    if candidate.kind is MachineKind.ON_DEMAND and not isinstance(selector, Named):
        if not asks_on_demand(selector):
            against.append("it is an environment on demand: name it, or ask for kind=on-demand")
        elif candidate.of_other_work:
            against.append("it was made for other work")
    if isinstance(selector, Named):
        if not _is_named(selector, candidate):
            against = ["another machine is named"]
        found = ["it is named"]
    else:
        answers = [(term, *_meets(term, candidate)) for term in sorted(selector.terms, key=_step)]
        against += [words for _, met, words in answers if not met]
        found = [words for _, met, words in answers if met]
    return Judged(
        machine_id=candidate.machine_id,
        name=candidate.name,
        fits=not against,
        online=candidate.online,
        reasons=tuple(against or [*found, *_state(candidate)]),
    )


def _unusable(candidate: Candidate, *, named: bool) -> list[str]:
    """Return what keeps any work from it."""
    against = []
    match candidate.status:
        case MachineStatus.PENDING if candidate.kind is MachineKind.ON_DEMAND:
            pass  # it is being made; what is queued there waits for it
        case MachineStatus.PENDING:
            against.append("it waits for its six words to be confirmed")
        case MachineStatus.QUARANTINED:
            against.append("it is in quarantine: its state folder may have been copied")
        case MachineStatus.REVOKED:
            against.append("it was revoked")
        case MachineStatus.PAUSED if not named:
            against.append("it is paused; farhand machines resume lets it take work again")
        case _:
            pass
    if not candidate.is_askers:
        against.append("it belongs to another member")
    if not candidate.takes_commands:
        against.append("its own file lets no command run (trust level off)")
    return against


def _state(candidate: Candidate) -> list[str]:
    if candidate.status is MachineStatus.PAUSED:
        return ["paused: what is queued there waits"]
    busy = (
        "idle"
        if candidate.open_commands == 0
        else f"{candidate.open_commands} running or queued, {candidate.concurrency} at once"
    )
    return ["online" if candidate.online else "offline", busy]


def _step(term: Term) -> int:
    """Return the place of a need in the order."""
    return 0 if isinstance(term, Repository) else 1 if isinstance(term, Tool) else 2


def _meets(term: Term, candidate: Candidate) -> tuple[bool, str]:
    """Return whether the machine meets one need, and that in words."""
    match term:
        case System():
            has = candidate.os if term.fact == "os" else candidate.arch
            return has.lower() == term.value.lower(), f"{term.fact} is {has or 'not told'}"
        case Kind():
            return candidate.kind is term.kind, f"it is {kind_text(candidate.kind)}"
        case Label():
            return _meets_label(term, candidate)
        case Quantity(fact="cpu"):
            met = COMPARE[term.operator](candidate.cpus, term.amount)
            return met, f"{candidate.cpus} CPUs, {_asked(term, met)}"
        case Quantity(fact="memory"):
            return _meets_size(term, candidate.memory_bytes, "of memory")
        case _ if candidate.survey is None:
            return False, f"it has not told yet whether it has {render_term(term)}"
        case _:
            return _meets_survey(term, candidate.survey)


def _meets_label(term: Label, candidate: Candidate) -> tuple[bool, str]:
    value = candidate.labels.get(term.name)
    if value is None:
        return False, f"it has no label {term.name}"
    if term.value is None:
        return True, f"it has the label {term.name}"
    return value == term.value, f"its label {term.name} is {value or 'without a value'}"


def _meets_size(term: Quantity, has_bytes: int, what: str) -> tuple[bool, str]:
    met = COMPARE[term.operator](has_bytes, term.amount)
    return met, f"{has_bytes / 10**9:.1f} GB {what}, {_asked(term, met)}"


def _asked(term: Quantity, met: bool) -> str:
    amount = size_text(term.amount) if term.fact in SIZES else str(term.amount)
    return f"{'as asked' if met else 'asked for'} ({term.fact}{term.operator}{amount})"


def _meets_survey(term: Term, survey: Survey) -> tuple[bool, str]:
    match term:
        case Repository():
            found = [remote for remote in survey.repositories if ends_with(remote, term.path)]
            if found:
                return True, f"has a working copy of {found[0]}"
            return False, f"no working copy of {term.path} lies beneath its roots"
        case Tool():
            return _meets_tool(term, survey.tools)
        case Flag(name="gpu"):
            met = bool(survey.gpus)
            return met, f"has a GPU: {survey.gpus[0]}" if met else "it has no GPU"
        case Flag():
            return not survey.on_battery, "on battery" if survey.on_battery else "on mains power"
        case Quantity():
            return _meets_size(term, survey.disk_free_bytes, "of disk free")
        case _:
            raise AssertionError(f"{term} is not told by a survey")


def _meets_tool(term: Tool, tools: Mapping[str, str]) -> tuple[bool, str]:
    version = tools.get(term.name)
    if version is None:
        return False, f"it has no {term.name}"
    has = f"{term.name} {version}".strip()
    if term.operator is None:
        return True, f"has {has}"
    numbers = version_numbers(version)
    if not numbers:
        return False, f"has {term.name}, but not of a version that can be told"
    met = compare_versions(numbers, term.operator, term.version)
    return met, f"has {has}{'' if met else f', asked for {render_term(term)}'}"


def ends_with(remote: str, path: str) -> bool:
    """Tell whether a normalised remote ends with these parts."""
    return remote == path or remote.endswith(f"/{path}")


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: 24.0.7-ce → (24, 0, 7); () when it has none."""
    numbers: list[int] = []
    for part in version.removeprefix("v").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits.isascii() or not digits:
            break
        numbers.append(int(digits[:9]))
        if digits != part:
            break
    return tuple(numbers)


def compare_versions(has: tuple[int, ...], sign: Operator, asked: tuple[int, ...]) -> bool:
    """Compare as precisely as was asked: 24.0.7 is =24 and <=24, and not >24."""
    padded = (has + (0,) * len(asked))[: len(asked)]
    order = (padded > asked) - (padded < asked)
    compare: Callable[[int, int], bool] = COMPARE[sign]
    return compare(order, 0)
