"""``farhandd status``: what this machine is and how its link stands, with or without a daemon."""

import json
from datetime import UTC, datetime

from farhand_daemon.identity import MachineCredentials, load_identity
from farhand_daemon.machine_file import load_machine_file
from farhand_daemon.paths import Home
from farhand_daemon.status import DaemonStatus, read_status, running_pid, way_back
from farhand_daemon.update.told import tell
from farhand_shared.errors import FarhandError, InvalidInput
from farhand_shared.version import __version__


def show_status(home: Home, *, as_json: bool, ask: bool = False) -> int:
    """Print the status and return 0; NotFound when the home was never enrolled.

    ``ask``: say in the JSON what the server calls this machine too, "" when it cannot be asked.
    """
    identity = load_identity(home)
    pid = running_pid(home)
    last = read_status(home)
    state = "stopped" if last is None or pid is None else last.state
    if last is not None and last.state == "ended":
        state = "ended"  # stays readable after the daemon has gone: why it will not come back
    try:
        machine = load_machine_file(home.machine_file)
        trust = f"{machine.trust_level} (chosen by {machine.chosen_by})"
        level = machine.trust_level
    except InvalidInput as error:
        trust = level = f"nothing is allowed: {error}"
    since = None if last is None else datetime.fromtimestamp(last.since_ms / 1000, tz=UTC)
    if as_json:
        document = {
            "machine_id": identity.machine_id,
            "name": identity.machine_name,
            "instance": identity.instance_name,
            "url": identity.server_url,
            "home": str(home.root),
            "state": state,
            "since": None if since is None else since.isoformat(),
            "reason": "" if last is None else last.reason,
            "bye": "" if last is None else last.bye,
            "link_address": identity.link_address,
            "pid": pid,
            "trust_level": level,
            "certificate_until": identity.not_after.isoformat(),
            "renewal_problem": "" if last is None else last.renewal_problem,
            "version": __version__ if last is None else last.version,
            "update": tell(home)[0],
            **({"server_says": _server_says(identity)} if ask else {}),
        }
        print(json.dumps(document))
        return 0
    link = state if since is None else f"{state} since {since.astimezone():%Y-%m-%d %H:%M:%S}"
    if last is not None and last.reason and state in ("offline", "ended"):
        link += f": {last.reason}"
    renewal = last.renewal_problem if last is not None else ""
    until = f"until {identity.not_after.astimezone():%Y-%m-%d %H:%M}"
    for name, value in (
        ("machine", f"{identity.machine_name} ({identity.machine_id})"),
        ("of", f"{identity.instance_name} at {identity.server_url}"),
        ("daemon", f"pid {pid}" if pid is not None else f"not running; {_next_step(last)}"),
        ("link", f"{link} ({identity.link_address})"),
        ("trust level", trust),
        ("certificate", f"{until}; {renewal}" if renewal else until),
        ("version", f"{__version__ if last is None else last.version}; {tell(home)[0]}"),
        ("home", str(home.root)),
    ):
        print(f"{name:<12} {value}")
    return 0


def _server_says(identity: MachineCredentials) -> str:
    from farhand_daemon.channels import clean_grpc_environment

    clean_grpc_environment()
    from farhand_daemon.doctor.network import enrolment

    try:
        return enrolment(identity)[0]
    except FarhandError:
        return ""


def _next_step(last: DaemonStatus | None) -> str:
    if last is not None and last.state == "ended":
        return way_back(last.bye)
    return "start it with farhandd run"
