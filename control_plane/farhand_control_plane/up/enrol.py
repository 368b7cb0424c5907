"""This computer becomes a machine of the instance that runs on it, by the same way as any other.

`up` stands on both sides: it made the code, sees the machine's six words and the server's, and
confirms when they are the same.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from farhand_control_plane.client.api import Api, Refused, segment
from farhand_control_plane.own_program import daemon_command
from farhand_shared.errors import Conflict, FarhandError, NotAllowed, Unavailable

_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMachine:
    machine_id: str
    name: str


def stored_identity(daemon_home: Path) -> OwnMachine | None:
    """Return which machine this home's daemon is; None when it was never enrolled."""
    try:
        stored = json.loads((daemon_home / "identity.json").read_bytes())
        return OwnMachine(machine_id=str(stored["machine_id"]), name=str(stored["machine_name"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def known_machine(api: Api, own: OwnMachine) -> OwnMachine | None:
    """Return the machine as the server knows it; None when this server does not.

    Raises Conflict when it may not come back: that is a person's decision.
    """
    try:
        machine = api.get(f"/v1/machines/{segment(own.machine_id)}")
    except Refused as error:
        if error.status == 404:
            return None
        raise
    if machine["status"] == "revoked":
        raise Conflict(
            f"cannot run this machine: {own.name} was revoked; "
            "remove the folder daemon in the home to enrol it as a new one"
        )
    if machine["status"] == "pending":
        # An earlier `up` was killed between enrolling and confirming: the words are stored there.
        _confirm(api, machine["id"], machine["words"])
    return OwnMachine(machine_id=machine["id"], name=machine["name"])


def enrol_own_machine(
    api: Api, daemon_home: Path, environ: Mapping[str, str], *, replace: bool
) -> OwnMachine:
    """Enrol this computer with a fresh code and confirm it, having compared the six words."""
    made = api.post("/v1/machines/codes")
    command = daemon_command("enroll", api.target.url, "--home", str(daemon_home))
    command += ["--code-stdin", "--json", "--trust", "trusted", "--chosen-by", "up"]
    if replace:
        command.append("--force")
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environ),
        start_new_session=True,
    ) as process:
        try:
            assert process.stdin is not None  # noqa: S101  # a pipe
            assert process.stdout is not None  # noqa: S101  # a pipe
            process.stdin.write(made["code"].encode() + b"\n")
            process.stdin.close()
            redeemed: dict[str, Any] = {}  # JSON
            for line in process.stdout:
                said = json.loads(line)
                if said.get("event") == "redeemed":
                    redeemed = said
                    _compare_and_confirm(api, made["id"], said)
            if process.wait(_PATIENCE_S) or not redeemed:
                assert process.stderr is not None  # noqa: S101  # a pipe
                raise Unavailable(_why(process.stderr.read()))
        except BaseException:
            process.kill()
            raise
    return OwnMachine(machine_id=redeemed["machine_id"], name=redeemed["machine_name"])


def _compare_and_confirm(api: Api, code_id: str, said: dict[str, Any]) -> None:  # said: JSON
    """Confirm the machine if both sides show the same words; refuse it otherwise."""
    server = api.get(f"/v1/machines/codes/{segment(code_id)}")
    if server["machine_id"] != said["machine_id"] or server["words"] != said["words"]:
        raise NotAllowed(
            "cannot enrol this machine: its six words are not the server's; somebody else has "
            "used the code, or stands in between"
        )
    if not said.get("active"):
        _confirm(api, said["machine_id"], said["words"])


def _confirm(api: Api, machine_id: str, words: list[str]) -> None:
    api.post(f"/v1/machines/{segment(machine_id)}/confirm", {"words": words})


def _why(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    last = lines[-1].removeprefix("farhandd: ") if lines else "farhandd enroll ended early"
    return last if last.startswith("cannot") else f"cannot enrol this machine: {last}"


def presence(api: Api, machine_id: str) -> str:
    """Return online or offline; offline too while the server does not answer."""
    try:
        return str(api.get(f"/v1/machines/{segment(machine_id)}")["presence"])
    except FarhandError:
        return "offline"
