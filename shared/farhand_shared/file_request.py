"""The body of ``POST /v1/machines/{machine}/files``: one operation on files in JSON.

``{"operation": "read", "path": …}`` with the fields of that operation, as ``files.proto`` names
them; beside them ``cwd``, ``timeout_ms`` and ``wait_offline``. Bytes are text; bytes that are not
UTF-8 are ``NAME_base64`` instead of ``NAME``, as in the answers of machines, so that what a listing
gives can be asked for. Hashes are hexadecimal, ``mode`` is octal text (``"0644"``), ``expect`` is
``any``, ``absent`` or the SHA-256 of what must be there.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from farhand_shared.command import CommandSpec
from farhand_shared.errors import InvalidInput
from farhand_shared.exec_request import json_object
from farhand_shared.file_operation import (
    ABSENT,
    ANY,
    LIMIT_MAX,
    MODE_MAX,
    EditFile,
    Expect,
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
)
from farhand_shared.limits import EXECUTION_TIMEOUT_DEFAULT_MS, EXECUTION_TIMEOUT_MAX_MS

SIZE_MAX: Final = 1 << 62  # as the link's offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBody:
    """What is asked of a machine's files, and how long it may wait and take."""

    operation: FileOperation
    cwd: bytes | None = None  # None: the machine's first root
    timeout_ms: int = EXECUTION_TIMEOUT_DEFAULT_MS
    wait_offline: bool = False

    @property
    def spec(self) -> CommandSpec:
        """The Command that does it."""
        return CommandSpec(
            run=self.operation,
            cwd=self.cwd,
            execution_timeout_ms=self.timeout_ms,
            stdin=isinstance(self.operation, PutFile),  # its bytes
        )


def encode_file_body(body: FileBody) -> bytes:
    """Return the JSON; ``decode_file_body`` gives the same value back."""
    out: dict[str, Any] = {}
    operation = body.operation
    _put_bytes(out, "path", operation.path)
    match operation:
        case StatFile():
            out |= {
                "operation": "stat",
                "nofollow": operation.nofollow,
                "hash_bytes": operation.hash_bytes,
            }
            if operation.put_sha256:
                out["put_sha256"] = operation.put_sha256.hex()
        case ListFolder():
            out |= {"operation": "list", "limit": operation.limit}
            _put_bytes(out, "after", operation.after)
        case GlobFiles():
            out |= {"operation": "glob", "limit": operation.limit, "all": operation.all}
            _put_bytes(out, "pattern", operation.pattern)
            _put_bytes(out, "after", operation.after)
        case SearchFiles():
            out |= {
                "operation": "search",
                "fixed": operation.fixed,
                "ignore_case": operation.ignore_case,
                "limit": operation.limit,
                "all": operation.all,
            }
            _put_bytes(out, "pattern", operation.pattern)
            _put_list(out, "include", operation.include)
        case ReadFile():
            out |= {
                "operation": "read",
                "offset": operation.offset,
                "length": operation.length,
                "if_version": operation.if_version,
            }
        case WriteFile():
            out |= {"operation": "write", "make_parents": operation.make_parents}
            out |= _expect_and_mode(operation)
            _put_bytes(out, "content", operation.data)
        case EditFile():
            edits: list[dict[str, Any]] = []
            for edit in operation.edits:
                one: dict[str, Any] = {"all": edit.all}
                _put_bytes(one, "old", edit.old)
                _put_bytes(one, "new", edit.new)
                edits.append(one)
            out |= {"operation": "edit", "edits": edits}
            if operation.expected_sha256:
                out["expected_sha256"] = operation.expected_sha256.hex()
        case PutFile():
            out |= {
                "operation": "put",
                "size": operation.size,
                "sha256": operation.sha256.hex(),
                "resume_offset": operation.resume_offset,
                "make_parents": operation.make_parents,
            }
            out |= _expect_and_mode(operation)
        case MakeFolder():
            out |= {"operation": "make_folder", "parents": operation.parents}
        case MoveFile():
            out |= {"operation": "move", "replace": operation.replace}
            _put_bytes(out, "to", operation.to)
        case RemoveFile():
            out["operation"] = "remove"
            if operation.expected_sha256:
                out["expected_sha256"] = operation.expected_sha256.hex()
    if body.cwd is not None:
        _put_bytes(out, "cwd", body.cwd)
    out["timeout_ms"] = body.timeout_ms
    if body.wait_offline:
        out["wait_offline"] = True
    return json.dumps(out).encode("ascii")


