"""How much a reply may say, and what a person may hand in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.domain.feedback import (
    acknowledgement,
    check_prose,
    clean_title,
    count_words,
    person_text,
    shorten,
    storable,
)
from farhand_shared.errors import InvalidInput, TooLarge


@pytest.mark.parametrize(
    ("prose", "words"),
    [
        ("", 0),
        ("one", 1),
        ("  one\n\ttwo  ", 2),
        ("done - it's ready.", 3),  # a dash is no word
        ("• a\n• b", 2),
        ("/var/log/syslog and x=1", 3),
        ("重启服务器", 3),  # five characters, about two to a word
        ("run 重启 now", 3),
        ("ユーザー", 2),
    ],
)
def test_words_are_counted_as_people_count_them(prose: str, words: int) -> None:
    assert count_words(prose) == words


def test_a_hundred_words_go_out_and_one_more_does_not() -> None:
    check_prose("word " * 100)

    with pytest.raises(InvalidInput, match="101 words, the limit is 100"):
        check_prose("word " * 101)


def test_an_empty_reply_is_refused() -> None:
    with pytest.raises(InvalidInput, match="empty"):
        check_prose(" \n ")


@given(st.text(), st.text())
def test_more_text_never_counts_fewer_words(first: str, second: str) -> None:
    assert count_words(f"{first} {second}") >= max(count_words(first), count_words(second))


@given(st.text(alphabet="ab 重\n-", max_size=1200))
def test_shortened_prose_may_be_sent_and_is_left_alone_when_short(prose: str) -> None:
    short = shorten(prose)

    assert count_words(short) <= 100
    assert (short == prose) == (count_words(prose) <= 100)


@given(st.text(min_size=1))
def test_an_acknowledgement_is_one_short_line_of_few_words(title: str) -> None:
    text = acknowledgement(title)

    assert text.startswith("On it: ")
    assert count_words(text) <= 100
    assert len(text) <= 90
    assert "\n" not in text


def test_an_acknowledgement_says_what_will_be_done() -> None:
    assert acknowledgement("run uname -a on laptop") == "On it: run uname -a on laptop"
    assert acknowledgement("x" * 200).endswith("…")


def test_a_title_is_one_line_that_a_list_can_show() -> None:
    assert clean_title("  fix\n the   build ") == "fix the build"
    assert clean_title("x" * 80) == "x" * 80
    assert clean_title("x" * 81) == "x" * 79 + "…"
    assert clean_title("x" * 81, room_for=" (and more)") == "x" * 68 + "…"
    with pytest.raises(InvalidInput, match="title is empty"):
        clean_title(" \n")


@given(st.text(alphabet=st.characters()))
def test_what_a_model_wrote_becomes_storable_and_stays_readable(text: str) -> None:
    stored = storable(text)

    stored.encode()  # would raise on a lone surrogate
    assert "\0" not in stored
    assert len(stored) == len(text)


def test_a_persons_text_is_taken_as_it_is_or_refused() -> None:
    assert person_text("  keep \n me  ", what="message") == "  keep \n me  "
    with pytest.raises(InvalidInput, match="message: it is empty"):
        person_text(" \n", what="message")
    with pytest.raises(InvalidInput, match="NUL"):
        person_text("a\0b", what="message")
    with pytest.raises(InvalidInput, match="broken character"):
        person_text("a\ud800", what="message")
    with pytest.raises(TooLarge, match="the message is 11 bytes, the limit is 10 bytes"):
        person_text("é" * 5 + "x", what="message", limit_bytes=10)
