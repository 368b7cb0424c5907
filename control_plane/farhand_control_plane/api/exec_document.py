"""The streamed routes as the OpenAPI document tells them: the framework does not know them."""

from typing import Any, Final

from farhand_control_plane.api.exec import EXEC_PATH
from farhand_shared.exec_frames import FrameKind
from farhand_shared.limits import (
    EXECUTION_TIMEOUT_DEFAULT_MS,
    EXECUTION_TIMEOUT_MAX_MS,
    INPUT_WINDOW_BYTES,
    LIMIT_COUNT_MAX,
    LIMIT_MEMORY_MAX_BYTES,
)

_CARRIES: Final = {
    FrameKind.ACCEPTED: 'JSON {"command_id", "attempt_id", "machine"}',
    FrameKind.STDOUT: "bytes as the command wrote them",
    FrameKind.STDERR: "bytes as the command wrote them",
    FrameKind.OMITTED: 'JSON {"stream", "offset", "length"}: bytes of that stream that are missing',
    FrameKind.STATE: 'JSON {"state", …}: queued, waiting for its machine, started',
    FrameKind.EXIT: 'JSON {"result", "committed"}',
    FrameKind.COMMITTED: "empty: the result is recorded",
    FrameKind.ERROR: 'JSON {"code", "message"}; nothing follows',
    FrameKind.HINT: 'JSON {"hint", …}: waits_for_input, when it writes nothing and somebody seems '
    "to have to type",
}
_FRAMES: Final = (
    "Frames, one after another: kind (1 byte), length (4 bytes, big-endian), that many bytes. "
    "An unknown kind is to be left out. "
    + "; ".join(f"{kind.value} {kind.name.lower()}: {text}" for kind, text in _CARRIES.items())
    + "."
)
STREAM: Final[dict[str, Any]] = {
    "200": {
        "description": _FRAMES,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def _offset(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": f"bytes of {name} that the caller has: the stream goes on after them",
        "schema": {"type": "integer", "minimum": 0, "default": 0},
    }


def _id(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query(
    name: str, schema: dict[str, Any], description: str, *, required: bool = True
) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": description,
        "schema": schema,
    }


_INPUT_STATE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["accepted", "taken", "ended", "closed"],
    "properties": {
        "accepted": {"type": "integer", "description": "bytes: send on from here"},
        "taken": {"type": "integer", "description": "bytes: the command has these"},
        "ended": {"type": "boolean", "description": "its end was accepted"},
        "closed": {"type": "boolean", "description": "the command takes no more"},
    },
}
_BYTES: Final = {
    "type": "string",
    "description": "bytes as UTF-8 text; a byte that is not UTF-8 is the lone surrogate U+DC80 to "
    "U+DCFF, written as its escape",
}
_BODY: Final[dict[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["machine"],
    "description": "give either argv or script",
    "properties": {
        "machine": {"type": "string", "description": "name or id"},
        "argv": {"type": "array", "minItems": 1, "items": _BYTES},
        "script": {**_BYTES, "description": f"one /bin/sh -c string; {_BYTES['description']}"},
        "cwd": {
            **_BYTES,
            "description": f"absent: the machine's first root; {_BYTES['description']}",
        },
        "env": {"type": "object", "additionalProperties": _BYTES},
        "timeout_ms": {
            "type": "integer",
            "minimum": 0,
            "maximum": EXECUTION_TIMEOUT_MAX_MS,
            "default": EXECUTION_TIMEOUT_DEFAULT_MS,
            "description": "from its start; 0 means none",
        },
        "limits": {
            "type": "object",
            "additionalProperties": False,
            "description": "what it may use with all that it starts; absent or 0: no limit but the "
            "machine's own",
            "properties": {
                "memory_bytes": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": LIMIT_MEMORY_MAX_BYTES,
                },
                "processes": {"type": "integer", "minimum": 0, "maximum": LIMIT_COUNT_MAX},
                "open_files": {"type": "integer", "minimum": 0, "maximum": LIMIT_COUNT_MAX},
            },
        },
        "stdin": {
            "type": "boolean",
            "default": False,
            "description": "it reads what is posted to its attempt's input; else nothing",
        },
        "pty": {
            "type": "object",
            "additionalProperties": False,
            "required": ["rows", "columns"],
            "description": "give it a terminal: both outputs are one, and it takes input",
            "properties": {
                "rows": {"type": "integer", "minimum": 1, "maximum": 65535},
                "columns": {"type": "integer", "minimum": 1, "maximum": 65535},
                "term": {**_BYTES, "description": f"its TERM; {_BYTES['description']}"},
            },
        },
        "wait_offline": {
            "type": "boolean",
            "default": False,
            "description": "wait for a machine that is not there, instead of failing",
        },
    },
}

PATHS: Final[dict[str, dict[str, Any]]] = {
    EXEC_PATH: {
        "post": {
            "tags": ["commands"],
            "summary": "Run one command and stream what it writes",
            "description": "A client that goes away ends the answer, never the command.",
            "operationId": "exec",
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": _BODY}},
            },
            "responses": STREAM,
        }
    },
    "/v1/commands/{command_id}/output": {
        "get": {
            "tags": ["commands"],
            "summary": "Stream a command's output from where the caller is to its end",
            "description": "As of its attempt; ACCEPTED also says what it reads: "
            '"input": "none", "pipe" or "terminal".',
            "operationId": "follow_command",
            "parameters": [_id("command_id"), _offset("stdout"), _offset("stderr")],
            "responses": STREAM,
        }
    },
    "/v1/attempts/{attempt_id}/input": {
        "post": {
            "tags": ["commands"],
            "summary": "Give a command its next input, and say how large its terminal's window is",
            "description": "Answered when all of it is accepted, when the command takes no more, "
            "or after ten seconds with what was accepted: send on from there. Without a body: when "
            "all below offset is taken. Keep bytes until they are taken; sent again they count "
            "once. One writer holds the input, others are answered 409 input_held.",
            "operationId": "write_input",
            "parameters": [
                _id("attempt_id"),
                _query("writer", {"type": "string"}, "an id (UUID) of the writer's own making"),
                _query(
                    "offset", {"type": "integer", "minimum": 0}, "of the first byte", required=False
                ),
                _query("end", {"type": "boolean"}, "nothing follows", required=False),
                _query("take", {"type": "boolean"}, "take the input over", required=False),
                _query("rows", {"type": "integer"}, "of the window", required=False),
                _query("columns", {"type": "integer"}, "of the window", required=False),
                _query(
                    "where", {"type": "string"}, "the writer's computer, for others", required=False
                ),
            ],
            "requestBody": {
                "required": False,
                "description": f"up to {INPUT_WINDOW_BYTES:,} bytes; a quarter of that is best",
                "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
                },
            },
            "responses": {
                "200": {
                    "description": "how far its input has come",
                    "content": {"application/json": {"schema": _INPUT_STATE}},
                }
            },
        }
    },
    "/v1/attempts/{attempt_id}/output": {
        "get": {
            "tags": ["commands"],
            "summary": "Stream an attempt's output from where the caller is to its end",
            "description": "Live while it runs, from the store afterwards.",
            "operationId": "follow_attempt",
            "parameters": [
                _id("attempt_id"),
                _offset("stdout"),
                _offset("stderr"),
            ],
            "responses": STREAM,
        }
    },
}
