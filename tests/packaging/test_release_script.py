"""scripts/release.py: a key that stays outside, and a release that a machine would believe."""

import hashlib
from pathlib import Path

import building
import pytest
import release

from farhand_shared.release import ENVELOPE, REQUIREMENTS, parse_keys, verify
from farhand_shared.version import CAPABILITY, MIN_CAPABILITY, __version__


def test_a_release_made_here_is_believed_by_who_has_the_printed_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "release.key"
    release.new_key(key)
    assert key.stat().st_mode & 0o777 == 0o600
    line = capsys.readouterr().out.splitlines()[-1]
    keys = parse_keys(line)
    folder = release.make(key, "beta", tmp_path / "releases")
    made = verify((folder / ENVELOPE).read_bytes(), keys)
    assert (made.channel, made.version) == ("beta", __version__)
    assert (made.min_capability, made.max_capability) == (MIN_CAPABILITY, CAPABILITY)
    for file in made.files:
        content = (folder / file.name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.size, file.sha256)
    assert (folder / REQUIREMENTS).read_bytes() == release.LOCK.read_bytes()
    with pytest.raises(building.CannotBuildError, match="a version is released once"):
        release.make(key, "beta", tmp_path / "releases")
    with pytest.raises(FileExistsError):
        release.new_key(key)


def test_a_key_in_the_checkout_is_refused(tmp_path: Path) -> None:
    inside = building.ROOT / "release.key"
    with pytest.raises(building.CannotBuildError, match="lies in the checkout"):
        release.new_key(inside)
    with pytest.raises(building.CannotBuildError, match="lies in the checkout"):
        release.make(inside, "stable", tmp_path)
    assert not inside.exists()


def test_the_lock_fits_what_the_daemon_requires() -> None:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    from farhand_shared.requirements_lock import parse_lock

    locked = {wheel.project: wheel.version for wheel in parse_lock(release.LOCK.read_text())}
    for text in release.needs():
        requirement = Requirement(text)
        version = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), text
