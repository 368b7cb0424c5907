"""Whether a signed release is installed: not an older one, not a bad one, not against a no."""

from typing import Any

import pytest

from farhand_daemon.update.decide import Asked, Install, Leave, decide
from farhand_daemon.update.state import Candidate, UpdateState
from farhand_shared.release import Release, ReleaseFile

CLOCK = Asked(by_person=False)
PERSON = Asked(by_person=True)


def release(version: str = "0.2.0", **changes: Any) -> Release:
    values: dict[str, Any] = {
        "channel": "stable",
        "version": version,
        "min_capability": 1,
        "max_capability": 3,
        "files": (
            ReleaseFile(name=f"farhand_daemon-{version}-py3-none-any.whl", sha256="b" * 64, size=1),
        ),
    }
    return Release(**values | changes)


def verdict(found: Release, asked: Asked = CLOCK, **changes: Any) -> Install | Leave:
    values: dict[str, Any] = {
        "installed": "0.1.0",
        "slot": "a" * 16,
        "channel": "stable",
        "server_capability": 3,
        "state": UpdateState(),
    }
    return decide(found, asked=asked, **values | changes)


def left(found: Install | Leave) -> str:
    assert isinstance(found, Leave)
    return found.reason


@pytest.mark.parametrize("asked", [CLOCK, PERSON])
def test_a_newer_release_of_the_channel_is_installed(asked: Asked) -> None:
    assert verdict(release(), asked) == Install(release())
    assert verdict(release("0.10.0"), asked, installed="0.9.0") == Install(release("0.10.0"))
    assert verdict(release(), asked, server_capability=None) == Install(release())


def test_the_same_wheel_is_up_to_date() -> None:
    assert "is installed" in left(verdict(release(), slot="b" * 16))


@pytest.mark.parametrize("asked", [CLOCK, PERSON])
def test_an_older_or_equal_version_needs_a_person_who_names_it(asked: Asked) -> None:
    assert "only when a person asks" in left(verdict(release(), asked, installed="0.3.0"))
    assert "another build" in left(verdict(release(), asked, installed="0.2"))
    named = Asked(by_person=True, version="0.2.0")
    assert verdict(release(), named, installed="0.3.0") == Install(release())


def test_a_bad_version_is_remembered_by_its_hash_and_needs_a_person_who_names_it() -> None:
    candidate = Candidate(slot="b" * 16, version="0.2.0")
    state = UpdateState().with_bad(candidate, "it ended", 1)
    assert "failed on this machine (it ended)" in left(verdict(release(), state=state))
    assert "failed on this machine" in left(verdict(release(), PERSON, state=state))
    named = Asked(by_person=True, version="0.2.0")
    assert verdict(release(), named, state=state) == Install(release())
    other = UpdateState().with_bad(Candidate(slot="c" * 16, version="0.2.0"), "it ended", 1)
    assert verdict(release(), state=other) == Install(release())


def test_off_is_obeyed_unless_a_person_names_a_version() -> None:
    assert "off" in left(verdict(release(), channel="off"))
    assert "off" in left(verdict(release(), PERSON, channel="off"))
    named = Asked(by_person=True, version="0.2.0")
    assert verdict(release(), named, channel="off") == Install(release())


def test_what_the_server_gives_must_be_what_was_asked_for() -> None:
    assert "beta for stable" in left(verdict(release(channel="beta")))
    assert "0.2.0 for 0.1.5" in left(verdict(release(), Asked(by_person=True, version="0.1.5")))


def test_a_release_that_needs_a_newer_control_plane_waits() -> None:
    assert "needs a newer control plane" in left(verdict(release(min_capability=4)))
    assert verdict(release(min_capability=3)) == Install(release(min_capability=3))
