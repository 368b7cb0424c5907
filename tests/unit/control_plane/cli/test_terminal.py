"""What is typed for us among what is typed for a command."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.cli.terminal import Escapes


def typed(*keys: bytes) -> tuple[bytes, list[bytes]]:
    escapes = Escapes()
    passed, found = b"", []
    for key in keys:
        more, escape = escapes.feed(key)
        passed += more
        found += escape
    return passed, found


@pytest.mark.parametrize(
    ("keys", "passed", "found"),
    [
        ([b"~", b"."], b"", [b"."]),
        ([b"l", b"s", b"\r", b"~", b"."], b"ls\r", [b"."]),
        ([b"\r~."], b"\r", [b"."]),
        ([b"a", b"~", b"."], b"a~.", []),
        ([b"~", b"~", b"/", b"x"], b"~/x", []),
        ([b"~", b"/", b"b", b"i", b"n"], b"~/bin", []),
        ([b"~", b"?", b"~", b"d"], b"", [b"?", b"d"]),
        ([b"~", b"\x1a", b"x"], b"x", [b"\x1a"]),
        ([b"~", b"\r", b"~", b"t"], b"~\r", [b"t"]),
        ([b"\n", b"~", b"."], b"\n", [b"."]),
    ],
)
def test_an_escape_is_a_tilde_at_the_beginning_of_a_line(
    keys: list[bytes], passed: bytes, found: list[bytes]
) -> None:
    assert typed(*keys) == (passed, found)


def test_what_is_pasted_is_the_commands_whatever_it_holds() -> None:
    paste = b"first line\r~.\r~d\r"
    assert typed(paste) == (paste, [])
    assert typed(b"~", paste) == (b"~" + paste, [])
    assert typed(paste, b"~", b".") == (paste, [b"."])


@given(st.lists(st.binary(min_size=1, max_size=12), max_size=8))
def test_nothing_but_escapes_is_lost(keys: list[bytes]) -> None:
    whole = b"".join(keys)
    passed, found = typed(*keys)
    if b"~" not in whole:
        assert (passed, found) == (whole, [])
    else:
        assert len(passed) + 2 * len(found) <= len(whole)
