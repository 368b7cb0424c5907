"""The settings, read once from the environment into one frozen object.

Every field names its variable and says what it does; `README.md` of this folder lists them all and
a test compares. Standard library only and nothing read at import: the command line's hot path
loads this module.
"""

import base64
import binascii
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from farhand_shared.errors import InvalidInput, Unavailable
from farhand_shared.redact import Secret

LOOPBACK: Final = "127.0.0.1"
INSTANCE_KEY_BYTES: Final = 32
INSTANCE_KEY_FILE: Final = "instance.key"


def _from(env: str, doc: str) -> dict[str, str]:
    return {"env": env, "doc": doc}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one process of the control plane, or one use of the command line, goes by."""

    home: Path = field(
        metadata=_from(
            "FARHAND_HOME", "folder of the local instance; the platform's data folder when unset"
        )
    )
    url: str = field(
        default="",
        metadata=_from(
            "FARHAND_URL", "where the command line finds the server; the local instance when unset"
        ),
    )
    token: Secret | None = field(
        default=None,
        metadata=_from(
            "FARHAND_TOKEN", "API token of the command line; the local instance's when unset"
        ),
    )
    database_url: Secret | None = field(
        default=None,
        metadata=_from(
            "FARHAND_DATABASE_URL",
            "PostgreSQL 15 or newer, as postgresql://…; `up` starts its own when unset",
        ),
    )
    bind: str = field(
        default=LOOPBACK,
        metadata=_from(
            "FARHAND_BIND", "address that all three listeners bind; 0.0.0.0 lets other computers in"
        ),
    )
    http_port: int | None = field(
        default=None,
        metadata=_from(
            "FARHAND_HTTP_PORT", "port of the API; a free one, then kept in the home, when unset"
        ),
    )
    enrol_port: int | None = field(
        default=None, metadata=_from("FARHAND_ENROL_PORT", "port where machines enrol; as above")
    )
    link_port: int | None = field(
        default=None, metadata=_from("FARHAND_LINK_PORT", "port of the machines' links; as above")
    )
    public_url: str = field(
        default="",
        metadata=_from(
            "FARHAND_PUBLIC_URL",
            "address of the API as machines and people reach it, when a proxy stands before it",
        ),
    )
    public_host: str = field(
        default="",
        metadata=_from(
            "FARHAND_PUBLIC_HOST",
            "host name or address at which machines reach the listeners; found out when unset",
        ),
    )
    instance_key: Secret | None = field(
        default=None,
        metadata=_from(
            "FARHAND_INSTANCE_KEY",
            "32 bytes in base64 or hexadecimal that wrap the private PKI's keys; "
            "a file in the home, made on first use, when unset",
        ),
    )
    model_base_url: str = field(
        default="",
        metadata=_from(
            "FARHAND_MODEL_BASE_URL",
            "an OpenAI-compatible service; the built-in offline planner when unset",
        ),
    )
    model_api_key: Secret | None = field(
        default=None,
        metadata=_from("FARHAND_MODEL_API_KEY", "key of that service; none is sent when unset"),
    )
    model: str = field(default="", metadata=_from("FARHAND_MODEL", "model of the Workers"))
    router_model: str = field(
        default="",
        metadata=_from("FARHAND_ROUTER_MODEL", "model of the Router; the Workers' when unset"),
    )
    session_slots: int = field(
        default=16,
        metadata=_from("FARHAND_SESSION_SLOTS", "sessions that one replica steps at the same time"),
    )
    provisioner: str = field(
        default="",
        metadata=_from(
            "FARHAND_PROVISIONER",
            "makes environments on demand: local_process, local_container, or an installed one; "
            "there are none when unset",
        ),
    )
    environments_max: int = field(
        default=4, metadata=_from("FARHAND_ENVIRONMENTS_MAX", "environments there may be at once")
    )
    environments_per_member: int = field(
        default=2,
        metadata=_from("FARHAND_ENVIRONMENTS_PER_MEMBER", "of these, how many of one member"),
    )
    environment_lifetime_s: int = field(
        default=4 * 3600,
        metadata=_from(
            "FARHAND_ENVIRONMENT_LIFETIME_S", "seconds that an environment lives at most"
        ),
    )
    environment_grace_s: int = field(
        default=60,
        metadata=_from(
            "FARHAND_ENVIRONMENT_GRACE_S", "seconds that one is kept after its ticket has closed"
        ),
    )
    environments_folder: Path | None = field(
        default=None,
        metadata=_from(
            "FARHAND_ENVIRONMENTS_FOLDER",
            "folder for environments of this computer; environments/ in the home when unset",
        ),
    )
    container_engine: str = field(
        default="",
        metadata=_from(
            "FARHAND_CONTAINER_ENGINE", "docker, podman or a path; the first on PATH when unset"
        ),
    )
    container_image: str = field(
        default="",
        metadata=_from("FARHAND_CONTAINER_IMAGE", "image of local_container; it holds farhandd"),
    )
    log_format: str = field(
        default="json", metadata=_from("FARHAND_LOG_FORMAT", "json, or text for people")
    )
    log_level: str = field(
        default="info", metadata=_from("FARHAND_LOG_LEVEL", "debug, info, warning or error")
    )

    @property
    def token_file(self) -> Path:
        """The local instance's API token, 0600."""
        return self.home / "token"

    @property
    def local_file(self) -> Path:
        """Where the running local instance is: JSON with its address and this machine's id."""
        return self.home / "local.json"

    @property
    def ports_file(self) -> Path:
        """The ports that the local instance keeps over restarts."""
        return self.home / "ports.json"

    @property
    def environments(self) -> Path:
        """Where environments of this computer lie; made by the provisioner that uses it."""
        return self.environments_folder or self.home / "environments"

    @property
    def daemon_home(self) -> Path:
        """The home of this machine's own daemon, when `up` runs it."""
        return self.home / "daemon"


