"""File operations survive the wire; what no machine could do is refused on both ends."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given

from farhand_proto.v1 import files_pb2, link_pb2
from farhand_shared import codec, codec_file
from farhand_shared.command import Argv, CommandSpec, Shell
from farhand_shared.errors import InvalidInput, ProtocolError
from farhand_shared.file_operation import (
    EditFile,
    FileErrorCode,
    FileFault,
    FileOperation,
    GlobFiles,
    ListFolder,
    MakeFolder,
    MoveFile,
    PutFile,
    ReadFile,
    RemoveFile,
    Replacement,
    SearchFiles,
    StatFile,
    WriteFile,
    read_report,
    text_of,
)
from tests.unit.shared.file_operations import operations

PROTO = Path(__file__).resolve().parents[3] / "proto/farhand_proto/v1/files.proto"


@given(operations)
def test_a_file_operation_survives_byte_for_byte(operation: FileOperation) -> None:
    encoded = codec.encode_spec(CommandSpec(run=operation, stdin=True))
    assert codec.decode_spec(encoded).run == operation
    assert codec.encode_spec(codec.decode_spec(encoded)) == encoded


@given(operations)
def test_the_head_of_a_specification_names_its_operation(operation: FileOperation) -> None:
    spec = codec.encode_spec(
        CommandSpec(run=operation, stdin=isinstance(operation, PutFile), cwd=b"/x")
    )
    message = codec_file.file_message(operation)
    head = spec[: codec_file.HEAD_BYTES]
    assert codec_file.operation_in(head) == message.WhichOneof("operation")


def test_a_large_write_is_named_by_its_head_and_a_program_by_none() -> None:
    large = codec.encode_spec(CommandSpec(run=WriteFile(path=b"a", data=bytes(4 << 20))))
    assert codec_file.operation_in(large[: codec_file.HEAD_BYTES]) == "write"
    for run in (Shell(script=b"true"), Argv(argv=(b"true",))):
        spec = codec.encode_spec(CommandSpec(run=run, cwd=b"/", env=((b"A", b"b"),)))
        assert codec_file.operation_in(spec[: codec_file.HEAD_BYTES]) is None
    assert codec_file.operation_in(b"") is None
    assert codec_file.operation_in(b"\x1a") is None


def test_every_kind_has_its_message_and_every_field_its_place() -> None:
    kinds = files_pb2.FileOperation.DESCRIPTOR.oneofs_by_name["operation"].fields
    assert {kind.name for kind in kinds} == set(codec_file._KINDS)
    assert set(codec_file._KINDS.values()) == set(get_args(FileOperation))
    for kind in kinds:
        in_message = {field.name for field in kind.message_type.fields} - {"has_mode"}
        assert in_message == set(codec_file._KINDS[kind.name].__dataclass_fields__)


@pytest.mark.parametrize(
    ("operation", "says"),
    [
        (StatFile(path=b""), "a path is empty"),
        (ReadFile(path=b"a\0b"), "a path holds NUL"),
        (MoveFile(path=b"a", to=b""), "a path is empty"),
        (StatFile(path=b"a", put_sha256=b"x"), "a SHA-256 has 1 bytes instead of 32"),
        (WriteFile(path=b"a", data=b"", expect=b"x" * 31), "a SHA-256 has 31 bytes"),
        (WriteFile(path=b"a", data=b"", mode=0o4755), "mode 4755 is not 0 to 777"),
        (PutFile(path=b"a", size=1, sha256=b""), "a put needs the SHA-256"),
        (
            PutFile(path=b"a", size=1, sha256=b"x" * 32, resume_offset=2),
            "resume_offset 2 is past the size 1",
        ),
        (ListFolder(path=b"a", limit=10_001), "limit 10,001 is not 0 to 10,000"),
        (GlobFiles(path=b"a", pattern=b""), "a pattern is empty"),
        (SearchFiles(path=b"a", pattern=b"x", include=(b"",)), "a pattern is empty"),
        (SearchFiles(path=b"a", pattern=b"x", include=(b"*",) * 65), "it includes 65 globs"),
        (EditFile(path=b"a", edits=()), "an edit needs the text that it replaces"),
        (
            EditFile(path=b"a", edits=(Replacement(old=b"", new=b"x"),)),
            "an edit needs the text that it replaces",
        ),
        (RemoveFile(path=b"a", expected_sha256=b"x"), "a SHA-256 has 1 bytes"),
        (ReadFile(path=b"a", offset=(1 << 62) + 1), "offset 4611686018427387905 is out of range"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_no_machine_could_do_is_refused_on_both_ends(
    operation: FileOperation, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match=f"^cannot ask for this file operation: {says}"):
        codec.encode_spec(CommandSpec(run=operation, stdin=True))
    with monkeypatch.context() as patch:
        patch.setattr(codec_file, "fault_of", lambda operation: None)
        encoded = codec.encode_spec(CommandSpec(run=operation, stdin=True))
    with pytest.raises(ProtocolError, match=rf"^cannot read command\.file: {says}"):
        codec.decode_spec(encoded)


def test_a_put_without_stdin_is_refused() -> None:
    put = PutFile(path=b"a", size=0, sha256=b"x" * 32)
    with pytest.raises(InvalidInput, match="a put without stdin"):
        codec.encode_spec(CommandSpec(run=put))


def test_a_kind_from_a_newer_server_is_named() -> None:
    message = link_pb2.CommandSpec()
    message.file.ParseFromString(bytes([0xFA, 0x06, 1, 0x41]))  # field 111: "A"
    with pytest.raises(ProtocolError, match=r"command\.file: it is missing or of a kind"):
        codec.decode_spec(message.SerializeToString())


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (ReadFile(path=b"/a b"), "read /a b"),
        (SearchFiles(path=b"src", pattern=b"x|y"), "search x|y in src"),
        (MoveFile(path=b"a", to=b"\xff"), "move a to \\xff"),
        (MakeFolder(path=b"n"), "make folder n"),
    ],
    ids=["read", "search", "move", "make"],
)
def test_an_operation_is_told_in_words(operation: FileOperation, text: str) -> None:
    assert text_of(operation) == text


@pytest.mark.parametrize(
    ("stderr", "report"),
    [
        (b'{"size": 3}\n', {"size": 3}),
        (b"", None),
        (b'{"size": ', None),
        (b"[1]\n", None),
        (b'{"error": 1}', None),
        (
            b'{"error": {"code": "changed", "message": "no", "sha256": "00"}}\n',
            FileFault(code="changed", message="no", facts={"sha256": "00"}),
        ),
        (b'{"error": {}}', FileFault(code="failed", message="", facts={})),
        (b'{"error": {"code": "new"}}', FileFault(code="new", message="", facts={})),
    ],
    ids=["facts", "empty", "torn", "list", "number", "error", "bare error", "newer code"],
)
def test_a_report_is_facts_or_a_fault_or_nothing(stderr: bytes, report: Any) -> None:
    assert read_report(stderr) == report


def test_the_protocol_file_names_every_error_code() -> None:
    text = PROTO.read_text().replace("\n//", "")
    said = re.search(r" Codes: (.*?)\. A newer", text)
    assert said is not None
    assert set(said[1].split(", ")) == {code.value for code in FileErrorCode}
