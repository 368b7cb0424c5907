"""What the service manager is told, over a real socket as systemd has it."""

import os
import socket
from pathlib import Path

import pytest

from farhand_daemon.service.notify import Notifier


@pytest.mark.parametrize("abstract", [False, True])
def test_ready_and_stopping_arrive(tmp_path: Path, abstract: bool) -> None:
    address = f"@farhandd-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + address[1:] if abstract else address)
        manager.settimeout(10)
        environ = {"NOTIFY_SOCKET": address, "INVOCATION_ID": "1", "PATH": "/bin"}
        notifier = Notifier.take(environ)
        assert environ == {"PATH": "/bin"}  # commands do not get them
        notifier.ready()
        assert manager.recv(4096).decode().splitlines()[:2] == [
            "READY=1",
            f"MAINPID={os.getpid()}",
        ]
        notifier.stopping()
        assert manager.recv(4096).startswith(b"STOPPING=1\n")


def test_a_manager_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    Notifier.take({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready()
