"""``farhandd doctor``: each thing a working machine needs, what was found, and the next step."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict

from farhand_daemon.discovery import discover
from farhand_daemon.doctor import local, network
from farhand_daemon.doctor.check import Check, bad, good, split, tried
from farhand_daemon.doctor.sandbox import limits, sandbox
from farhand_daemon.identity import load_identity
from farhand_daemon.paths import Home
from farhand_daemon.status import read_status, running_pid
from farhand_shared.errors import FarhandError


def show_health(home: Home, *, as_json: bool) -> int:
    """Print every check, as soon as it is made; return 1 when any failed."""
    checks: list[Check] = []
    for check in _checks(home):
        checks.append(check)
        if not as_json:
            _show(check)
    if as_json:
        print(json.dumps({"items": [asdict(check) for check in checks], "next_cursor": None}))
    return 0 if all(check.ok for check in checks) else 1


def _show(check: Check) -> None:
    print(f"{'ok  ' if check.ok else 'FAIL'}  {check.check:<13} {check.result}", flush=True)
    if not check.ok:
        print(f"      {'':<13} → {check.next_step}", flush=True)


def _checks(home: Home) -> Iterator[Check]:
    """Look at one thing after the other; what needs another is left out without it."""
    if not home.root.exists():
        yield bad("identity", f"{home.root} does not exist", "run farhandd enroll URL")
        return
    yield tried("home", lambda: local.home_folder(home))
    yield tried("machine file", lambda: local.machine_file(home))
    yield local.disk(home)
    pid = running_pid(home)
    daemons = local.environment_of(pid)
    yield local.login_environment(daemons)
    yield sandbox()
    yield limits(pid)
    yield tried("service", lambda: local.service(home))
    last = read_status(home)
    yield local.versions(pid, last)
    yield tried("update", lambda: local.update(home))
    try:
        identity = load_identity(home)
    except FarhandError as error:
        yield bad("identity", *split(error))
        return
    yield good("identity", f"{identity.machine_name} of {identity.instance_name}")
    yield local.certificate(identity, "" if last is None else last.renewal_problem)
    yield network.dns(identity)
    environ = os.environ if daemons is None else daemons
    yield network.proxy(identity, environ, os.environ)
    route = network.route(identity, environ)
    yield route
    try:
        found = discover(identity.server_url, environ=environ)
    except FarhandError as error:
        yield bad("address", *split(error))
    else:
        yield good("address", f"{identity.server_url} answers")
        yield network.clock(found)
        yield network.tls_pin(identity, found)
    if route.ok:
        yield tried("link", lambda: network.link(identity, environ))
    server_says = ""
    try:
        server_says, name = network.enrolment(identity)
    except FarhandError as error:
        yield bad("enrolment", *split(error))
    else:
        yield network.judged(server_says, name)
    yield local.daemon(pid, last, server_says)
