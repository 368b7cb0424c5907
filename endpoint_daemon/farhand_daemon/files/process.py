"""The process of one operation: forked from a supervisor, it does one thing, says so, and ends.

Imported by it only, never by the daemon: small parts of the standard library only.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from farhand_daemon.file_argv import unpack
from farhand_daemon.files import answer, changing, finding, looking, moving
from farhand_daemon.files.fault import Ended, Fault, fault_of, shown
from farhand_daemon.files.roots import Roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Operation = Callable[[Roots, dict[str, Any]], dict[str, object]]

# The verb is for messages. Who changes something cleans up before it ends.
_OPERATIONS: dict[str, tuple[str, Operation, bool]] = {
    "StatFile": ("look at", looking.stat_file, False),
    "ListFolder": ("list", looking.list_folder, False),
    "GlobFiles": ("look through", finding.glob_files, False),
    "SearchFiles": ("search", finding.search_files, False),
    "ReadFile": ("read", looking.read_file, False),
    "WriteFile": ("write", changing.write_file, True),
    "EditFile": ("edit", changing.edit_file, True),
    "PutFile": ("put", changing.put_file, True),
    "MakeFolder": ("make", moving.make_folder, True),
    "MoveFile": ("move", moving.move_file, True),
    "RemoveFile": ("remove", moving.remove_file, True),
}


def run(argv: list[bytes], env: list[tuple[bytes, bytes]], cwd: bytes) -> int:
    """Do the operation of `file_argv.pack`; give the exit code."""
    gc.enable()
    sys.stderr = None  # nothing but our one line may stand there
    request = unpack(argv)
    verb, operation, changes = _OPERATIONS[request["operation"]]
    fields = request["fields"] | {"env": env}
    path: bytes = fields["path"]
    for name in fields.keys() & {"path", "to"}:
        fields[name] = os.path.join(cwd, fields[name])
    if changes:
        signal.signal(signal.SIGTERM, _end)
    try:
        facts = operation(Roots(request["roots"], request["own"]), fields)
    except Fault as fault:
        return _refuse(verb, path, fault)
    except OSError as error:
        return _refuse(verb, path, fault_of(error))
    except Ended:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)  # so that who waits sees how it ended
        return 128 + signal.SIGTERM
    except Exception as error:
        kind = type(error).__name__
        return _refuse(verb, path, Fault("failed", f"the daemon made a mistake: {kind}: {error}"))
    answer.report(facts)
    return 0


def _refuse(verb: str, path: bytes, fault: Fault) -> int:
    hint = ""
    if fault.code == "not_found" and path.startswith(b"~"):
        hint = "; ~ is not replaced here, give the whole path"
    message = f"cannot {verb} {shown(path)}: {fault.reason}{hint}"
    answer.report({"error": {"code": fault.code, "message": message, **fault.facts}})
    return 1


def _end(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: what cleans up is not disturbed
    raise Ended
