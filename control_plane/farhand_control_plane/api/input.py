"""``POST /v1/attempts/{id}/input``: what a command reads, and the size of its terminal.

Raw ASGI beside the API's framework, as ``exec``: a key that is pressed is one such request.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qs

from farhand_control_plane.api.access import Authenticate, check_any
from farhand_control_plane.api.failures import failure_of, our_fault
from farhand_control_plane.api.request_body import Message, Receive, read_body
from farhand_control_plane.api.request_headers import headers_of
from farhand_control_plane.domain.access import Scope as TokenScope
from farhand_control_plane.machines.input_buffer import InputRequest, InputState
from farhand_control_plane.machines.inputs import Inputs
from farhand_shared.errors import FarhandError, InvalidInput, NotFound
from farhand_shared.ids import AttemptId, is_id
from farhand_shared.limits import INPUT_WINDOW_BYTES

# As ASGI types them: messages are open mappings.
Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

_OFFSET_DIGITS: Final = 18
_WHERE_MAX: Final = 64  # characters
_HEADERS: Final = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))


class InputRoute:
    """Answers one request about a command's input."""

    def __init__(self, *, authenticate: Authenticate, inputs: Inputs, body_within_s: float) -> None:
        self._authenticate = authenticate
        self._inputs = inputs
        self._body_within_s = body_within_s

    async def answer(self, attempt_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            state = await self._write(scope, receive, attempt_id)
        except FarhandError as error:
            await failure_of(error)(scope, receive, send)
            return
        except Exception as error:  # our own fault: told as every other route tells it
            await our_fault(scope["method"], scope["path"], error)(scope, receive, send)
            return
        body = _json(state)
        headers = [*_HEADERS, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _write(self, scope: Scope, receive: Receive, attempt_id: str) -> InputState:
        caller = await self._authenticate(scope["method"], headers_of(scope["headers"]))
        check_any(caller, (TokenScope.EXEC,))
        if not is_id(attempt_id):
            raise NotFound("cannot write to the command: there is none of that id")
        query = parse_qs(scope.get("query_string", b"").decode("ascii", "replace"))
        writer_id = _one(query, "writer")
        if not is_id(writer_id):
            raise InvalidInput(
                "cannot write to the command: writer is not an id of your own making"
            )
        data = await read_body(
            receive, limit_bytes=INPUT_WINDOW_BYTES, within_s=self._body_within_s
        )
        offset = byte_offset(query, "offset") if "offset" in query else None
        if offset is None and (data or _one(query, "end")):
            raise InvalidInput("cannot write to the command: offset is missing")
        return await self._inputs.write(
            InputRequest(
                instance_id=caller.instance_id,
                member_id=caller.member_id,
                attempt_id=AttemptId(attempt_id),
                writer_id=writer_id,
                where="".join(c for c in _one(query, "where") if c.isprintable())[:_WHERE_MAX],
                offset=offset,
                data=data,
                end=_one(query, "end") == "true",
                take=_one(query, "take") == "true",
                size=_size(query),
            )
        )


def byte_offset(query: Mapping[str, list[str]], name: str) -> int:
    """Return an offset of the query, 0 when it is absent."""
    text = query.get(name, ["0"])[-1]
    if not text.isdecimal() or len(text) > _OFFSET_DIGITS:
        raise InvalidInput(f"cannot use {name}={text[:40]!r}: it is no byte offset")
    return int(text)


def _one(query: Mapping[str, list[str]], name: str) -> str:
    return query.get(name, [""])[-1]


def _size(query: Mapping[str, list[str]]) -> tuple[int, int] | None:
    rows, columns = _one(query, "rows"), _one(query, "columns")
    if not rows and not columns:
        return None
    if not all(text.isdecimal() and len(text) <= 5 for text in (rows, columns)):
        raise InvalidInput("cannot resize the terminal: rows and columns are numbers, both given")
    return int(rows), int(columns)


def _json(state: InputState) -> bytes:
    return json.dumps(
        {
            "accepted": state.accepted,
            "taken": state.taken,
            "ended": state.ended,
            "closed": state.closed,
        }
    ).encode()
