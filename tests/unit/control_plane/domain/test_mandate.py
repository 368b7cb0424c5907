"""A Mandate is never more than the template nor more than the request, and has one hash."""

import json
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.domain.canonical import canonical_json
from farhand_control_plane.domain.mandate import (
    MandateScope,
    MandateTemplate,
    ScopeRequest,
    grant,
    mandate_hash,
    scope_from_json,
)
from farhand_shared.errors import InvalidInput
from farhand_shared.ids import EvalId, InstanceId, MachineId, MemberId, TicketId

ACTIONS = ("run_command", "reply", "open_pr", "merge")
MACHINES = tuple(MachineId(f"m{n}") for n in range(4))

scopes = st.builds(
    MandateScope,
    actions=st.frozensets(st.sampled_from(ACTIONS)),
    machines=st.none() | st.frozensets(st.sampled_from(MACHINES)),
    tier_max=st.integers(0, 5),
)
templates = st.builds(MandateTemplate, scope=scopes, valid_for_s=st.integers(1, 10**6))
requests = st.builds(
    ScopeRequest,
    actions=st.none() | st.frozensets(st.sampled_from(ACTIONS)),
    machines=st.none() | st.frozensets(st.sampled_from(MACHINES)),
    tier_max=st.none() | st.integers(0, 5),
    valid_for_s=st.none() | st.integers(1, 10**6),
)


@given(templates, requests)
def test_a_grant_is_within_the_template_and_within_the_request(
    template: MandateTemplate, request: ScopeRequest
) -> None:
    try:
        granted = grant(template, request)
    except InvalidInput:
        return  # nothing is left: nothing is granted

    assert granted.scope.within(template.scope)
    assert granted.valid_for_s <= template.valid_for_s
    if request.actions is not None:
        assert granted.scope.actions <= request.actions
    if request.machines is not None:
        assert granted.scope.machines is not None
        assert granted.scope.machines <= request.machines
    if request.tier_max is not None:
        assert granted.scope.tier_max <= request.tier_max
    if request.valid_for_s is not None:
        assert granted.valid_for_s <= request.valid_for_s


@given(scopes)
def test_a_scope_survives_storage_and_is_within_itself(scope: MandateScope) -> None:
    assert scope_from_json(scope.to_json()) == scope
    assert scope.within(scope)


@given(scopes, scopes, scopes)
def test_within_is_transitive(a: MandateScope, b: MandateScope, c: MandateScope) -> None:
    if a.within(b) and b.within(c):
        assert a.within(c)


def test_a_request_for_what_the_policy_does_not_grant_opens_nothing() -> None:
    template = MandateTemplate(
        scope=MandateScope(actions=frozenset({"reply"}), machines=None, tier_max=5), valid_for_s=60
    )

    with pytest.raises(InvalidInput, match="the policy grants nothing"):
        grant(template, ScopeRequest(actions=frozenset({"run_command"})))
    with pytest.raises(InvalidInput, match="the policy grants nothing"):
        grant(template, ScopeRequest(machines=frozenset()))


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"actions": ["reply"], "machines": "owned"},
        {"actions": ["reply"], "machines": "owned", "tier_max": 6},
        {"actions": ["reply"], "machines": "owned", "tier_max": -1},
        {"actions": None, "machines": "owned", "tier_max": 1},
    ],
)
def test_a_stored_scope_that_is_none_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="scope"):
        scope_from_json(stored)


FACTS: dict[str, Any] = {
    "instance_id": InstanceId("i"),
    "ticket_id": TicketId("t"),
    "eval_id": EvalId("e"),
    "policy_version": 1,
    "granted_by_member_id": MemberId("m"),
    "scope": MandateScope(actions=frozenset({"reply"}), machines=None, tier_max=5),
    "valid_until": datetime(2030, 1, 1, tzinfo=UTC),
}


def test_the_hash_covers_everything_a_mandate_says() -> None:
    changed: dict[str, Any] = {
        "instance_id": "i2",
        "ticket_id": "t2",
        "eval_id": "e2",
        "policy_version": 2,
        "granted_by_member_id": "m2",
        "scope": replace(FACTS["scope"], tier_max=4),
        "valid_until": FACTS["valid_until"] + timedelta(milliseconds=1),
    }
    assert set(changed) == set(FACTS)

    hashes = {mandate_hash(**{**FACTS, name: value}) for name, value in changed.items()}

    assert len(hashes | {mandate_hash(**FACTS)}) == len(FACTS) + 1


def test_the_hash_is_the_same_in_every_release() -> None:
    # A change of this value breaks every signature over a Mandate: it needs a new "v".
    golden = "024a3b91f6297cb5eaf777845fd1c2ed83c98c293e5a7b15d2d0751cea092250"

    assert mandate_hash(**FACTS).hex() == golden


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _normal(value: Any) -> Any:
    """The value with what canonical JSON does not keep apart: normal forms, order of keys."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list):
        return [_normal(member) for member in value]
    if isinstance(value, dict):
        return {_normal(key): _normal(member) for key, member in value.items()}
    return value


@given(json_values)
def test_canonical_json_is_json_and_keeps_the_value(value: Any) -> None:
    try:
        text = canonical_json(value)
    except InvalidInput:
        return  # lone surrogates, or two keys with one normal form

    assert json.loads(text) == _normal(value)


@given(st.dictionaries(st.text(), st.integers(0, 9), min_size=2, max_size=6))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    try:
        text = canonical_json(value)
    except InvalidInput:
        return

    assert canonical_json(dict(reversed(value.items()))) == text


def test_canonical_json_has_no_spaces_sorts_by_code_units_and_composes_text() -> None:
    # In UTF-16 the emoji's first unit (D83D) sorts before U+FFE5, by code points after it.
    value = {"\uffe5": 2, "\U0001f600": 1, "b": [1, True, None], "a": "e\u0301", "": '\x1f\n"'}

    assert canonical_json(value) == (
        b'{"":"\\u001f\\n\\"","a":"\xc3\xa9","b":[1,true,null],'
        b'"\xf0\x9f\x98\x80":1,"\xef\xbf\xa5":2}'
    )


@pytest.mark.parametrize(
    "value",
    [1.0, float("nan"), 2**53, -(2**53), b"x", {1: 2}, "\ud800", {"é": 1, "e\u0301": 2}, {1}],
)
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="canonical JSON"):
        canonical_json(value)