def decode_file_body(content: bytes) -> FileBody:
    """Return what a client asks for; raise InvalidInput naming the field that is wrong."""
    fields = _Fields(json_object(content))
    body = FileBody(
        operation=_operation(fields),
        cwd=fields.path("cwd") if fields.has("cwd") else None,
        timeout_ms=fields.count(
            "timeout_ms", EXECUTION_TIMEOUT_MAX_MS, absent=EXECUTION_TIMEOUT_DEFAULT_MS
        ),
        wait_offline=fields.flag("wait_offline"),
    )
    fields.refuse_others()
    return body


def _operation(fields: "_Fields") -> FileOperation:
    name = fields.text("operation")
    match name:
        case "stat":
            return StatFile(
                path=fields.path("path"),
                nofollow=fields.flag("nofollow"),
                put_sha256=fields.sha256("put_sha256"),
                hash_bytes=fields.count("hash_bytes", SIZE_MAX),
            )
        case "list":
            return ListFolder(
                path=fields.path("path"), after=fields.data("after"), limit=fields.limit()
            )
        case "glob":
            return GlobFiles(
                path=fields.path("path"),
                pattern=fields.path("pattern"),
                after=fields.data("after"),
                limit=fields.limit(),
                all=fields.flag("all"),
            )
        case "search":
            return SearchFiles(
                path=fields.path("path"),
                pattern=fields.path("pattern"),
                fixed=fields.flag("fixed"),
                ignore_case=fields.flag("ignore_case"),
                include=fields.many("include"),
                limit=fields.limit(),
                all=fields.flag("all"),
            )
        case "read":
            return ReadFile(
                path=fields.path("path"),
                offset=fields.count("offset", SIZE_MAX),
                length=fields.count("length", SIZE_MAX),
                if_version=fields.text("if_version", absent=""),
            )
        case "write":
            return WriteFile(
                path=fields.path("path"),
                data=fields.data("content", required=True),
                expect=fields.expect(),
                mode=fields.mode(),
                make_parents=fields.flag("make_parents"),
            )
        case "edit":
            return EditFile(
                path=fields.path("path"),
                edits=_edits(fields),
                expected_sha256=fields.sha256("expected_sha256"),
            )
        case "put":
            size = fields.count("size", SIZE_MAX, required=True)
            return PutFile(
                path=fields.path("path"),
                size=size,
                sha256=fields.sha256("sha256", required=True),
                expect=fields.expect(),
                mode=fields.mode(),
                resume_offset=fields.count("resume_offset", size),
                make_parents=fields.flag("make_parents"),
            )
        case "make_folder":
            return MakeFolder(path=fields.path("path"), parents=fields.flag("parents"))
        case "move":
            return MoveFile(
                path=fields.path("path"), to=fields.path("to"), replace=fields.flag("replace")
            )
        case "remove":
            return RemoveFile(
                path=fields.path("path"), expected_sha256=fields.sha256("expected_sha256")
            )
        case _:
            raise InvalidInput(f"cannot read the request: there is no operation {name[:40]!r}")


def _edits(fields: "_Fields") -> tuple[Replacement, ...]:
    listed = fields.take("edits")
    if not isinstance(listed, list) or not listed:
        raise InvalidInput("cannot read the request: edits is not a list with an edit in it")
    edits = []
    for number, one in enumerate(listed):
        if not isinstance(one, dict):
            raise InvalidInput(f"cannot read the request: edits[{number}] is not an object")
        edit = _Fields(one, within=f"edits[{number}].")
        old = edit.data("old", required=True)
        if not old:
            raise InvalidInput(f"cannot read the request: edits[{number}].old is empty")
        new = edit.data("new", required=True)
        edits.append(Replacement(old=old, new=new, all=edit.flag("all")))
        edit.refuse_others()
    return tuple(edits)


