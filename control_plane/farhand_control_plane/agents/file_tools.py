"""A Worker's tools for files: typed operations of the machine instead of shell tricks.

A write names the content that it replaces by the hash that reading it gave: what a person changed
meanwhile is refused, not overwritten.
"""

from typing import Final

from pydantic import Field

from farhand_control_plane.agents import starting
from farhand_control_plane.agents.show_files import READ_BYTES
from farhand_control_plane.agents.toolbox import Arguments, CallSite, Outcome, Toolbox
from farhand_shared import file_operation as files
from farhand_shared.command import CommandSpec
from farhand_shared.errors import InvalidInput
from farhand_shared.file_request import parse_sha256

LINES_MAX: Final = 2_000
ENTRIES_MAX: Final = 500
MATCHES_MAX: Final = 200
_TIMEOUT_MS: Final = 5 * 60 * 1000

_MACHINE: Final = Field(description="as in start")
_PATH: Final = "absolute, or beneath the owner's home"
_HASH: Final = "the sha256 that read_file, write_file or edit_file gave last for this file"


class ReadFile(Arguments):
    """Read a text file, with the number and a tab before each line. Gives the file's sha256."""

    machine: str = _MACHINE
    path: str = Field(description=_PATH)
    from_line: int = Field(default=1, ge=1)
    lines: int = Field(default=LINES_MAX, ge=1, le=LINES_MAX)


class WriteFile(Arguments):
    """Make a file, or replace all of one. Refused when the file is another than you have read."""

    machine: str = _MACHINE
    path: str = Field(description=_PATH)
    content: str
    sha256: str = Field(default="", description=f"{_HASH}; empty: there must be no such file yet")


class EditFile(Arguments):
    """Replace text in a file. `old` is the file's exact text, without line numbers, and must be
    there exactly once, unless `all`. Refused when the file is another than you have read."""

    machine: str = _MACHINE
    path: str = Field(description=_PATH)
    old: str = Field(min_length=1)
    new: str
    all: bool = Field(default=False, description="at every place")
    sha256: str = Field(description=_HASH)


class ListFolder(Arguments):
    """List a folder, or with a pattern all files beneath it that fit."""

    machine: str = _MACHINE
    path: str = Field(default=".", description=_PATH)
    pattern: str = Field(
        default="", description="of paths, such as **/*.py; leaves out what .gitignore does"
    )
    after: str = Field(default="", description="go on after this name")


class SearchFiles(Arguments):
    """Find the lines of files that match a regular expression."""

    machine: str = _MACHINE
    pattern: str = Field(min_length=1)
    path: str = Field(default=".", description=f"a folder or a file; {_PATH}")
    include: list[str] = Field(default_factory=list, description="only such files: *.py")
    fixed: bool = Field(default=False, description="the pattern is plain text")
    ignore_case: bool = False


class FileTools:
    """The tools' calls, each a command of the ticket."""

    def __init__(self, inline_wait_s: float) -> None:
        self._inline_wait_s = inline_wait_s

    def add_to(self, tools: Toolbox) -> None:
        tools.add("read_file", ReadFile, self._read)
        tools.add("write_file", WriteFile, self._write)
        tools.add("edit_file", EditFile, self._edit)
        tools.add("list_folder", ListFolder, self._list)
        tools.add("search_files", SearchFiles, self._search)

    async def _read(self, site: CallSite, args: ReadFile) -> Outcome:
        # From its beginning whatever lines are wanted: only so they can be numbered.
        operation = files.ReadFile(path=_bytes(args.path, "path"), length=READ_BYTES)
        return await self._start(site, args.machine, operation)

    async def _write(self, site: CallSite, args: WriteFile) -> Outcome:
        operation = files.WriteFile(
            path=_bytes(args.path, "path"),
            data=_bytes(args.content, "content"),
            expect=_hash(args.sha256) if args.sha256 else files.ABSENT,
            make_parents=True,
        )
        return await self._start(site, args.machine, operation)

    async def _edit(self, site: CallSite, args: EditFile) -> Outcome:
        edit = files.Replacement(
            old=_bytes(args.old, "old"), new=_bytes(args.new, "new"), all=args.all
        )
        operation = files.EditFile(
            path=_bytes(args.path, "path"), edits=(edit,), expected_sha256=_hash(args.sha256)
        )
        return await self._start(site, args.machine, operation)

    async def _list(self, site: CallSite, args: ListFolder) -> Outcome:
        path, after = _bytes(args.path, "path"), _bytes(args.after, "after")
        operation: files.FileOperation = files.ListFolder(path=path, after=after, limit=ENTRIES_MAX)
        if args.pattern:
            operation = files.GlobFiles(
                path=path, pattern=_bytes(args.pattern, "pattern"), after=after, limit=ENTRIES_MAX
            )
        return await self._start(site, args.machine, operation)

    async def _search(self, site: CallSite, args: SearchFiles) -> Outcome:
        operation = files.SearchFiles(
            path=_bytes(args.path, "path"),
            pattern=_bytes(args.pattern, "pattern"),
            fixed=args.fixed,
            ignore_case=args.ignore_case,
            include=tuple(_bytes(one, "include") for one in args.include if one),
            limit=MATCHES_MAX,
        )
        return await self._start(site, args.machine, operation)

    async def _start(self, site: CallSite, machine: str, operation: files.FileOperation) -> Outcome:
        return await starting.start(
            site,
            machine=machine,
            spec=CommandSpec(run=operation, execution_timeout_ms=_TIMEOUT_MS),
            title=files.text_of(operation),
            inline_wait_s=self._inline_wait_s,
        )


def _bytes(text: str, field: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"cannot use {field}: it holds half a character") from None


def _hash(text: str) -> bytes:
    hash_ = parse_sha256(text)
    if hash_ is None:
        raise InvalidInput(
            "cannot use sha256: it is not 64 hexadecimal digits; read_file gives a file's"
        )
    return hash_
