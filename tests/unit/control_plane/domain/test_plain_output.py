"""What is left of output once a terminal has drawn it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.domain.plain_output import plain


def test_a_progress_bar_is_its_last_state() -> None:
    """The report: https://github.com/vorn-run/vorn/pull/470."""
    written = "Working\rDone   \n\x1b[?25l50%\r100%\x1b[?25h\n"
    assert plain(written) == "Done   \n100%\n"


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("one\r\r\ntwo", "one\ntwo"),
        ("longer line\rshort", "shortr line"),
        ("longer line\r\x1b[Kshort", "short"),
        ("\x1b[31mred\x1b[0m and \x1b[1;32mgreen\x1b[m", "red and green"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;https://x.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("ab\b\bc", "cb"),
        ("100%\x1b[4D 7%", " 7%%"),
        ("x\x1b[5Gy", "x   y"),
        ("x\x1b[2Cy", "x  y"),
        ("abc\x1b[1Kd", "   d"),
        ("abc\x1b[2K\rd", "d"),
        ("abcd\r\x1b[2Pe", "ed"),
        ("bell\x07 nul\x00 del\x7f", "bell nul del"),
        ("\x1b(B\x1b)0text\x1b7\x1b8", "text"),
        ("tab\tstays", "tab\tstays"),
        ("cut off \x1b[3", "cut off "),
        ("cut off \x1b]0;title", "cut off "),
        ("never ended \x1b]0;title\nthe next line", "never ended \nthe next line"),
        (f"endless \x1b]0;{'x' * 4094}seen", "endless seen"),
    ],
)
def test_controls_are_obeyed_within_their_line_and_dropped(written: str, left: str) -> None:
    assert plain(written) == left


def test_a_sequence_cannot_make_a_line_of_gigabytes() -> None:
    for move in ("\x1b[99999999999999999999C", "\x1b[999999999G"):
        assert len(plain(f"x{move * 50}y")) < 10_000


@given(st.text())
def test_nothing_that_drives_a_terminal_is_left(text: str) -> None:
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", plain(text))


@given(st.text(st.characters(exclude_categories=["Cc"], include_characters="\n\t")))
def test_text_that_draws_nothing_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)), st.text("\r\x1b[Km0123"))
def test_a_line_drawn_after_others_is_whole(line: str, noise: str) -> None:
    assert plain(f"{noise}\n{line}\n").endswith(f"\n{line}\n")
