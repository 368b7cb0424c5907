"""Notice that a command waits for somebody to type, and that a failed one wanted to.

What a process waits in is read from /proc. A read of a terminal or of the command's own input is
sure; a wait for several things at once (a shell's prompt, an editor) is told only of what has the
terminal to itself. It is a hint: nothing is decided by it.

Imported by the fork server: small parts of the standard library only.
"""

from __future__ import annotations

import os

from farhand_daemon.process_identity import LINUX, stat_fields
from farhand_daemon.supervisor.limits import note

_TERMINALS = (b"/dev/pts/", b"/dev/tty", b"/dev/console")
# read(2) by machine; it takes a descriptor first.
_READ = {"x86_64": 0, "aarch64": 63, "armv7l": 3, "i686": 3, "riscv64": 63, "ppc64le": 3}
# Where the kernel waits for input of a terminal, and for several descriptors at once.
_READS_TERMINAL = (b"n_tty_read", b"wait_woken")
_WAITS_FOR_MANY = (b"do_select", b"do_poll", b"do_sys_poll", b"ep_poll", b"poll_schedule_timeout")
# What programs say when nobody can answer, at the end of what they write.
_WANTED = (
    b"terminal prompts disabled",  # git
    b"could not read Username",
    b"could not read Password",
    b"a terminal is required",  # sudo
    b"a password is required",
    b"no tty present and no askpass program",
    b"Host key verification failed",  # ssh
    b"read_passphrase: can't open /dev/tty",
    b"Permission denied (publickey",
    b"Authentication is required",  # polkit
    b"the input device is not a TTY",  # docker
    b"stdin is not a terminal",
    b"must be run from a terminal",  # su
    b"EOFError: EOF when reading a line",  # Python's input()
    b"cannot open terminal",
    b"Aborted, input is not a terminal",
)
COMPLAINT_BYTES = 2048  # how much of the end is looked at


def waits_for_input(leader: int, processes: list[int], *, has_input: bool) -> str | None:
    """Say what a process of a command waits to read: "terminal", "stdin"; None when none does.

    `leader` is the command's own process, whose standard input is the command's; `has_input` says
    whether that was made to be written to.
    """
    if not LINUX:
        return None
    stdin = _link(leader, 0) if has_input else None
    for pid in processes:
        fields = stat_fields(pid)
        if fields is None or fields[0] != b"S":
            continue
        what = _awaited(pid, fields, stdin)
        if what is not None:
            return what
    return None


def wanted_input(complaint: bytes) -> dict[str, str] | None:
    """Return a note when the last words of a failed command are those of one that wanted input."""
    if not any(phrase in complaint for phrase in _WANTED):
        return None
    return note(
        "input_wanted",
        "it seems to have wanted input, and it has none: give it what it asks for by a file, a "
        "variable or an option, or run it with a terminal",
    )


def _awaited(pid: int, fields: list[bytes], stdin: bytes | None) -> str | None:
    foreground = fields[4] != b"0" and fields[5] == fields[2]
    descriptor = _read_descriptor(pid)
    if descriptor is not None:
        target = _link(pid, descriptor)
        if target is not None and target.startswith(_TERMINALS):
            return "terminal"
        return "stdin" if stdin is not None and target == stdin else None
    place = _file(pid, "wchan")
    if place is None or place == b"0":
        # Another account's program (sudo, su) shows nothing: it has the terminal, and is quiet.
        return "terminal" if foreground and _link(pid, 0) is None else None
    if place.startswith(_READS_TERMINAL):
        return "terminal" if foreground else None
    if place.startswith(_WAITS_FOR_MANY) and foreground:
        target = _link(pid, 0)
        return "terminal" if target is not None and target.startswith(_TERMINALS) else None
    return None


def _read_descriptor(pid: int) -> int | None:
    """Give the descriptor that a process is reading; None when it does something else."""
    words = (_file(pid, "syscall") or b"").split()
    if len(words) < 2 or not words[0].isdigit() or int(words[0]) != _READ.get(os.uname().machine):
        return None
    return int(words[1], 16)


def _link(pid: int, descriptor: int) -> bytes | None:
    try:
        return os.readlink(b"/proc/%d/fd/%d" % (pid, descriptor))
    except OSError:
        return None


def _file(pid: int, name: str) -> bytes | None:
    try:
        fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, 256).strip()
    except OSError:
        return None
    finally:
        os.close(fd)
