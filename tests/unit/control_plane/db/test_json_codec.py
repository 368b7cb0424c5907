"""The JSON that jsonb columns hold."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.db import json_codec

TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=20) | st.sampled_from(
    ["\x00", "\x01", "\x010000", "\\u0000", "\ud800", "a\udcffb", "\ud83d\ude00", "\U0001f600"]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_stored_is_read_back(value):
    assert json_codec.loads(json_codec.dumps(value)) == value


@given(VALUES)
def test_what_is_stored_is_something_jsonb_accepts(value):
    stored = json_codec.dumps(value)
    text = json.dumps(json.loads(stored.decode("utf-8")), ensure_ascii=False)
    assert "\\u0000" not in text.replace("\\\\", "")
    text.encode("utf-8")  # no lone surrogate


def test_plain_values_are_stored_as_they_are():
    assert json_codec.dumps({"a": ["b", 1, None]}) == b'{"a":["b",1,null]}'


def test_not_a_number_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_codec.dumps(float("nan"))
