"""Every file operation reaches its process as it was, byte for byte."""

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_daemon.file_argv import pack, unpack
from farhand_daemon.files import process
from farhand_daemon.supervisor import wire
from farhand_shared import codec_file
from farhand_shared.file_operation import FileOperation
from tests.unit.shared.file_operations import operations


def as_json_has_it(value: Any) -> Any:
    """Tuples come as lists."""
    if isinstance(value, dict):
        return {name: as_json_has_it(one) for name, one in value.items()}
    return [as_json_has_it(one) for one in value] if isinstance(value, list | tuple) else value


@given(operations, st.lists(st.binary(), max_size=3))
def test_an_operation_survives_byte_for_byte(operation: FileOperation, roots: list[bytes]) -> None:
    argv = pack(operation, roots=roots, own=[b"/own"])
    _, again, _, _ = wire.decode_request(wire.encode_request({}, list(argv), [], b"/"))
    request = unpack(again)
    assert request["fields"] == as_json_has_it(asdict(operation))
    assert (request["roots"], request["own"]) == (roots, [b"/own"])
    assert request["operation"] == type(operation).__name__


@pytest.mark.parametrize("kind", codec_file._KINDS.values(), ids=lambda kind: kind.__name__)
def test_every_kind_of_operation_is_done(kind: type) -> None:
    assert kind.__name__ in process._OPERATIONS
