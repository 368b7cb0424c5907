"""The streamed routes: ``POST /v1/exec``, operations on files, ``GET /v1/attempts/{id}/output``.

Raw ASGI beside the API's framework, whose routing, validation and response cost as much as the
whole path of a short command.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import parse_qs

from farhand_control_plane.api import files
from farhand_control_plane.api.access import Authenticate, check_any
from farhand_control_plane.api.failures import failure_of, our_fault
from farhand_control_plane.api.input import InputRoute, byte_offset
from farhand_control_plane.api.request_body import BODY_WITHIN_S, read_body
from farhand_control_plane.api.request_headers import headers_of
from farhand_control_plane.db.tokens import Caller
from farhand_control_plane.domain.access import Scope as TokenScope
from farhand_control_plane.machines.execs import ExecRequest, Execs
from farhand_control_plane.machines.following import Chunk
from farhand_shared.errors import FarhandError, NotAllowed, NotFound
from farhand_shared.exec_frames import FrameKind, encode_json_frame
from farhand_shared.exec_request import decode_exec_body
from farhand_shared.ids import AttemptId, CommandId, is_id
from farhand_shared.limits import MIB

# As ASGI types them: messages are open mappings.
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
_Frames = AsyncGenerator[Chunk, None]

EXEC_PATH: Final = "/v1/exec"
BODY_MAX_BYTES: Final = 24 * MIB  # a specification of 6 MiB with every byte escaped, and some room
_ATTEMPTS: Final = "/v1/attempts/"
_COMMANDS: Final = "/v1/commands/"  # the same, of a command's attempt
_OUTPUT: Final = "/output"
_INPUT: Final = "/input"
_WATCH_AFTER_S: Final = 0.5
CHECK_AGAIN_S: Final = 10.0  # so long a revoked token or signed-out browser may go on reading
_HEADERS: Final = [(b"content-type", b"application/octet-stream"), (b"cache-control", b"no-store")]


class ExecApp:
    """Serves its routes and hands everything else to ``inner``."""

    def __init__(
        self,
        inner: App,
        *,
        authenticate: Authenticate,
        execs: Execs,
        body_within_s: float = BODY_WITHIN_S,
        check_again_s: float = CHECK_AGAIN_S,
    ) -> None:
        self._inner = inner
        self._authenticate = authenticate
        self._execs = execs
        self._input = InputRoute(
            authenticate=authenticate, inputs=execs.inputs, body_within_s=body_within_s
        )
        self._body_within_s = body_within_s
        self._check_again_s = check_again_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path, method = scope["path"], scope["method"]
            if path == EXEC_PATH and method == "POST":
                await self._answer(self._exec(scope, receive), scope, receive, send)
                return
            if method == "POST" and (machine := files.machine_of(path)) is not None:
                await self._answer(self._files(scope, receive, machine), scope, receive, send)
                return
            if method == "POST" and path.startswith(_ATTEMPTS) and path.endswith(_INPUT):
                attempt_id = path[len(_ATTEMPTS) : -len(_INPUT)]
                await self._input.answer(attempt_id, scope, receive, send)
                return
            if method == "GET" and path.endswith(_OUTPUT):
                for prefix in (_ATTEMPTS, _COMMANDS):
                    if path.startswith(prefix):
                        frames = self._output(scope, prefix, path[len(prefix) : -len(_OUTPUT)])
                        await self._answer(frames, scope, receive, send)
                        return
        await self._inner(scope, receive, send)

    async def _exec(self, scope: Scope, receive: Receive) -> _Frames:
        caller = await self._caller(scope, TokenScope.EXEC)
        body = decode_exec_body(await self._body(receive))
        return await self._execs.run(
            ExecRequest(
                instance_id=caller.instance_id,
                member_id=caller.member_id,
                machine=body.machine,
                spec=body.spec,
                wait_offline=body.wait_offline,
            )
        )

    async def _files(self, scope: Scope, receive: Receive, machine: str) -> _Frames:
        caller = await self._caller(scope, TokenScope.EXEC)
        return await self._execs.run(files.request_of(caller, machine, await self._body(receive)))

    async def _body(self, receive: Receive) -> bytes:
        return await read_body(receive, limit_bytes=BODY_MAX_BYTES, within_s=self._body_within_s)

    async def _output(self, scope: Scope, prefix: str, wanted_id: str) -> _Frames:
        # Whoever may read sees the same as text in /v1/commands; the machine must be their own.
        caller = await self._caller(scope, TokenScope.EXEC, TokenScope.READ)
        if not is_id(wanted_id):
            raise NotFound("cannot follow the command: there is none of that id")
        attempt_id, kind = AttemptId(wanted_id), None
        if prefix == _COMMANDS:
            attempt_id, kind = await self._execs.attempt_of(
                caller.instance_id, CommandId(wanted_id)
            )
        query = parse_qs(scope.get("query_string", b"").decode("ascii", "replace"))
        return await self._execs.follow(
            caller.instance_id,
            caller.member_id,
            attempt_id,
            stdout_offset=byte_offset(query, "stdout"),
            stderr_offset=byte_offset(query, "stderr"),
            input_kind=kind,
        )

    async def _caller(self, scope: Scope, *scopes: TokenScope) -> Caller:
        caller = await self._authenticate(scope["method"], headers_of(scope["headers"]))
        check_any(caller, scopes)
        return caller

    async def _see_still_allowed(self, scope: Scope) -> None:
        """Raise NotAllowed when what the request presents opens nothing any more."""
        try:
            await self._authenticate(scope["method"], headers_of(scope["headers"]))
        except NotAllowed:
            raise
        except FarhandError:
            return  # the database is away; what a machine writes now need not wait for it

    async def _answer(
        self, opening: Awaitable[_Frames], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Stream the frames; an error while they are opened is an ordinary API error.

        A client that goes away ends the answer, never the command; so does a revocation.
        """
        started = False
        gone = _Disconnect(receive)
        now = asyncio.get_running_loop().time
        checked_at = now()
        try:
            async with aclosing(await opening) as frames:
                # The head goes out while the command runs: nobody waits for it then.
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                started = True
                gone.watch()
                async for chunk, is_last in frames:
                    if now() - checked_at > self._check_again_s:
                        await self._see_still_allowed(scope)
                        checked_at = now()
                    await send(
                        {"type": "http.response.body", "body": chunk, "more_body": not is_last}
                    )
        except FarhandError as error:
            if not started:
                await failure_of(error)(scope, receive, send)
                return
            frame = encode_json_frame(FrameKind.ERROR, {"code": error.code, "message": str(error)})
            await send({"type": "http.response.body", "body": frame})
        except asyncio.CancelledError:
            if not gone.seen:
                raise
        except Exception as error:  # our own fault: told as every other route tells it
            fault = our_fault(scope["method"], scope["path"], error)
            if not started:
                await fault(scope, receive, send)
                return
            frame = encode_json_frame(FrameKind.ERROR, json.loads(bytes(fault.body))["error"])
            await send({"type": "http.response.body", "body": frame})
        finally:
            gone.close()


class _Disconnect:
    """Cancels the answering task when its client goes away.

    A short command must not pay for a task of its own, so watching begins a little later.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self.seen = False

    def watch(self) -> None:
        answering = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(_WATCH_AFTER_S, self._begin, answering)

    def _begin(self, answering: asyncio.Task[Any] | None) -> None:
        if answering is None:
            return
        self._task = asyncio.create_task(self._wait(answering), name="client-gone")

    async def _wait(self, answering: asyncio.Task[Any]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue
        self.seen = True
        answering.cancel()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None and not self.seen:
            self._task.cancel()
