"""The body of a direct command."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_shared.command import Argv, CommandSpec, Limits, Pty, Shell
from farhand_shared.errors import InvalidInput
from farhand_shared.exec_request import ExecBody, decode_exec_body, encode_exec_body
from farhand_shared.limits import EXECUTION_TIMEOUT_MAX_MS

_RUNS = st.one_of(
    st.builds(Shell, script=st.binary()),
    st.builds(Argv, argv=st.lists(st.binary(), min_size=1, max_size=4).map(tuple)),
)
_SPECS = st.builds(
    CommandSpec,
    run=_RUNS,
    cwd=st.none() | st.binary(),
    env=st.dictionaries(st.binary(), st.binary(), max_size=3).map(lambda d: tuple(d.items())),
    execution_timeout_ms=st.integers(min_value=0, max_value=EXECUTION_TIMEOUT_MAX_MS),
    stdin=st.booleans(),
    pty=st.none()
    | st.builds(Pty, rows=st.integers(1, 65_535), columns=st.integers(1, 65_535), term=st.binary()),
    limits=st.just(Limits())
    | st.builds(
        Limits,
        memory_bytes=st.integers(4 << 20, 1 << 40),
        processes=st.integers(1, 4096),
        open_files=st.just(0) | st.integers(32, 4096),
    ),
    grace_ms=st.just(CommandSpec(run=Shell(script=b"")).grace_ms),  # the server's, not the client's
)


@given(st.builds(ExecBody, machine=st.text(min_size=1), spec=_SPECS, wait_offline=st.booleans()))
def test_what_is_encoded_comes_back_byte_for_byte(body: ExecBody) -> None:
    assert decode_exec_body(encode_exec_body(body)) == body


def test_ordinary_text_is_itself_in_the_body() -> None:
    body = ExecBody(machine="dev", spec=CommandSpec(run=Argv(argv=(b"echo", "grüße".encode()))))
    assert json.loads(encode_exec_body(body))["argv"] == ["echo", "grüße"]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b'{"machine": "dev", "script": "a", "stdin": 1}', "stdin"),
        (b'{"machine": "dev", "script": "a", "pty": true}', "pty"),
        (b'{"machine": "dev", "script": "a", "pty": {"rows": 24}}', "pty.columns"),
        (b'{"machine": "dev", "script": "a", "pty": {"rows": 0, "columns": 9}}', "pty.rows"),
        (b"\xff", "JSON"),
        (b"[]", "object"),
        (b"{}", "machine"),
        (b'{"machine": "dev"}', "either argv or script"),
        (b'{"machine": "dev", "argv": ["a"], "script": "b"}', "either argv or script"),
        (b'{"machine": "dev", "argv": []}', "argv"),
        (b'{"machine": "dev", "argv": ["a", 1]}', "argv[1]"),
        (b'{"machine": "dev", "script": "\\ud800"}', "script"),
        (b'{"machine": "dev", "script": "a", "timeout_ms": true}', "timeout_ms"),
        (b'{"machine": "dev", "script": "a", "timeout_ms": -1}', "timeout_ms"),
        (b'{"machine": "dev", "script": "a", "env": []}', "env"),
        (b'{"machine": "dev", "script": "a", "cwd": 5}', "cwd"),
        (b'{"machine": "dev", "script": "a", "wait_offline": 1}', "wait_offline"),
        (b'{"machine": "dev", "script": "a", "tty": true}', "tty"),
        (b'{"machine": "dev", "script": "a", "limits": 5}', "limits"),
        (b'{"machine": "dev", "script": "a", "limits": {"cpus": 5}}', "cpus"),
        (b'{"machine": "dev", "script": "a", "limits": {"processes": true}}', "limits.processes"),
    ],
)
def test_a_wrong_body_is_refused_by_the_name_of_its_field(content: bytes, named: str) -> None:
    with pytest.raises(InvalidInput, match="cannot read the request") as caught:
        decode_exec_body(content)
    assert named in str(caught.value)
