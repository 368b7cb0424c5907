"""Operations on files as the OpenAPI document tells them: the framework does not know the route."""

from typing import Any, Final

from farhand_control_plane.api.exec_document import STREAM
from farhand_shared.file_operation import LIMIT_DEFAULT, LIMIT_MAX, FileErrorCode
from farhand_shared.limits import EXECUTION_TIMEOUT_DEFAULT_MS, EXECUTION_TIMEOUT_MAX_MS

_OPERATIONS: Final = (
    "stat", "list", "glob", "search", "read", "write", "edit", "put", "make_folder", "move",
    "remove",
)  # fmt: skip
_FLAG: Final = {"type": "boolean", "default": False}
_HASH: Final = {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}
_COUNT: Final = {"type": "integer", "minimum": 0, "default": 0}


def _bytes(what: str) -> dict[str, Any]:
    return {"type": "string", "description": what}


def _of(operations: str, what: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "description": f"{operations}: {what}"}


_BODY: Final[dict[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["operation"],
    "description": "Each operation takes its own fields and no others. What is bytes is given as "
    "text, or in base64 as NAME_base64 when it is not UTF-8.",
    "properties": {
        "operation": {"type": "string", "enum": list(_OPERATIONS)},
        "path": _bytes("absolute, or beneath cwd; within the machine's roots"),
        "path_base64": _bytes("path, when it is not UTF-8"),
        "cwd": _bytes("absent: the machine's first root"),
        "cwd_base64": _bytes("cwd, when it is not UTF-8"),
        "nofollow": _of("stat", "of a link, not of what it leads to", _FLAG),
        "put_sha256": _of("stat", "also how much of a put of this content is kept", _HASH),
        "hash_bytes": _of(
            "stat", "also the SHA-256 of so many of the first bytes; 0 means no", _COUNT
        ),
        "after": _bytes("list, glob: only what comes after this name"),
        "after_base64": _bytes("after, when it is not UTF-8"),
        "limit": _of(
            "list, glob, search",
            f"how many at most; 0 means {LIMIT_DEFAULT:,}",
            {**_COUNT, "maximum": LIMIT_MAX},
        ),
        "pattern": _bytes("glob: of paths, ** is any folders; search: a regular expression"),
        "pattern_base64": _bytes("pattern, when it is not UTF-8"),
        "all": _of("glob, search", "also .git and what .gitignore files leave out", _FLAG),
        "fixed": _of("search", "the pattern is plain text", _FLAG),
        "ignore_case": _of("search", "capital letters are no others", _FLAG),
        "include": _of(
            "search",
            "only in files that fit one of these",
            {"type": "array", "items": {"type": "string", "minLength": 1}},
        ),
        "include_base64": {
            "type": "array",
            "items": {"type": "string"},
            "description": "include, when one of them is not UTF-8",
        },
        "offset": _of("read", "the first byte", _COUNT),
        "length": _of("read", "how many bytes; 0 means to the end", _COUNT),
        "if_version": _of("read", "another version is refused as changed", {"type": "string"}),
        "content": _bytes("write: the whole file"),
        "content_base64": _bytes("content, when it is not UTF-8"),
        "expect": _of(
            "write, put",
            "what must be there: any, absent, or the SHA-256 of a file",
            {"type": "string", "default": "any"},
        ),
        "mode": _of(
            "write, put",
            "permissions in octal; absent: as they were",
            {"type": "string", "pattern": "^[0-7]{1,4}$"},
        ),
        "make_parents": _of("write, put", "make the folders above it too", _FLAG),
        "edits": _of(
            "edit",
            "in their order; all of them or none",
            {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "old": _bytes("must be there exactly once, unless all"),
                        "old_base64": _bytes("old, when it is not UTF-8"),
                        "new": _bytes("what takes its place"),
                        "new_base64": _bytes("new, when it is not UTF-8"),
                        "all": _FLAG,
                    },
                },
            },
        ),
        "expected_sha256": _of("edit, remove", "another content is refused as changed", _HASH),
        "size": _of("put", "of the whole file", {"type": "integer", "minimum": 0}),
        "sha256": _of("put", "of the whole file", _HASH),
        "resume_offset": _of("put", "the first byte of the input", _COUNT),
        "parents": _of("make_folder", "the folders above it too", _FLAG),
        "to": _bytes("move: the new path itself"),
        "to_base64": _bytes("to, when it is not UTF-8"),
        "replace": _of("move", "what is at the new path", _FLAG),
        "timeout_ms": {
            "type": "integer",
            "minimum": 0,
            "maximum": EXECUTION_TIMEOUT_MAX_MS,
            "default": EXECUTION_TIMEOUT_DEFAULT_MS,
            "description": "from its start; 0 means none",
        },
        "wait_offline": {
            **_FLAG,
            "description": "wait for a machine that is not there, instead of failing",
        },
    },
}

PATHS: Final[dict[str, dict[str, Any]]] = {
    "/v1/machines/{machine}/files": {
        "post": {
            "tags": ["commands"],
            "summary": "Do one operation on a machine's files and stream its answer",
            "description": "A command like any other: recorded, resumed by its attempt's output, "
            "stopped, and it goes on when the client goes away. Standard output is the data: a "
            "file's bytes, or lines of JSON (stat, list, glob, search). Standard error is one line "
            "of JSON: facts, or, with exit code 1, "
            '{"error": {"code", "message", …}} with one of the codes '
            f"{', '.join(code.value for code in FileErrorCode)}. A put takes its bytes as the "
            "command's input.",
            "operationId": "files",
            "parameters": [
                {
                    "name": "machine",
                    "in": "path",
                    "required": True,
                    "description": "name or id",
                    "schema": {"type": "string"},
                }
            ],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": _BODY}},
            },
            "responses": STREAM,
        }
    },
}
