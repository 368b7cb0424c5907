"""``POST /v1/machines/{machine}/files``: one operation on a machine's files, a command like others.

`exec.ExecApp` serves it: the same caller, the same frames, and the attempt's output resumes it.
Standard output is the data, standard error one line of JSON: the facts, or the error.
"""

from typing import Final

from farhand_control_plane.db.tokens import Caller
from farhand_control_plane.machines.execs import ExecRequest
from farhand_shared.file_request import decode_file_body

_BEFORE: Final = "/v1/machines/"
_AFTER: Final = "/files"


def machine_of(path: str) -> str | None:
    """Return the machine's name or id in this route's path; None for any other path."""
    if not (path.startswith(_BEFORE) and path.endswith(_AFTER)):
        return None
    machine = path[len(_BEFORE) : -len(_AFTER)]
    return machine if machine and "/" not in machine else None


def request_of(caller: Caller, machine: str, content: bytes) -> ExecRequest:
    """Return the command that a request asks for; raise InvalidInput naming what is wrong."""
    body = decode_file_body(content)
    return ExecRequest(
        instance_id=caller.instance_id,
        member_id=caller.member_id,
        machine=machine,
        spec=body.spec,
        wait_offline=body.wait_offline,
    )
