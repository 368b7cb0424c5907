"""The files of a fake machine: operations on a dictionary, answered as the protocol says.

What it does not model: folders of their own, links, modes, searching by more than plain text, and
everything that a real disk may refuse. The real thing is tested with the daemon.
"""

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from farhand_shared.file_operation import (
    ABSENT,
    ANY,
    EditFile,
    Expect,
    FileOperation,
    ListFolder,
    ReadFile,
    SearchFiles,
    StatFile,
    WriteFile,
)
from farhand_shared.link_events import Stream
from tests.fakes.fake_daemon import Job


class _Refused(Exception):
    def __init__(self, code: str, reason: str, **facts: object) -> None:
        super().__init__(reason)
        self.code, self.facts = code, facts


@dataclass(eq=False)
class FakeFiles:
    """A machine's behaviour: what its files are, and what was asked of them."""

    files: dict[bytes, bytes] = field(default_factory=dict)
    asked: list[FileOperation] = field(default_factory=list)

    async def __call__(self, job: Job) -> None:
        operation = job.spec.run
        assert isinstance(operation, FileOperation), operation
        self.asked.append(operation)
        try:
            data, facts = self._do(operation)
        except _Refused as refused:
            verb = type(operation).__name__.removesuffix("File").removesuffix("Folder").lower()
            path = operation.path.decode("utf-8", "backslashreplace")
            message = f"cannot {verb} {path}: {refused}"
            error = {"code": refused.code, "message": message, **refused.facts}
            job.write(_line({"error": error}), Stream.STDERR)
            job.end(1)
            return
        job.write(data)
        job.write(_line(facts), Stream.STDERR)
        job.end(0)

    def _do(self, operation: FileOperation) -> tuple[bytes, dict[str, Any]]:
        match operation:
            case StatFile(path=path):
                facts = {**_named("path", b"/home/" + path), "type": "file", "mode": "0640"}
                facts |= self._facts(path, self._content(path))
                return _line(facts), facts
            case ReadFile(path=path, offset=offset, length=length, if_version=version):
                content = self._content(path)
                facts = self._facts(path, content)
                if version not in ("", facts["version"]):
                    raise _Refused("changed", "it has another version", version=facts["version"])
                sent = content[offset : offset + length if length else None]
                return sent, {**facts, "offset": offset, "sent": len(sent), "sha256": _hash(sent)}
            case WriteFile(path=path, data=data, expect=expect):
                created = path not in self.files
                self._expect(path, expect)
                self.files[path] = data
                return b"", {**self._facts(path, data), "sha256": _hash(data), "created": created}
            case EditFile(path=path, edits=edits, expected_sha256=expected):
                content = self._content(path)
                self._expect(path, expected or ANY)
                for edit in edits:
                    if (found := content.count(edit.old)) == 0:
                        raise _Refused("no_match", "the text to replace is not in it")
                    if found > 1 and not edit.all:
                        raise _Refused("several_matches", f"the text is in it {found} times")
                    content = content.replace(edit.old, edit.new)
                self.files[path] = content
                return b"", {**self._facts(path, content), "sha256": _hash(content)}
            case ListFolder(after=after, limit=limit):
                names = sorted(name for name in self.files if name > after)
                page = names[: limit or 1_000]
                lines = [
                    {**_named("path", name), "type": "file", "size": len(self.files[name]),
                     "mode": "0640", "modified_ms": 1_700_000_000_000}
                    for name in page
                ]  # fmt: skip
                more = len(page) < len(names)
                last = _named("after", page[-1] if more else b"")
                return b"".join(map(_line, [*lines, {"more": more, **last}])), {}
            case SearchFiles(pattern=pattern):
                found = [
                    {**_named("path", name), "line": number, "column": 1, **_named("text", line)}
                    for name, content in sorted(self.files.items())
                    for number, line in enumerate(content.split(b"\n"), 1)
                    if pattern in line
                ]
                last = {"more": False, "files": len(self.files), "skipped": 0}
                return b"".join(map(_line, [*found, last])), {}
            case _:
                raise AssertionError(f"not modelled: {operation}")

    def _content(self, path: bytes) -> bytes:
        if path not in self.files:
            raise _Refused("not_found", "it does not exist")
        return self.files[path]

    def _expect(self, path: bytes, expect: Expect) -> None:
        there = self.files.get(path)
        if expect is ANY:
            return
        if expect == ABSENT:
            if there is not None:
                raise _Refused("exists", "something is there already", sha256=_hash(there))
            return
        found = "" if there is None else _hash(there)
        if found != expect.hex():
            raise _Refused("changed", "it changed", expected=expect.hex(), found=found)

    def _facts(self, path: bytes, content: bytes) -> dict[str, Any]:
        return {"size": len(content), "mode": "0640", "version": f"v-{_hash(content)[:8]}"}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _named(key: str, value: bytes) -> dict[str, str]:
    try:
        return {key: value.decode()}
    except UnicodeDecodeError:
        encoded = base64.b64encode(value).decode()
        return {key: value.decode("utf-8", "replace"), f"{key}_base64": encoded}
