"""The fork server: a tiny single-threaded process that forks a supervisor whenever it is asked.

Run as a file, `python -I -S -E forkserver.py FOLDER TREES`, with its socket as descriptor 3. It is
started before the daemon imports gRPC and imports no more than the standard library's small parts:
a fork of a process with live gRPC threads hangs, a fork of a small process is quick.

It ends when its socket does. Supervisors decide for themselves: idle ones end with the daemon,
running ones go on.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from farhand_daemon.supervisor.cgroup import Hierarchy

SOCKET_FD = 3


def main(state_folder: str, trees: list[list[str]]) -> None:
    """Serve fork requests until the daemon is gone. `trees`: base and home of each hierarchy."""
    from farhand_daemon.supervisor import descendants, wire
    from farhand_daemon.supervisor.cgroup import Hierarchy
    from farhand_daemon.supervisor.process import SupervisorProcess

    os.closerange(SOCKET_FD + 1, 1 << 16)  # whatever the daemon's own parent left open
    requests = socket.socket(fileno=SOCKET_FD)
    os.set_inheritable(SOCKET_FD, False)
    folder_fd = os.open(state_folder, os.O_RDONLY | os.O_CLOEXEC)
    null_fd = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the daemon's end is the only end
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps supervisors
    descendants.load_subreaper()  # here, or every fork pays some milliseconds for it
    # No cycles are made below; collecting would only touch, and so copy, every shared page.
    gc.collect()
    gc.freeze()
    gc.disable()
    hierarchies = [Hierarchy(base, home) for base, home in trees]
    reader = wire.FrameReader()
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, 4096, 64)
        if not data:
            return
        # One request is one byte string with one descriptor, but a stream may merge several.
        for _ in reader.feed(data):
            channel_fd = descriptors.pop(0)
            os.set_inheritable(channel_fd, False)  # received descriptors are inheritable
            try:
                child = os.fork()
            except OSError:  # no more processes: the daemon sees the closed channel
                child = -1
            if child == 0:
                for descriptor in (*descriptors, SOCKET_FD):
                    os.close(descriptor)
                requests.detach()
                run_supervisor(SupervisorProcess, channel_fd, folder_fd, null_fd, hierarchies)
            os.close(channel_fd)


def run_supervisor(
    kind: type, channel_fd: int, folder_fd: int, null_fd: int, hierarchies: list[Hierarchy]
) -> None:
    """Be a supervisor; never returns. A bug is written to standard error, their common log."""
    try:
        kind(channel_fd, folder_fd, null_fd, hierarchies).serve()
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    # Our own package is the only thing found outside the standard library; it comes last, so that
    # nothing installed beside it can stand in for a module of the standard library.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    import json

    main(sys.argv[1], json.loads(sys.argv[2]))
