"""The machine file: what is accepted, what is refused, and when a change applies."""

import os
from pathlib import Path

import pytest

from farhand_daemon.machine_file import (
    Ceiling,
    MachineFile,
    load_machine_file,
    write_machine_file,
)
from farhand_shared.errors import InvalidInput


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_written_file_reads_back_the_same(tmp_path: Path) -> None:
    machine = MachineFile(
        trust_level="trusted",
        chosen_by="typed",
        roots=(tmp_path / 'with "quotes" and \\ and é',),
        allow_inferred=True,
        concurrency=7,
        env_allow=("CI_TOKEN",),
        labels=("build", "team=infra"),
    )
    path = tmp_path / "machine.toml"
    write_machine_file(path, machine)
    assert load_machine_file(path) == machine
    assert path.stat().st_mode & 0o777 == 0o600


def test_defaults_are_the_narrow_ones(tmp_path: Path) -> None:
    machine = load_machine_file(_write(tmp_path / "m.toml", 'trust_level = "off"'))
    assert not machine.allow_inferred
    assert machine.all_roots() == (Path.home(),)
    assert machine.chosen_by == "default"
    assert machine.concurrency == 4


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "trust_level"),
        ('trust_level = "workspace"', "sandbox"),
        ('trust_level = "ask"', "sandbox"),
        ('trust_level = "root"', "'trusted' or 'off'"),
        ('trust_level = "off"\ntrusted_level = 1', "trusted_level"),
        ('trust_level = "off"\nchosen_by = "cloud"', "chosen_by"),
        ('trust_level = "off"\nroots = "/"', "roots"),
        ('trust_level = "off"\nroots = ["work"]', "not absolute"),
        ('trust_level = "off"\nallow_inferred = 1', "allow_inferred"),
        ('trust_level = "off"\nconcurrency = 0', "concurrency"),
        ('trust_level = "off"\nconcurrency = true', "concurrency"),
        ('trust_level = "off"\nenv_allow = [1]', "env_allow"),
        ('trust_level = "off"\nupdate = true', "update is True"),
        ('trust_level = "off"\nupdate = "Off"', "update is 'Off'"),
        ('trust_level = "off"\nupdate_probation_s = 0', "update_probation_s"),
        ('trust_level = "off"\nupdate_probation_s = 3601', "update_probation_s"),
        ("trust_level = ", "not TOML"),
    ],
)
def test_a_wrong_file_is_refused_naming_the_key(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named) as caught:
        load_machine_file(_write(tmp_path / "m.toml", text))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_bytes(b'trust_level = "\xff"')
    with pytest.raises(InvalidInput, match="not TOML"):
        load_machine_file(path)


def test_a_change_applies_at_the_next_decision(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.toml", 'trust_level = "trusted"')
    ceiling = Ceiling(path)
    assert ceiling.current().trust_level == "trusted"
    first = ceiling.current()
    assert ceiling.current() is first  # unchanged: not read again
    _write(path, 'trust_level = "off"')
    assert ceiling.current().trust_level == "off"


def test_a_wrong_or_missing_file_allows_nothing_until_it_is_right(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.toml", 'trust_level = "trusted"')
    ceiling = Ceiling(path)
    ceiling.current()
    _write(path, 'trust_level = "trustedd"')
    with pytest.raises(InvalidInput):
        ceiling.current()
    with pytest.raises(InvalidInput):
        ceiling.current()
    path.unlink()
    with pytest.raises(InvalidInput, match="no such file"):
        ceiling.current()
    _write(path, 'trust_level = "trusted"')
    os.utime(path)
    assert ceiling.current().trust_level == "trusted"


@pytest.mark.parametrize("labels", ['["two words"]', '["=x"]', '"build"', "[1]"])
def test_a_label_that_no_selector_could_name_is_refused(tmp_path: Path, labels: str) -> None:
    with pytest.raises(InvalidInput, match="label"):
        load_machine_file(
            _write(tmp_path / "m.toml", f'trust_level = "trusted"\nlabels = {labels}')
        )
