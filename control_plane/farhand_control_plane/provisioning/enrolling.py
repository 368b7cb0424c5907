"""Enrolling an environment's daemon over the pipes of `farhandd enroll`, wherever that runs.

The code goes in by standard input; the six words come back by standard output, from the machine
itself. Nobody but us and that process holds these pipes: comparing the words here proves as much as
two screens do.
"""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from farhand_control_plane.provisioning.provisioner import Redeemed, Request
from farhand_shared.errors import Unavailable

WITHIN_S: Final = 60.0
ERRORS_KEPT_BYTES: Final = 4096


def enrol_arguments(url: str) -> list[str]:
    """Return the arguments after ``farhandd enroll``; ``machine.toml`` is to be there already."""
    return [url, "--code-stdin", "--json", "--no-wait"]


async def enrol(
    command: Sequence[str], request: Request, *, environ: Mapping[str, str] | None = None
) -> None:
    """Run the command, give it a fresh code, and confirm the machine when its words are right.

    Raises what ``confirm`` raises, and Unavailable with the program's last line when it fails.
    """
    code = await request.code()
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=None if environ is None else dict(environ),
        cwd="/",
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            confirmed, errors = await asyncio.gather(
                _talk(process, request, code.reveal()), _last_of(process)
            )
            status = await process.wait()
    except TimeoutError as error:
        raise Unavailable(
            f"cannot enrol {request.name}: it took longer than {WITHIN_S:.0f} s; "
            f"can it reach {request.url}?"
        ) from error
    finally:
        await make_sure_it_ended(process)
    if status != 0 or not confirmed:
        raise Unavailable(f"cannot enrol {request.name}: {last_line(errors)}")


async def make_sure_it_ended(process: asyncio.subprocess.Process) -> None:
    """Kill a program of ours that was given up, and bury it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _talk(process: asyncio.subprocess.Process, request: Request, code: bytes) -> bool:
    assert process.stdin is not None  # noqa: S101 - a pipe
    assert process.stdout is not None  # noqa: S101 - a pipe
    with contextlib.suppress(
        BrokenPipeError, ConnectionResetError
    ):  # it has ended: its status says
        process.stdin.write(code + b"\n")
        await process.stdin.drain()
    process.stdin.close()
    confirmed = False
    async for line in process.stdout:
        said: Any = json.loads(line) if line.startswith(b"{") else {}  # JSON of the daemon
        if said.get("event") == "redeemed":
            await request.confirm(
                Redeemed(machine_id=str(said["machine_id"]), words=tuple(map(str, said["words"])))
            )
            confirmed = True
    return confirmed


async def _last_of(process: asyncio.subprocess.Process) -> bytes:
    """Read errors to their end, so that the pipe never fills; keep the last of them."""
    assert process.stderr is not None  # noqa: S101 - a pipe
    kept = b""
    while data := await process.stderr.read(ERRORS_KEPT_BYTES):
        kept = (kept + data)[-ERRORS_KEPT_BYTES:]
    return kept


def last_line(errors: bytes) -> str:
    """Return the reason that a program of ours gave last."""
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip().removeprefix("farhandd: ") if lines else "it gave no reason"
