"""The code a person types."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_shared.enrolment_code import EnrolmentCode, format_code, new_code, parse_code
from farhand_shared.errors import InvalidInput
from farhand_shared.redact import Secret

codes = st.builds(
    lambda secret, pin: EnrolmentCode(secret=Secret(secret), root_pin=pin),
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=10, max_size=10),
)


@given(codes)
def test_what_is_formatted_is_parsed(code: EnrolmentCode) -> None:
    text = format_code(code)
    assert len(text) == 57
    assert parse_code(text) == code


@given(codes, st.data())
def test_case_spaces_dashes_and_look_alikes_are_forgiven(
    code: EnrolmentCode, data: st.DataObject
) -> None:
    typed = ""
    for character in format_code(code):
        choices = {"0": "0Oo", "1": "1IiLl", "-": ["-", "", " ", "--", "\N{EN DASH}"]}
        options = choices.get(character, [character, character.lower()])
        typed += data.draw(st.sampled_from(options))
    assert parse_code(f"  {typed}\n") == code


@given(codes, st.data())
def test_one_wrong_character_or_two_swapped_ones_are_found(
    code: EnrolmentCode, data: st.DataObject
) -> None:
    text = format_code(code).replace("-", "")[3:]
    at = data.draw(st.integers(0, len(text) - 2))
    wrong = data.draw(st.sampled_from("0123456789ABCDEFGHJKMNPQRSTVWXYZ"))
    mistyped = text[:at] + wrong + text[at + 1 :]
    swapped = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    for candidate in {mistyped, swapped} - {text}:
        accepted, said = try_to_parse("FH1" + candidate)
        # One in 65,536 passes by chance; it must at least not be taken for the real one.
        assert accepted != code
        assert candidate[:8] not in said


def try_to_parse(text: str) -> tuple[EnrolmentCode | None, str]:
    try:
        return parse_code(text), ""
    except InvalidInput as refused:
        return None, str(refused)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("", "begins with FH1-"),
        ("hello", "begins with FH1-"),
        ("FH2-AAAAA", "begins with FH1-"),
        ("FH1-AAAAA", "5 characters follow FH1 instead of 45"),
        ("FH1-" + "U" * 45, "a character that no code has"),
        ("FH1-" + "2" * 45, "it was mistyped (wrong checksum)"),
    ],
)
def test_a_mistype_is_named_without_echo(typed: str, says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_code(typed)
    assert says in str(refused.value)


def test_codes_are_new_each_time_pin_their_root_and_do_not_print() -> None:
    root = bytes(range(32))
    first, second = new_code(root), new_code(root)
    assert first != second
    assert first.pins(root)
    assert not first.pins(bytes(32))
    assert first.secret.reveal().hex() not in repr(first)
