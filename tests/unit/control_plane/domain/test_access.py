"""Secrets by their form, and the cookie's name."""

import itertools

from farhand_control_plane.domain.access import (
    LINK_PREFIX,
    PAGE_KEY_PREFIX,
    SESSION_PREFIX,
    TOKEN_PREFIX,
    is_secret,
    new_secret,
    new_token,
    session_cookie,
)
from farhand_shared.ids import InstanceId, new_id

PREFIXES = (TOKEN_PREFIX, SESSION_PREFIX, PAGE_KEY_PREFIX, LINK_PREFIX)


def test_no_secret_of_one_kind_has_the_form_of_another() -> None:
    """So a session's is refused as a token also by releases that know of no sessions."""
    for ours, other in itertools.permutations(PREFIXES, 2):
        assert is_secret(ours, new_secret(ours))
        assert not is_secret(ours, new_secret(other))


def test_secrets_differ_and_need_no_quoting_in_urls_and_cookies() -> None:
    made = {new_token() for _ in range(100)}
    assert len(made) == 100
    assert all(text.replace("-", "").replace("_", "").isalnum() for text in made)


def test_farhands_that_were_set_up_in_the_same_minute_have_cookies_of_their_own() -> None:
    names = {session_cookie(InstanceId(new_id(now_ms=1))) for _ in range(20)}
    assert len(names) == 20
    assert all(len(name) == len("farhand_") + 8 for name in names)
