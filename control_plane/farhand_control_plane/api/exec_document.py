"""The streamed routes as the OpenAPI document tells them: the framework does not know them."""

from typing import Any, Final

from farhand_control_plane.api.exec import EXEC_PATH
from farhand_shared.exec_frames import FrameKind
from farhand_shared.limits import EXECUTION_TIMEOUT_DEFAULT_MS, EXECUTION_TIMEOUT_MAX_MS

_CARRIES: Final = {
    FrameKind.ACCEPTED: 'JSON {"command_id", "attempt_id", "machine"}',
    FrameKind.STDOUT: "bytes as the command wrote them",
    FrameKind.STDERR: "bytes as the command wrote them",
    FrameKind.OMITTED: 'JSON {"stream", "offset", "length"}: bytes of that stream that are missing',
    FrameKind.STATE: 'JSON {"state", …}: queued, waiting for its machine, started',
    FrameKind.EXIT: 'JSON {"result", "committed"}',
    FrameKind.COMMITTED: "empty: the result is recorded",
    FrameKind.ERROR: 'JSON {"code", "message"}; nothing follows',
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
    "/v1/attempts/{attempt_id}/output": {
        "get": {
            "tags": ["commands"],
            "summary": "Stream an attempt's output from where the caller is to its end",
            "description": "Live while it runs, from the store afterwards.",
            "operationId": "follow_attempt",
            "parameters": [
                {
                    "name": "attempt_id",
                    "in": "path",
                    "required": True,
                    "schema": {"type": "string"},
                },
                _offset("stdout"),
                _offset("stderr"),
            ],
            "responses": STREAM,
        }
    },
}
