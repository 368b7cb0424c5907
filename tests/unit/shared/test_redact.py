"""Secrets do not print; names that look like secrets are seen."""

import copy
import pickle
from dataclasses import dataclass

import pytest

from farhand_shared.redact import Secret, looks_secret

CANARY = b"canary-4711"


@dataclass(frozen=True)
class Holder:
    secret: Secret


def test_no_way_of_printing_shows_the_value() -> None:
    secret = Secret(CANARY)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", "%s" % secret]  # noqa: UP031 the old way is one of the ways
    shown.append(repr(Holder(secret)))
    assert not any("canary" in text for text in shown)
    assert secret.reveal() == CANARY


def test_a_secret_is_not_pickled_or_copied() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Secret(CANARY))
    with pytest.raises(TypeError):
        copy.copy(Secret(CANARY))


def test_secrets_compare_by_value() -> None:
    assert Secret(CANARY) == Secret(CANARY)
    assert Secret(CANARY) != Secret(b"other")
    assert Secret(CANARY) != CANARY


@pytest.mark.parametrize(
    "name", ["GITHUB_TOKEN", "aws_secret_access_key", "CLIENT_SECRET", "PGPASSWORD", "PASSWORD_OLD"]
)
def test_names_that_look_like_secrets(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name", ["PATH", "KEYBOARD", "TOKENIZERS_PARALLELISM", "SECRETARY", "LANG"]
)
def test_names_that_do_not(name: str) -> None:
    assert not looks_secret(name)
