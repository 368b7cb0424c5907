"""``POST /v1/exec`` and an attempt's output over a real HTTP server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn

from farhand_control_plane.api.access import NotAuthenticated
from farhand_control_plane.api.exec import ExecApp
from farhand_control_plane.db.tokens import Caller
from farhand_control_plane.domain.access import Scope
from farhand_control_plane.domain.words import MemberRole
from farhand_shared.command import CommandSpec, Pty, Shell
from farhand_shared.exec_frames import FrameDecoder, FrameKind
from farhand_shared.exec_request import ExecBody, encode_exec_body
from farhand_shared.file_operation import ReadFile
from farhand_shared.file_request import FileBody, encode_file_body
from farhand_shared.ids import TokenId, new_id
from farhand_shared.link_events import Stream
from tests.fakes.fake_daemon import hold
from tests.fakes.fake_files import FakeFiles
from tests.fakes.machine_lab import Seen

_FILES = "/v1/machines/fake/files"
_READ = b'{"operation": "read", "path": "a b"}'


class Client:
    """One HTTP connection, read chunk by chunk."""

    def __init__(self, port, lab):
        self.port = port
        self.lab = lab
        self.writers = []

    async def send(self, method, path, body=b"", token="exec", declared=None):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(self.writer)
        self.writer.write(
            f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
            f"content-length: {declared or len(body)}\r\nconnection: close\r\n\r\n".encode()
            + body
        )
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        return int(head.split()[1])

    async def exec(self, script, machine="fake", **more):
        body = ExecBody(machine=machine, spec=CommandSpec(run=Shell(script=script)), **more)
        return await self.send("POST", "/v1/exec", encode_exec_body(body))

    async def frames(self, seen=None):
        seen, decoder = seen if seen is not None else Seen(), FrameDecoder()
        while size := int(await self.reader.readline(), 16):
            chunk = await self.reader.readexactly(size + 2)
            seen.frames += decoder.feed(chunk[:-2])
        return seen

    async def error(self):
        return json.loads(await self.reader.read())["error"]

    def close(self):
        self.writer.transport.abort()


@asynccontextmanager
async def serving(lab, replica, *, revoked=(), **more) -> AsyncIterator[Client]:
    async def authenticate(_method, headers):
        if headers.get("authorization") in revoked:
            raise NotAuthenticated("cannot answer: revoked")
        scopes = {
            "Bearer exec": {Scope.EXEC},
            "Bearer read": {Scope.READ},
        }.get(headers.get("authorization"))
        if scopes is None:
            raise NotAuthenticated("cannot answer: no token")
        return Caller(
            instance_id=lab.instance.instance_id,
            member_id=lab.instance.owner_member_id,
            role=MemberRole.OWNER,
            token_id=TokenId(new_id()),
            scopes=frozenset(scopes),
            machine_id=None,
            expires_at=None,
        )

    async def inner(scope, receive, send):
        await send({"type": "http.response.start", "status": 418, "headers": []})
        await send({"type": "http.response.body", "body": b"inner"})

    app = ExecApp(inner, authenticate=authenticate, execs=replica.execs, **more)
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_level="warning", lifespan="off", access_log=False)
    )
    task = asyncio.create_task(server.serve())
    await lab.sees(lambda: server.started)
    client = Client(server.servers[0].sockets[0].getsockname()[1], lab)
    try:
        yield client
    finally:
        for writer in client.writers:
            writer.transport.abort()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
        server.should_exit = True
        await task


async def test_the_body_is_streamed_while_the_command_runs(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica), serving(lab, replica) as client:
        assert await client.exec(b"long \xff") == 200
        seen = Seen()
        reading = asyncio.create_task(client.frames(seen))
        await lab.sees(lambda: machine.starts)
        (job,) = machine.jobs.values()
        assert job.spec.run == Shell(script=b"long \xff")
        job.write(b"live\0\xfe")
        await lab.sees(lambda: seen.bytes_of() == b"live\0\xfe")
        job.end(5)
        await reading
    assert seen.one(FrameKind.EXIT)["result"]["exit_code"] == 5
    assert seen.kinds[-1] is FrameKind.COMMITTED


async def test_a_revoked_caller_reads_no_further_and_the_command_goes_on(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    revoked = set()
    async with (
        lab.daemon(machine, replica),
        serving(lab, replica, revoked=revoked, check_again_s=0) as client,
    ):
        await client.exec(b"long")
        seen = Seen()
        reading = asyncio.create_task(client.frames(seen))
        await lab.sees(lambda: machine.starts)
        (job,) = machine.jobs.values()
        job.write(b"before")
        await lab.sees(lambda: seen.bytes_of() == b"before")
        revoked.add("Bearer exec")
        job.write(b"after")
        await reading
        assert seen.bytes_of() == b"before"
        assert seen.one(FrameKind.ERROR)["code"] == "not_authenticated"
        assert seen.kinds[-1] is FrameKind.ERROR
        # Whoever is allowed finds the rest.
        path = f"/v1/attempts/{seen.attempt_id}/output?stdout=6&stderr=0"
        assert await client.send("GET", path, token="read") == 200
        assert not job.cancelled.is_set()
        job.end()
        rest = await client.frames()
    assert rest.bytes_of() == b"after"


async def test_a_cut_body_is_resumed_from_offsets(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica), serving(lab, replica) as client:
        await client.exec(b"long")
        seen = Seen()
        reading = asyncio.create_task(client.frames(seen))
        await lab.sees(lambda: machine.starts)
        (job,) = machine.jobs.values()
        job.write(b"0123456789")
        await lab.sees(lambda: seen.bytes_of() == b"0123456789")
        reading.cancel()
        client.close()
        # The follower of a client that went away is let go; the command is not.
        held = replica.hub.run(seen.attempt_id)
        await lab.sees(lambda: not held[1].readers)
        assert not job.cancelled.is_set()
        # By now memory has let the bytes go: they come from the store.
        await lab.sees(lambda: held[1].streams[Stream.STDOUT].acked == 10)
        path = f"/v1/attempts/{seen.attempt_id}/output?stdout=4&stderr=0"
        assert await client.send("GET", path) == 200
        rest = Seen()
        reading = asyncio.create_task(client.frames(rest))
        await lab.sees(lambda: rest.bytes_of() == b"456789")
        job.end()
        await reading
    assert rest.bytes_of() == b"456789"
    assert rest.one(FrameKind.EXIT)["result"]["exit_code"] == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "token", "status", "code"),
    [
        ("POST", "/v1/exec", b"{}", "none", 401, "not_authenticated"),
        ("POST", "/v1/exec", b"{}", "read", 403, "not_allowed"),
        ("POST", "/v1/exec", b"not json", "exec", 400, "invalid_input"),
        ("POST", "/v1/exec", b'{"machine": "x", "script": "y"}', "exec", 404, "not_found"),
        ("POST", "/v1/exec", b'{"machine": "fake", "script": "y"}', "exec", 503, "machine_offline"),
        ("POST", "/v1/exec", b'{"machine": "\\u0000", "script": ""}', "exec", 404, "not_found"),
        ("POST", _FILES, _READ, "none", 401, "not_authenticated"),
        ("POST", _FILES, _READ, "read", 403, "not_allowed"),
        ("POST", _FILES, b"not json", "exec", 400, "invalid_input"),
        ("POST", _FILES, b'{"operation": "read"}', "exec", 400, "invalid_input"),
        ("POST", _FILES, _READ, "exec", 503, "machine_offline"),
        ("POST", "/v1/machines/elsewhere/files", _READ, "exec", 404, "not_found"),
        ("POST", "/v1/machines/%00/files", _READ, "exec", 404, "not_found"),
        ("GET", "/v1/attempts/nonsense/output", b"", "exec", 404, "not_found"),
        (
            "GET",
            "/v1/attempts/01a22e39-1983-7cba-bf26-ee61ce1306ca/output",
            b"",
            "exec",
            404,
            "not_found",
        ),
        (
            "GET",
            "/v1/attempts/01a22e39-1983-7cba-bf26-ee61ce1306ca/output?stdout=-1",
            b"",
            "exec",
            400,
            "invalid_input",
        ),
        (
            "GET",
            "/v1/attempts/01a22e39-1983-7cba-bf26-ee61ce1306ca/output",
            b"",
            "read",
            404,
            "not_found",
        ),
    ],
)
async def test_errors_before_the_first_frame_are_plain(
    lab, method, path, body, token, status, code
):
    replica = await lab.replica()
    await lab.machine(replica)
    async with serving(lab, replica) as client:
        assert await client.send(method, path, body, token) == status
        error = await client.error()
    assert error["code"] == code
    assert error["message"].startswith("cannot ")
    assert await lab.sql("select 1 from commands") == []


async def test_an_operation_on_files_is_a_command_with_its_own_title(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = FakeFiles({b"caf\xe9 a": b"\xff\0there"})
    path = f"/v1/machines/{machine.machine_id}/files"
    body = FileBody(operation=ReadFile(path=b"caf\xe9 a", offset=1))
    async with lab.daemon(machine, replica), serving(lab, replica) as client:
        assert await client.send("POST", path, encode_file_body(body)) == 200
        seen = await client.frames()
        # The attempt's output resumes it as it does any other.
        path = f"/v1/attempts/{seen.attempt_id}/output?stdout=3&stderr=0"
        assert await client.send("GET", path) == 200
        rest = await client.frames()
    assert seen.bytes_of() == b"\0there"
    assert rest.bytes_of() == b"ere"
    assert json.loads(seen.bytes_of(FrameKind.STDERR))["sent"] == 6
    assert seen.one(FrameKind.EXIT)["result"]["exit_code"] == 0
    view = await lab.view(seen.command_id)
    assert (view.title, view.operation) == ("read caf\\xe9 a", "read")


async def test_an_operation_waits_for_its_machine_when_asked_to(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = FakeFiles({b"a": b"there"})
    body = FileBody(operation=ReadFile(path=b"a"), wait_offline=True)
    async with serving(lab, replica) as client:
        assert await client.send("POST", _FILES, encode_file_body(body)) == 200
        seen = Seen()
        reading = asyncio.create_task(client.frames(seen))
        await lab.sees(lambda: FrameKind.STATE in seen.kinds)
        assert seen.one(FrameKind.STATE)["waiting_for"] == "fake"
        async with lab.daemon(machine, replica):
            await reading
    assert seen.bytes_of() == b"there"


@pytest.mark.parametrize("online", [True, False])
async def test_a_daemon_that_knows_no_files_is_not_asked(lab, online):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.capability = 2
    body = encode_file_body(FileBody(operation=ReadFile(path=b"a"), wait_offline=True))
    async with serving(lab, replica) as client:
        async with lab.daemon(machine, replica):
            if online:
                assert await client.send("POST", _FILES, body) == 409
        if not online:
            assert await client.send("POST", _FILES, body) == 409
        error = await client.error()
    assert error["code"] == "machine_too_old"
    assert error["message"] == (
        "cannot work on files: fake runs daemon fake, which cannot do that; update it"
    )
    assert machine.starts == []
    assert await lab.sql("select 1 from commands") == []


async def test_a_three_megabyte_command_is_carried_whole(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    script = b"\xff" * 3_000_000
    async with lab.daemon(machine, replica), serving(lab, replica) as client:
        assert await client.exec(script) == 200
        seen = await client.frames()
    (job,) = machine.jobs.values()
    assert job.spec.run == Shell(script=script)
    assert seen.kinds[-1] is FrameKind.COMMITTED
    assert len((await lab.view(seen.command_id)).title) == 300


async def test_a_command_too_large_to_carry_names_its_size_and_the_limit(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica), serving(lab, replica) as client:
        assert await client.exec(b"x" * 7_000_000) == 413
        error = await client.error()
    assert "7,000,0" in error["message"]
    assert "6,291,456" in error["message"]
    assert machine.starts == []


async def test_a_body_that_does_not_come_in_time_is_not_waited_for(lab):
    replica = await lab.replica()
    async with serving(lab, replica, body_within_s=0.1) as client:
        for token, status, code in [
            ("exec", 408, "request_timeout"),
            ("none", 401, "not_authenticated"),  # before the body is looked at
        ]:
            assert await client.send("POST", "/v1/exec", b'{"a', token, declared=100_000) == status
            assert (await client.error())["code"] == code
    assert await lab.sql("select 1 from commands") == []


async def test_other_paths_go_to_the_inner_application(lab):
    replica = await lab.replica()
    async with serving(lab, replica) as client:
        for method, path in [("GET", "/v1/exec"), ("GET", "/v1/attempts"), ("POST", "/v1/chat")]:
            assert await client.send(method, path) == 418


async def test_what_a_command_reads_is_posted_to_it(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica), serving(lab, replica) as client:
        seen, task = await lab.start(replica, "fake", "cat", pty=Pty(rows=24, columns=80))
        await lab.sees(lambda: machine.starts)
        (job,) = machine.jobs.values()
        path = f"/v1/attempts/{seen.attempt_id}/input?writer={new_id()}"

        async def post(more, body=b"", **how):
            status = await client.send("POST", path + more, body, **how)
            return status, json.loads(await client.reader.read())

        raw = bytes(range(256))
        assert await post("&offset=0&rows=50&columns=132", raw) == (
            200,
            {"accepted": 256, "taken": 0, "ended": False, "closed": False},
        )
        await lab.sees(lambda: bytes(job.read) == raw and job.size == (50, 132))
        assert (await post("&offset=256&end=true"))[1]["ended"]
        await lab.sees(lambda: job.input_closed)
        other = f"/v1/attempts/{seen.attempt_id}/input?offset=0&writer={new_id()}"
        status = await client.send("POST", other, b"x")
        assert (status, (await client.error())["code"]) == (409, "input_held")
        for more, body, status in (
            ("&offset=-1", b"", 400),
            ("&offset=" + "9" * 30, b"", 400),
            ("", b"bytes without an offset", 400),
            ("&rows=5", b"", 400),
            ("&writer=me", b"", 400),
            ("&offset=0", bytes(1 << 20) + b"x", 413),
        ):
            assert (await post(more, body))[0] == status, more
        assert (await post("&offset=0", token="read"))[0] == 403
        assert (await post("&offset=0", token="nobody"))[0] == 401
        path = f"/v1/attempts/{new_id()}/input?writer={new_id()}"
        assert (await post("&offset=0"))[0] == 404
        path = f"/v1/attempts/none/input?writer={new_id()}"
        assert (await post("&offset=0"))[0] == 404
        job.end()
        await task


async def test_a_command_is_followed_by_its_own_id_and_says_what_it_reads(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica), serving(lab, replica) as client:
        for spec, kind in (
            ({}, "none"),
            ({"stdin": True}, "pipe"),
            ({"pty": Pty(rows=1, columns=1)}, "terminal"),
        ):
            started = await lab.exec(replica, "fake", "echo", "hi", **spec)
            path = f"/v1/commands/{started.command_id}/output"
            assert await client.send("GET", path, token="read") == 200
            seen = await client.frames()
            assert seen.bytes_of() == b"hi\n"
            assert seen.one(FrameKind.ACCEPTED)["input"] == kind
            assert seen.attempt_id == started.attempt_id
        assert await client.send("GET", f"/v1/commands/{new_id()}/output") == 404
        assert await client.send("GET", "/v1/commands/none/output") == 404
