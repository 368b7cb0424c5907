"""What a service manager does for one daemon, and which one this computer has."""

import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from farhand_daemon.paths import Home, find_home
from farhand_daemon.service.spec import ServiceSpec
from farhand_shared.errors import FarhandError

_ANSWER_S: Final = 100.0  # a start waits for the daemon to be ready: systemd gives it 90 s
# A service does not see the shell that installed it, so what it needs to reach the network is kept.
PROXY_VARIABLES: Final = tuple(
    name
    for lower in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "grpc_proxy")
    for name in (lower, lower.upper())
)


class NoServiceManager(FarhandError):
    """There is nothing here that could keep a service; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a program of the service manager said."""

    status: int
    out: str
    err: str

    @property
    def reason(self) -> str:
        """Its last words, fit for one line."""
        lines = (self.err or self.out).strip().splitlines()
        return lines[-1].strip() if lines else f"exit status {self.status}"


class Runner(Protocol):
    """Runs a program of the service manager; status 127 where there is none."""

    def __call__(self, *words: str, environ: Mapping[str, str]) -> Answer: ...


def run_program(*words: str, environ: Mapping[str, str]) -> Answer:
    """Run it for real."""
    try:
        done = subprocess.run(  # the words are ours; PATH finds the program
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=dict(environ),
            timeout=_ANSWER_S,
            check=False,
        )
    except FileNotFoundError:
        return Answer(status=127, out="", err=f"{words[0]} is not installed")
    except OSError as error:
        return Answer(status=126, out="", err=f"{words[0]}: {error.strerror or error}")
    except subprocess.TimeoutExpired:
        return Answer(status=124, out="", err=f"{words[0]} does not answer")
    return Answer(status=done.returncode, out=done.stdout, err=done.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The computer and the account, as far as services need to know them."""

    platform: str
    uid: int
    account: str
    account_home: Path
    environ: Mapping[str, str]
    run: Runner = run_program


def this_host() -> Host:
    """Return the one that this process is on."""
    account = pwd.getpwuid(os.geteuid())
    return Host(
        platform=sys.platform,
        uid=os.geteuid(),
        account=account.pw_name,
        account_home=Path(os.environ.get("HOME") or account.pw_dir),
        environ=dict(os.environ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """What the service manager knows of one daemon."""

    manager: str  # as people call it
    name: str
    file: Path
    installed: bool
    as_rendered: bool  # the file says what this version would write
    active: bool
    starts_by_itself: bool
    problem: str = ""  # what keeps it from working though it is installed; with what to do


class ServiceManager(Protocol):
    """Installs and removes the service of one daemon. Every call may be repeated."""

    @property
    def name(self) -> str: ...

    @property
    def file(self) -> Path:
        """What tells the manager of the service; it exists exactly while that is installed."""

    def check(self) -> None:
        """Raise NoServiceManager unless it works here. May let the account's services linger."""

    def install(self, *, restart: bool) -> list[str]:
        """Register and start it; give what a person should know beyond that."""

    def remove(self) -> None:
        """Stop it, leaving its commands running, and forget it."""

    def state(self) -> ServiceState: ...


def manager_for(spec: ServiceSpec, host: Host) -> ServiceManager:
    """Return the service manager of this system; whether it works, its ``check`` tells."""
    if host.platform == "darwin":
        from farhand_daemon.service.launchd import Launchd

        return Launchd(spec, host)
    from farhand_daemon.service.systemd import Systemd

    return Systemd(spec, host)


def spec_for(home: Home, host: Host) -> ServiceSpec:
    """Return the service of the daemon over a home, with the program that runs now."""
    return ServiceSpec(
        program=program_of(Path(sys.prefix), Path(sys.executable)),
        home=home.root,
        account_home=host.account_home,
        is_default_home=home == find_home(None, {}),
        for_system=host.uid == 0,
        environment={k: host.environ[k] for k in PROXY_VARIABLES if host.environ.get(k)},
    )


def program_of(prefix: Path, executable: Path) -> tuple[str, ...]:
    """Return the words that start ``farhandd``: by the link ``current`` where it leads to it.

    So an update, which moves the link, needs no other unit.
    """
    for folder in (prefix.parent / "current", prefix):
        script = folder / "bin" / "farhandd"
        if folder.resolve() == prefix.resolve() and script.is_file():
            return (str(script),)
    return (str(executable), "-m", "farhand_daemon")


def write_service_file(path: Path, text: str, *, private: bool) -> bool:
    """Write it where it differs; tell whether it did."""
    mode = 0o600 if private else 0o644  # the address of a proxy may hold a password
    try:
        if path.read_text(encoding="utf-8") == text and path.stat().st_mode & 0o777 == mode:
            return False
    except (OSError, UnicodeDecodeError):
        pass  # not there, or not ours to keep
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, mode)  # whatever the umask
        file.write(text)
    new.replace(path)
    return True
