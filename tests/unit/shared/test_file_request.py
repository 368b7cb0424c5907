"""The body of an operation on a machine's files."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_shared.errors import InvalidInput
from farhand_shared.file_operation import (
    PutFile,
    ReadFile,
    WriteFile,
)
from farhand_shared.file_request import FileBody, decode_file_body, encode_file_body
from farhand_shared.limits import EXECUTION_TIMEOUT_MAX_MS
from tests.unit.shared.file_operations import operations, paths


@given(
    st.builds(
        FileBody,
        operation=operations,
        cwd=st.none() | paths,
        timeout_ms=st.integers(min_value=0, max_value=EXECUTION_TIMEOUT_MAX_MS),
        wait_offline=st.booleans(),
    )
)
def test_what_is_encoded_comes_back_byte_for_byte(body: FileBody) -> None:
    assert decode_file_body(encode_file_body(body)) == body


def test_text_is_itself_and_other_bytes_are_base64() -> None:
    body = FileBody(operation=WriteFile(path="grüße".encode(), data=b"\xff\x00"))
    value = json.loads(encode_file_body(body))
    assert (value["path"], value["content_base64"]) == ("grüße", "/wA=")
    assert "path_base64" not in value
    assert "content" not in value


def test_only_a_put_has_input() -> None:
    put = PutFile(path=b"a", size=1, sha256=hashlib.sha256(b"a").digest())
    assert FileBody(operation=put).spec.stdin
    assert not FileBody(operation=ReadFile(path=b"a")).spec.stdin


def _read(**fields: Any) -> dict[str, Any]:
    return {"operation": "read", "path": "a", **fields}


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ([], "object"),
        ({}, "operation is missing"),
        ({"operation": 5}, "operation is not text"),
        ({"operation": "chown", "path": "a"}, "'chown'"),
        ({"operation": "read"}, "path is missing"),
        (_read(path=""), "path is empty"),
        (_read(path="a\0b"), "path holds a NUL"),
        (_read(path=["a"]), "path is not text"),
        (_read(path="\udcff"), "path_base64"),
        (_read(path_base64="YQ=="), "given twice"),
        ({"operation": "read", "path_base64": "???"}, "path_base64 is not base64"),
        ({"operation": "read", "path_base64": 5}, "path_base64 is not base64"),
        (_read(offset=-1), "offset"),
        (_read(offset=True), "offset"),
        (_read(offset=1.5), "offset"),
        (_read(offset=1 << 63), "offset"),
        (_read(if_version=5), "if_version"),
        (_read(timeout_ms=-1), "timeout_ms"),
        (_read(wait_offline="yes"), "wait_offline"),
        (_read(cwd=""), "cwd is empty"),
        (_read(limit=5), "limit is not a field"),
        ({"operation": "list", "path": "a", "limit": 10_001}, "limit"),
        ({"operation": "search", "path": "a"}, "pattern is missing"),
        ({"operation": "search", "path": "a", "pattern": "b", "include": "*.py"}, "include"),
        (
            {"operation": "search", "path": "a", "pattern": "b", "include_base64": ["?"]},
            "include_base64 is not a list of base64",
        ),
        (
            {"operation": "search", "path": "a", "pattern": "b", "include_base64": {"YQ==": 1}},
            "include_base64 is not a list of base64",
        ),
        (
            {"operation": "search", "path": "a", "pattern": "b", "include_base64": ""},
            "include_base64 is not a list of base64",
        ),
        (
            {"operation": "search", "path": "a", "pattern": "b", "include": ["c"],
             "include_base64": ["YQ=="]},
            "include is given twice",
        ),
        ({"operation": "write", "path": "a"}, "content is missing"),
        ({"operation": "write", "path": "a", "content": "b", "expect": "none"}, "expect"),
        ({"operation": "write", "path": "a", "content": "b", "mode": "0999"}, "mode"),
        ({"operation": "write", "path": "a", "content": "b", "mode": "4755"}, "mode"),
        ({"operation": "write", "path": "a", "content": "b", "mode": 420}, "mode"),
        ({"operation": "edit", "path": "a", "edits": []}, "edits"),
        ({"operation": "edit", "path": "a", "edits": ["b"]}, "edits[0]"),
        ({"operation": "edit", "path": "a", "edits": [{"old": "", "new": "b"}]}, "edits[0].old"),
        ({"operation": "edit", "path": "a", "edits": [{"old": "b"}]}, "edits[0].new"),
        (
            {"operation": "edit", "path": "a", "edits": [{"old": "b", "new": "", "every": True}]},
            "edits[0].every",
        ),
        (
            {"operation": "edit", "path": "a", "edits": [{"old": "b", "new": "c"}],
             "expected_sha256": "beef"},
            "SHA-256",
        ),
        ({"operation": "put", "path": "a", "size": 1}, "sha256 is missing"),
        ({"operation": "put", "path": "a", "sha256": "0" * 64}, "size"),
        (
            {"operation": "put", "path": "a", "size": 1, "sha256": "0" * 64, "resume_offset": 2},
            "resume_offset",
        ),
        ({"operation": "move", "path": "a"}, "to is missing"),
    ],
)  # fmt: skip
def test_a_wrong_body_is_refused_by_the_name_of_its_field(value: Any, named: str) -> None:
    with pytest.raises(InvalidInput, match="cannot read the request") as caught:
        decode_file_body(json.dumps(value).encode())
    assert named in str(caught.value)
