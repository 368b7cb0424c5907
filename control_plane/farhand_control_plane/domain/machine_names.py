"""Which machine a person means by a name."""

from collections.abc import Iterable


def the_one_named(name: str, names: Iterable[str]) -> str | None:
    """Return the name that is meant: this very one, else the only one that differs in case alone.

    None when there is none, and when several differ in nothing but case: a guess would be one.
    """
    folded = name.casefold()
    alike = {one for one in names if one.casefold() == folded}
    if name in alike:
        return name
    return alike.pop() if len(alike) == 1 else None