class _Fields:
    """An object's fields, each read once in its type; what nobody read is a mistake."""

    def __init__(self, value: dict[str, Any], within: str = "") -> None:  # value: JSON
        self._value = value
        self._within = within
        self._read: set[str] = set()

    def has(self, name: str) -> bool:
        return name in self._value or f"{name}_base64" in self._value

    def take(self, name: str) -> Any:  # JSON
        self._read.add(name)
        return self._value.get(name)

    def refuse_others(self) -> None:
        if others := sorted(self._value.keys() - self._read):
            raise self._wrong(others[0], "is not a field of it")

    def text(self, name: str, *, absent: str | None = None) -> str:
        value = self.take(name)
        if value is None and absent is not None:
            return absent
        if not isinstance(value, str):
            raise self._wrong(name, "is missing" if value is None else "is not text")
        return value

    def many(self, name: str) -> tuple[bytes, ...]:
        """Return the bytes of texts, or those that ``NAME_base64`` gives."""
        texts, encoded = self.take(name), self.take(f"{name}_base64")
        if texts is not None and encoded is not None:
            raise self._wrong(name, f"is given twice; give {name} or {name}_base64")
        if encoded is not None:
            try:
                if isinstance(encoded, list):  # an object would give its names, a text its letters
                    return tuple(base64.b64decode(one, validate=True) for one in encoded)
            except (ValueError, TypeError):
                pass  # as any other that is none
            raise self._wrong(f"{name}_base64", "is not a list of base64")
        if texts is None:
            return ()
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            raise self._wrong(name, "is not a list of texts")
        return tuple(self._encoded(one, name) for one in texts)

    def data(self, name: str, *, required: bool = False) -> bytes:
        """Return a text's bytes, or those that ``NAME_base64`` gives."""
        text, encoded = self.take(name), self.take(f"{name}_base64")
        if text is not None and encoded is not None:
            raise self._wrong(name, f"is given twice; give {name} or {name}_base64")
        if encoded is not None:
            try:
                return base64.b64decode(encoded, validate=True)
            except (ValueError, TypeError):
                raise self._wrong(f"{name}_base64", "is not base64") from None
        if text is None:
            if required:
                raise self._wrong(name, "is missing")
            return b""
        if not isinstance(text, str):
            raise self._wrong(name, "is not text")
        return self._encoded(text, name)

    def path(self, name: str) -> bytes:
        """Return bytes that are there and hold no NUL."""
        value = self.data(name, required=True)
        if not value or b"\0" in value:
            raise self._wrong(name, "is empty" if not value else "holds a NUL")
        return value

    def flag(self, name: str) -> bool:
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "is neither true nor false")
        return bool(value)

    def count(self, name: str, most: int, *, absent: int = 0, required: bool = False) -> int:
        value = self.take(name)
        if value is None and not required:
            return absent
        if type(value) is not int or not 0 <= value <= most:  # a bool is no count
            raise self._wrong(name, f"is not a whole number from 0 to {most:,}")
        return value

    def limit(self) -> int:
        return self.count("limit", LIMIT_MAX)

    def sha256(self, name: str, *, required: bool = False) -> bytes:
        text = self.text(name, absent=None if required else "")
        return _sha256(text) if text else b""

    def expect(self) -> Expect:
        match self.text("expect", absent="any"):
            case "any":
                return ANY
            case "absent":
                return ABSENT
            case text:
                return _sha256(text, "expect is neither any, absent nor")

    def mode(self) -> int | None:
        text = self.text("mode", absent="")
        if not text:
            return None
        mode = parse_mode(text)
        if mode is None:
            raise self._wrong("mode", f"is not octal up to {MODE_MAX:04o}, such as 0644")
        return mode

    def _encoded(self, text: str, name: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise self._wrong(
                name, f"holds a lone surrogate; give bytes that are not UTF-8 as {name}_base64"
            ) from None

    def _wrong(self, name: str, reason: str) -> InvalidInput:
        return InvalidInput(f"cannot read the request: {self._within}{name} {reason}")


def parse_mode(text: str) -> int | None:
    """Return permission bits written in octal; None when they are not."""
    if not text or len(text) > 4 or set(text) - set("01234567"):
        return None
    mode = int(text, 8)
    return mode if mode <= MODE_MAX else None


def parse_sha256(text: str) -> bytes | None:
    """Return a hash written in hexadecimal; None when it is not 64 digits of it."""
    if len(text) != 64 or set(text.lower()) - set("0123456789abcdef"):
        return None
    return bytes.fromhex(text)


def _sha256(text: str, otherwise: str = "a hash is not") -> bytes:
    hash_ = parse_sha256(text)
    if hash_ is None:
        raise InvalidInput(
            f"cannot read the request: {otherwise} a SHA-256 in 64 hexadecimal digits"
        )
    return hash_


def _expect_and_mode(operation: WriteFile | PutFile) -> dict[str, str]:
    expect = operation.expect
    out = {"expect": "any" if expect is None else expect.hex() or "absent"}
    if operation.mode is not None:
        out["mode"] = f"{operation.mode:04o}"
    return out


def _put_bytes(out: dict[str, Any], name: str, value: bytes) -> None:
    try:
        out[name] = value.decode()
    except UnicodeDecodeError:
        out[f"{name}_base64"] = base64.b64encode(value).decode("ascii")


def _put_list(out: dict[str, Any], name: str, values: tuple[bytes, ...]) -> None:
    try:
        out[name] = [value.decode() for value in values]
    except UnicodeDecodeError:
        out[f"{name}_base64"] = [base64.b64encode(value).decode("ascii") for value in values]
