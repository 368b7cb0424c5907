"""``farhandd doctor``: each thing a working machine needs, what was found, and the next step."""

import asyncio
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import grpc

from farhand_daemon.channels import channel_options, mutual_tls
from farhand_daemon.command_env import capture_login_environment
from farhand_daemon.discovery import Discovery, discover
from farhand_daemon.enrol_client import EnrolmentClient
from farhand_daemon.identity import MachineCredentials, load_identity
from farhand_daemon.machine_file import load_machine_file
from farhand_daemon.paths import Home, prepare_home
from farhand_daemon.status import DaemonStatus, read_status, running_pid, way_back
from farhand_shared import limits, pki
from farhand_shared.errors import FarhandError

_LINK_READY_S: Final = 10.0
_UNWANTED: Final = ("revoked", "quarantined")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at. ``next_step`` is empty when it is as it should be."""

    check: str
    ok: bool
    result: str
    next_step: str = ""


def show_health(home: Home, *, as_json: bool) -> int:
    """Print every check; return 1 when any failed."""
    checks = list(_checks(home))
    if as_json:
        print(json.dumps({"items": [asdict(check) for check in checks], "next_cursor": None}))
    else:
        for check in checks:
            print(f"{'ok  ' if check.ok else 'FAIL'}  {check.check:<13} {check.result}")
            if not check.ok:
                print(f"      {'':<13} → {check.next_step}")
    return 0 if all(check.ok for check in checks) else 1


def _checks(home: Home) -> Iterator[Check]:
    if not home.root.exists():
        yield _bad("identity", f"{home.root} does not exist", "run farhandd enroll URL")
        return
    yield _try("home", lambda: _home(home))
    yield _try("machine file", lambda: _machine_file(home))
    yield _disk(home)
    yield _login_environment()
    try:
        identity = load_identity(home)
    except FarhandError as error:
        yield _bad("identity", *_split(error))
        return
    yield _ok("identity", f"{identity.machine_name} of {identity.instance_name}")
    last = read_status(home)
    yield _certificate(identity, "" if last is None else last.renewal_problem)
    try:
        found = discover(identity.server_url)
    except FarhandError as error:
        yield _bad("address", *_split(error))
    else:
        yield _ok("address", f"{identity.server_url} answers")
        yield _clock(found)
        yield _root(identity, found)
    yield _link(identity)
    server_says = ""
    try:
        server_says, name = _enrolment(identity)
    except FarhandError as error:
        yield _bad("enrolment", *_split(error))
    else:
        yield _judged(server_says, name)
    yield _daemon(running_pid(home), last, server_says)


def _ok(check: str, result: str) -> Check:
    return Check(check=check, ok=True, result=result)


def _bad(check: str, result: str, next_step: str) -> Check:
    return Check(check=check, ok=False, result=result, next_step=next_step)


def _try(name: str, look: Callable[[], Check]) -> Check:
    try:
        return look()
    except FarhandError as error:
        return _bad(name, *_split(error))


def _split(error: FarhandError) -> tuple[str, str]:
    """Return (what is wrong, what to do) of a message "cannot …: reason; what to do"."""
    result, _, step = str(error).rpartition("; ")
    return (result, step) if result else (step, "see daemon.log in the home")


def _home(home: Home) -> Check:
    prepare_home(home)
    return _ok("home", f"{home.root} is private and writable")


def _machine_file(home: Home) -> Check:
    machine = load_machine_file(home.machine_file)
    roots = ", ".join(map(str, machine.all_roots()))
    if machine.trust_level == "off":
        return _bad(
            "machine file",
            "trust_level is off: nothing runs on this machine",
            f"set trust_level in {home.machine_file} when it shall work",
        )
    missing = [str(root) for root in machine.all_roots() if not root.is_dir()]
    if missing:
        return _bad(
            "machine file",
            f"roots that do not exist: {', '.join(missing)}",
            f"make them or correct roots in {home.machine_file}",
        )
    return _ok("machine file", f"{machine.trust_level}, commands beneath {roots}")


def _disk(home: Home) -> Check:
    free = shutil.disk_usage(home.root).free
    text = f"{free // limits.MIB:,} MiB free for output"
    if free >= limits.FREE_DISK_MIN_BYTES:
        return _ok("disk", text)
    needed = limits.FREE_DISK_MIN_BYTES // limits.MIB
    return _bad("disk", text, f"free space until {needed} MiB are there: work is refused below")


def _login_environment() -> Check:
    env = asyncio.run(capture_login_environment(os.environb))
    if env is None:
        return _bad(
            "environment",
            "the login shell gives no environment within 10 s: commands get a basic PATH",
            "run the shell with -l -c env and see what holds it up",
        )
    path = os.fsdecode(env[b"PATH"])
    if shutil.which("sh", path=path) is None:
        return _bad("environment", f"no sh in PATH {path}", "correct PATH in the shell's profile")
    return _ok("environment", f"PATH {path}")


def _certificate(identity: MachineCredentials, renewal_problem: str) -> Check:
    now = datetime.now(UTC)
    end = identity.not_after
    if now < datetime.fromtimestamp(identity.not_before_ms / 1000, tz=UTC):
        return _bad("certificate", "it is not valid yet", "set this machine's clock")
    if renewal_problem:
        result, _, step = renewal_problem.rpartition("; ")
        if not result or step.startswith("enrol"):
            step = way_back("")
        return _bad("certificate", f"until {end:%Y-%m-%d}: {result or renewal_problem}", step)
    if now <= end:
        return _ok("certificate", f"until {end:%Y-%m-%d %H:%M} UTC")
    if now <= end + timedelta(days=limits.RENEW_GRACE_DAYS):
        return _bad(
            "certificate",
            f"it ended on {end:%Y-%m-%d}",
            "run farhandd run where the control plane can be reached: it renews by itself",
        )
    return _bad("certificate", f"it ended on {end:%Y-%m-%d}", way_back(""))


def _clock(found: Discovery) -> Check:
    if found.server_time is None:
        return _ok("clock", "the server did not say its time")
    skew_s = time.time() - found.server_time.timestamp()
    text = f"{skew_s:+.0f} s against the server"
    if abs(skew_s) <= limits.CLOCK_SKEW_S:
        return _ok("clock", text)
    return _bad("clock", text, "set this machine's clock; the link needs it within 5 minutes")


def _root(identity: MachineCredentials, found: Discovery) -> Check:
    pinned = pki.spki_sha256(pki.spki_of_certificate(identity.root_pem.encode()))
    shown = pki.spki_sha256(pki.spki_of_certificate(found.root_pem))
    if pinned == shown:
        return _ok("root", f"the server's root is the pinned one ({pinned[:4].hex()})")
    return _bad(
        "root",
        f"the server's root is {shown[:4].hex()}, pinned is {pinned[:4].hex()}",
        "check the address; for another server run farhandd enroll URL --force",
    )


def _link(identity: MachineCredentials) -> Check:
    address = identity.link_address
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_LINK_READY_S).close()
    except OSError as error:
        return _bad(
            "link",
            f"cannot reach {address}: {error.strerror or error}",
            "let this machine reach that port, or see why nothing listens there",
        )
    credentials = mutual_tls(
        identity.root_pem.encode(), identity.key_pem.encode(), identity.certificate_pem.encode()
    )
    with grpc.secure_channel(address, credentials, options=channel_options(address)) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_LINK_READY_S)
        except grpc.FutureTimeoutError:
            return _bad(
                "link",
                f"no mutual TLS with {address} within {_LINK_READY_S:.0f} s",
                "see the checks above; something in between may open TLS",
            )
    return _ok("link", f"mutual TLS with {address} under the pinned root")


def _enrolment(identity: MachineCredentials) -> tuple[str, str]:
    """Return what the server calls this machine: its status and its name."""
    with EnrolmentClient(identity.enrol_address, identity.root_pem.encode()) as client:
        return client.status(
            machine_id=identity.machine_id,
            key_pem=identity.key_pem.encode(),
            certificate_der=pki.certificate_der(identity.certificate_pem.encode()),
        )


def _judged(status: str, name: str) -> Check:
    if status == "active":
        return _ok("enrolment", f"active as {name}")
    step = {
        "pending": "let the code's maker compare the six words and confirm",
        "revoked": way_back(status),
        "quarantined": way_back(status),
    }.get(status, "ask whoever runs the control plane")
    return _bad("enrolment", f"the server calls this machine {status}", step)


def _daemon(pid: int | None, last: DaemonStatus | None, server_says: str) -> Check:
    if pid is None and server_says in _UNWANTED:
        return _bad("daemon", "it is not running, and would not stay", way_back(server_says))
    if pid is None and last is not None and last.state == "ended":
        return _bad("daemon", f"it has ended: {last.reason} ({last.bye})", way_back(last.bye))
    if pid is None:
        return _bad("daemon", "it is not running", "start it with farhandd run")
    if last is None or last.state != "connected":
        reason = "" if last is None or not last.reason else f": {last.reason}"
        state = "starting" if last is None else last.state
        return _bad("daemon", f"pid {pid} is {state}{reason}", "see the checks above")
    return _ok("daemon", f"pid {pid} is connected")