def load(environ: Mapping[str, str]) -> Settings:
    """Return the settings of this environment; an empty variable counts as unset.

    Raises InvalidInput naming the variable. Makes nothing on disk.
    """
    values: dict[str, Any] = {}  # checked per field by its reader
    for spec in fields(Settings):
        name = str(spec.metadata["env"])
        text = environ.get(name, "")
        if text:
            values[spec.name] = _READERS.get(spec.name, _text)(name, text)
    values.setdefault("home", _default_home(environ))
    return Settings(**values)


def _default_home(environ: Mapping[str, str]) -> Path:
    if environ.get("HOME") == "":
        raise InvalidInput("cannot find a home: HOME is empty; set FARHAND_HOME to a folder")
    import platformdirs  # only the default needs it

    return Path(platformdirs.user_data_dir("farhand", appauthor=False))


def _text(name: str, text: str) -> str:
    if "\n" in text or "\r" in text:
        raise InvalidInput(f"cannot use {name}: it holds a line break; remove it")
    return text


def _folder(_name: str, text: str) -> Path:
    return Path(text).expanduser().absolute()


def _secret(name: str, text: str) -> Secret:
    return Secret(_text(name, text).strip().encode("utf-8", "surrogateescape"))


def _port(name: str, text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise InvalidInput(f"cannot use {name}: {text!r} is not a port; use 1 to 65535")
    return int(text)


def _whole(what: str, at_least: int, at_most: int) -> Callable[[str, str], int]:
    def read(name: str, text: str) -> int:
        if not text.isdecimal() or not at_least <= int(text) <= at_most:
            raise InvalidInput(
                f"cannot use {name}: {text!r} is not {what}; use {at_least} to {at_most}"
            )
        return int(text)

    return read


def _url(name: str, text: str) -> str:
    url = _text(name, text).strip().rstrip("/")
    if not url.startswith(("http://", "https://")) or " " in url:
        raise InvalidInput(f"cannot use {name}: {url!r} is not a URL; begin it with http(s)://")
    return url


def _database_url(name: str, text: str) -> Secret:
    if not text.startswith(("postgresql://", "postgres://")):
        # The value may hold a password, so it is not repeated.
        raise InvalidInput(f"cannot use {name}: it is not a postgresql:// URL; correct it")
    return _secret(name, text)


def _one_of(*words: str) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        if text not in words:
            raise InvalidInput(f"cannot use {name}: {text!r} is unknown; use {', '.join(words)}")
        return text

    return read


def _key(name: str, text: str) -> Secret:
    return Secret(decode_instance_key(name, text))


_READERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "home": _folder,
    "url": _url,
    "token": _secret,
    "database_url": _database_url,
    "http_port": _port,
    "enrol_port": _port,
    "link_port": _port,
    "public_url": _url,
    "instance_key": _key,
    "model_base_url": _url,
    "model_api_key": _secret,
    "session_slots": _whole("a count", 1, 1024),
    "environments_max": _whole("a count", 0, 1024),
    "environments_per_member": _whole("a count", 0, 1024),
    "environment_lifetime_s": _whole("a number of seconds", 60, 30 * 86_400),
    "environment_grace_s": _whole("a number of seconds", 0, 86_400),
    "environments_folder": _folder,
    "log_format": _one_of("json", "text"),
    "log_level": _one_of("debug", "info", "warning", "error"),
}


def decode_instance_key(name: str, text: str) -> bytes:
    """Return the 32 bytes written as base64 (either alphabet) or hexadecimal."""
    compact = text.strip()
    for decode in (bytes.fromhex, _from_base64):
        try:
            key = decode(compact)
        except (ValueError, binascii.Error):
            continue
        if len(key) == INSTANCE_KEY_BYTES:
            return key
    raise InvalidInput(
        f"cannot use {name}: it is not {INSTANCE_KEY_BYTES} bytes in base64 or hexadecimal; "
        "make one with: openssl rand -base64 32"
    )


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4))


def instance_key(settings: Settings) -> Secret:
    """Return the instance key: from the environment, else from the home's file, made when absent.

    The file is 0600 and never replaced: without this key the stored PKI is useless.
    """
    if settings.instance_key is not None:
        return settings.instance_key
    path = settings.home / INSTANCE_KEY_FILE
    try:
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return Secret(decode_instance_key(str(path), path.read_text(encoding="ascii")))
        key = secrets.token_bytes(INSTANCE_KEY_BYTES)
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64encode(key) + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Unavailable(
            f"cannot keep the instance key in {path}: {error.strerror}; "
            "make the home writable or set FARHAND_INSTANCE_KEY"
        ) from error
    return Secret(key)
