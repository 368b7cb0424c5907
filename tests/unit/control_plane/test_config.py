"""The settings: read once, each documented and used."""

import base64
import re
import stat
from dataclasses import fields
from pathlib import Path

import pytest

from farhand_control_plane.config import Settings, instance_key, load
from farhand_shared.errors import InvalidInput, Unavailable

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "control_plane" / "farhand_control_plane"
README = ROOT / "control_plane" / "README.md"


def test_every_setting_is_documented_in_the_readme() -> None:
    text = README.read_text()
    for spec in fields(Settings):
        row = f"| `{spec.metadata['env']}` | {spec.metadata['doc']} |"
        assert row in text, f"README.md lacks the line: {row}"


def test_every_setting_is_read_somewhere() -> None:
    sources = "\n".join(
        path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "config.py"
    )
    derived = {
        "home": "home",
        "instance_key": "instance_key(",
        "log_level": "log_level",
        "environments_folder": "settings.environments",
    }
    for spec in fields(Settings):
        used = derived.get(spec.name, f"settings.{spec.name}")
        assert re.search(re.escape(used), sources), f"nothing reads {spec.name}"


def test_an_empty_variable_counts_as_unset(tmp_path: Path) -> None:
    settings = load({"FARHAND_HOME": str(tmp_path), "FARHAND_DATABASE_URL": "", "FARHAND_BIND": ""})
    assert settings.database_url is None
    assert settings.bind == "127.0.0.1"


def test_the_bare_database_url_of_other_programs_is_not_ours(tmp_path: Path) -> None:
    settings = load({"FARHAND_HOME": str(tmp_path), "DATABASE_URL": "postgresql://other/app"})
    assert settings.database_url is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("FARHAND_HTTP_PORT", "http"),
        ("FARHAND_LINK_PORT", "0"),
        ("FARHAND_ENROL_PORT", "65536"),
        ("FARHAND_URL", "localhost:80"),
        ("FARHAND_DATABASE_URL", "mysql://u:hunter2@h/d"),
        ("FARHAND_INSTANCE_KEY", "c2hvcnQ="),
        ("FARHAND_SESSION_SLOTS", "0"),
        ("FARHAND_LOG_FORMAT", "xml"),
        ("FARHAND_PUBLIC_HOST", "a\nb"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_variable(
    tmp_path: Path, name: str, text: str
) -> None:
    with pytest.raises(InvalidInput, match=f"cannot use {name}: ") as caught:
        load({"FARHAND_HOME": str(tmp_path), name: text})
    assert "hunter2" not in str(caught.value)


def test_secrets_do_not_print(tmp_path: Path) -> None:
    key = base64.b64encode(b"k" * 32).decode()
    settings = load(
        {
            "FARHAND_HOME": str(tmp_path),
            "FARHAND_DATABASE_URL": "postgresql://u:canary-1@h/d",
            "FARHAND_TOKEN": "fh_canary-2",
            "FARHAND_MODEL_API_KEY": "canary-3",
            "FARHAND_INSTANCE_KEY": key,
        }
    )
    printed = f"{settings!r} {settings}"
    for secret in ("canary-1", "canary-2", "canary-3", key, "k" * 32):
        assert secret not in printed


@pytest.mark.parametrize("form", ["hex", "base64", "base64url"])
def test_the_instance_key_is_taken_in_each_of_its_forms(tmp_path: Path, form: str) -> None:
    key = bytes(range(224, 256))
    text = {
        "hex": key.hex(),
        "base64": base64.b64encode(key).decode(),
        "base64url": base64.urlsafe_b64encode(key).decode().rstrip("="),
    }[form]
    settings = load({"FARHAND_HOME": str(tmp_path), "FARHAND_INSTANCE_KEY": text})
    assert instance_key(settings).reveal() == key


def test_the_instance_key_is_made_once_and_kept_private(home: Path) -> None:
    settings = load({"FARHAND_HOME": str(home)})
    first = instance_key(settings).reveal()
    assert len(first) == 32
    assert instance_key(settings).reveal() == first
    assert stat.S_IMODE((home / "instance.key").stat().st_mode) == 0o600


def test_a_home_that_cannot_be_made_is_said_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = load({"FARHAND_HOME": str(tmp_path / "file" / "home")})
    with pytest.raises(Unavailable, match=r"cannot keep the instance key in .*; make the home"):
        instance_key(settings)
