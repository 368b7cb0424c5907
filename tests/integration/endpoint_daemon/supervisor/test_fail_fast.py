"""Programs that would ask for a password fail at once, with the environment that commands get.

Report: https://github.com/yougov/velociraptor/issues/229 (git waits for a password for ever).
"""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from farhand_daemon.command_env import CommandEnvironment
from farhand_daemon.supervisor.records import ExitRecord, SpawnSpec
from tests.fakes.supervised_lab import PATH, Lab

SOON_MS = 5000


async def _run(lab: Lab, tmp_path: Path, *argv: str) -> tuple[ExitRecord, bytes]:
    """Run with the environment of a desktop's account, where something could put up a window."""
    hangs = tmp_path / "askpass"
    hangs.write_text("#!/bin/sh\nexec sleep 1000\n")
    hangs.chmod(0o755)
    environment = CommandEnvironment({b"PATH": PATH, b"DISPLAY": b":0"})
    environment._base |= {b"HOME": os.fsencode(tmp_path), b"SSH_ASKPASS": os.fsencode(hangs)}
    spec = SpawnSpec(
        argv=tuple(map(os.fsencode, argv)),
        env=environment.with_added([(b"LAB_MARK", lab.mark)], ()),
        cwd=os.fsencode(tmp_path),
    )
    record, _, stderr = await lab.run(spec)
    return record, stderr


def _wanted(record: ExitRecord, stderr: bytes) -> None:
    assert record.exit_code not in (None, 0), stderr
    assert record.wall_ms < SOON_MS
    assert [note.code for note in record.notes] == ["input_wanted"], stderr


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(
        b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\n"
        b"Content-Length: 0\r\nConnection: close\r\n\r\n"
    )
    await writer.drain()
    writer.close()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed here")
async def test_git_does_not_wait_for_a_user_name(lab: Lab, tmp_path: Path) -> None:
    async with await asyncio.start_server(_refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        record, stderr = await _run(
            lab, tmp_path, "git", "clone", f"http://127.0.0.1:{port}/private.git"
        )
    assert b"could not read Username" in stderr
    _wanted(record, stderr)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed here")
async def test_openssh_does_not_wait_for_a_passphrase(lab: Lab, tmp_path: Path) -> None:
    """Its programs ask by the same code; ssh itself would need a server that asks."""
    key = str(tmp_path / "key")
    record, _ = await _run(lab, tmp_path, "ssh-keygen", "-q", "-N", "secret", "-f", key)
    assert record.exit_code == 0
    record, stderr = await _run(lab, tmp_path, "ssh-keygen", "-y", "-f", key)
    assert record.exit_code not in (None, 0)
    assert record.wall_ms < SOON_MS, stderr


@pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH is not installed here")
async def test_ssh_does_not_wait_for_a_yes_to_an_unknown_host(lab: Lab, tmp_path: Path) -> None:
    """What answers is no ssh server: ssh may fail in any way, but it may not wait."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.9\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = str(server.sockets[0].getsockname()[1])
        record, stderr = await _run(lab, tmp_path, "ssh", "-p", port, "127.0.0.1", "true")
    assert record.exit_code == 255, stderr
    assert record.wall_ms < SOON_MS


@pytest.mark.skipif(shutil.which("sudo") is None, reason="sudo is not installed here")
@pytest.mark.skipif(os.geteuid() == 0, reason="root is not asked for a password")
async def test_sudo_does_not_wait_for_a_password(lab: Lab, tmp_path: Path) -> None:
    record, stderr = await _run(lab, tmp_path, "sudo", "-k", "true")
    _wanted(record, stderr)


async def test_what_reads_the_terminal_itself_finds_none(lab: Lab, tmp_path: Path) -> None:
    """How sudo, su and passwd ask; those are not on every computer that tests."""
    record, stderr = await _run(lab, tmp_path, "sh", "-c", "read answer < /dev/tty")
    assert record.exit_code not in (None, 0)
    assert b"/dev/tty" in stderr
    assert record.wall_ms < SOON_MS
