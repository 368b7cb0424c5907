"""The six words that two people compare."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from farhand_shared.words import WORDS, six_words


def one_mistake_apart(a: str, b: str) -> bool:
    """Tell whether one letter added, lost or changed turns one word into the other."""
    if a == b:
        return True
    if len(a) == len(b):
        return sum(x != y for x, y in zip(a, b, strict=True)) == 1
    short, long = sorted((a, b), key=len)
    return len(long) - len(short) == 1 and any(
        long[:i] + long[i + 1 :] == short for i in range(len(long))
    )


def test_the_list_has_256_words_that_nobody_confuses() -> None:
    assert len(WORDS) == 256
    assert list(WORDS) == sorted(WORDS)
    assert all(word.isascii() and word.islower() and 4 <= len(word) <= 7 for word in WORDS)
    for a, b in combinations(WORDS, 2):
        assert a[:4] != b[:4]
        assert not one_mistake_apart(a, b), (a, b)


def test_the_words_of_a_machine_stay_what_they_were() -> None:
    """An old daemon and a new server show the same words."""
    assert six_words(b"spki", b"r" * 32, b"c" * 16) == GOLDEN


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 2))
def test_another_key_root_or_code_gives_other_words(
    spki: bytes, root: bytes, code: bytes, which: int
) -> None:
    parts = [spki, root, code]
    other = list(parts)
    other[which] += b"x"
    assert six_words(*parts) != six_words(*other)


def test_moving_a_byte_from_one_part_to_the_next_gives_other_words() -> None:
    assert six_words(b"ab", b"c", b"d") != six_words(b"a", b"bc", b"d")


GOLDEN = ("blanket", "lullaby", "heron", "whale", "oasis", "clock")
