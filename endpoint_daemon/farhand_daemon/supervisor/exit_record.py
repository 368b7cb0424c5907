"""How a process ended, as the system tells it, and as it is written down.

Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from farhand_daemon.spool import SpoolWriter
    from farhand_daemon.supervisor.output import OutputPump

ExitFacts = tuple[int | None, int | None, bool]  # code, signal, core dumped
_SHA256_OF_NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def output_facts(spool: SpoolWriter | None, output: OutputPump | None) -> dict[str, object]:
    """Give what an exit record says of the output."""
    rings = spool.rings if spool is not None else ()
    lost = output.lost if output is not None else [0, 0]
    hashes = output.hashes if output is not None else ()
    return {
        "total_bytes": [r.produced + n for r, n in zip(rings, lost, strict=False)] or [0, 0],
        "omitted_bytes": [r.omitted + n for r, n in zip(rings, lost, strict=False)] or [0, 0],
        "sha256": [digest.hexdigest() for digest in hashes] or [_SHA256_OF_NOTHING] * 2,
        "stdout_left_open": output is not None and bool(output.open),
        "ended_at_ms": time.time_ns() // 1_000_000,
    }


def exit_of(pid: int) -> ExitFacts | None:
    """Give (code, signal, core dumped) of a child that ended, without reaping it; else None."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13: it cannot but be reaped
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            return None
        code = os.waitstatus_to_exitcode(status)
        return (code, None, False) if code >= 0 else (None, -code, os.WCOREDUMP(status))
    info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if info is None:
        return None
    if info.si_code == os.CLD_EXITED:
        return info.si_status, None, False
    return None, info.si_status, info.si_code == os.CLD_DUMPED


def reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return
