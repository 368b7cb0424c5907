"""`farhand files`: look at, change and move files of machines."""

import base64
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from farhand_control_plane.cli import files_arguments as arguments
from farhand_control_plane.cli import files_shown as shown
from farhand_control_plane.cli.groups import Verb, group
from farhand_control_plane.cli.session import Misuse, api, note, show_json
from farhand_control_plane.client.files import FileRefused, Files
from farhand_control_plane.client.screen import put as write_out
from farhand_shared.errors import FarhandError
from farhand_shared.file_operation import (
    LIMIT_MAX,
    EditFile,
    FileErrorCode,
    FileOperation,
    GlobFiles,
    ListFolder,
    MakeFolder,
    MoveFile,
    ReadFile,
    RemoveFile,
    Replacement,
    SearchFiles,
    StatFile,
    WriteFile,
)
from farhand_shared.file_request import SIZE_MAX

app = group(
    "Look at, change and move files of machines. MACHINE:PATH is a path there, relative to the "
    "first of the machine's roots."
)

File = Annotated[str, typer.Argument(metavar="MACHINE:PATH", help="Which file, on which machine.")]
Folder = Annotated[
    str, typer.Argument(metavar="MACHINE[:FOLDER]", help="Where; alone, the machine's first root.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Wait = Annotated[
    bool, typer.Option("--wait-offline", help="Wait for a machine that is not there, up to a day.")
]
Limit = Annotated[
    int | None, typer.Option(metavar="N", min=1, max=LIMIT_MAX, help="Stop after so many.")
]
All = Annotated[bool, typer.Option("--all", help="Also .git and what .gitignore files leave out.")]
Cursor = Annotated[
    str | None, typer.Option(metavar="CURSOR", help="Go on after an answer with --limit.")
]
Expect = Annotated[
    str | None,
    typer.Option(metavar="SHA256", help="Only what has this hash; a changed file is refused."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Mode = Annotated[str | None, typer.Option(metavar="OCTAL", help="Permissions, such as 0644.")]
Parents = Annotated[bool, typer.Option("--parents", help="Make the folders above it too.")]


@app.command(cls=Verb)
def stat(
    file: File,
    nofollow: Annotated[
        bool, typer.Option("--nofollow", help="Of a link itself, not of what it leads to.")
    ] = False,
    sha256: Annotated[
        bool, typer.Option("--sha256", help="Also a file's hash, for --expect.")
    ] = False,
    wait_offline: Wait = False,
    as_json: Json = False,
) -> None:
    """Show what is at a path: type, size, permissions, version."""
    target = arguments.target(file)
    operation = StatFile(path=target.path, nofollow=nofollow, hash_bytes=SIZE_MAX if sha256 else 0)
    facts = _facts(target, operation, wait_offline)
    shown.facts(facts, as_json=as_json)


@app.command("list", cls=Verb)
def list_(
    folder: Folder,
    limit: Limit = None,
    cursor: Cursor = None,
    long: Annotated[
        bool, typer.Option("--long", "-l", help="With permissions, size and time.")
    ] = False,
    wait_offline: Wait = False,
    as_json: Json = False,
) -> None:
    """List a folder, sorted by name."""
    target = arguments.target(folder, folder=True)

    def page(after: bytes, count: int) -> FileOperation:
        return ListFolder(path=target.path, after=after, limit=count)

    pages = shown.Pages(_files(target, wait_offline), page, limit=limit, cursor=cursor)
    pages.show(as_json=as_json, long=long)


@app.command(cls=Verb)
def glob(
    folder: Folder,
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="Of paths beneath it; ** is any folders.")
    ],
    limit: Limit = None,
    cursor: Cursor = None,
    everything: All = False,
    wait_offline: Wait = False,
    as_json: Json = False,
) -> None:
    """Find files by the pattern of their paths."""
    target = arguments.target(folder, folder=True)

    def page(after: bytes, count: int) -> FileOperation:
        return GlobFiles(
            path=target.path,
            pattern=os.fsencode(pattern),
            after=after,
            limit=count,
            all=everything,
        )

    pages = shown.Pages(_files(target, wait_offline), page, limit=limit, cursor=cursor)
    pages.show(as_json=as_json)


@app.command(cls=Verb)
def search(
    folder: Annotated[str, typer.Argument(metavar="MACHINE[:PATH]", help="A folder, or one file.")],
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="A regular expression.")],
    fixed: Annotated[
        bool, typer.Option("--fixed", "-F", help="The pattern is plain text.")
    ] = False,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", "-i", help="Capital letters are no others.")
    ] = False,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Only in files that fit; may be repeated."),
    ] = None,
    limit: Limit = None,
    everything: All = False,
    wait_offline: Wait = False,
    as_json: Json = False,
) -> None:
    """Find lines in files: PATH:LINE:TEXT, one for each line that matches."""
    target = arguments.target(folder, folder=True)
    operation = SearchFiles(
        path=target.path,
        pattern=os.fsencode(pattern),
        fixed=fixed,
        ignore_case=ignore_case,
        include=tuple(os.fsencode(one) for one in include or ()),
        limit=limit or 0,
        all=everything,
    )
    with _local_faults():
        answer = _files(target, wait_offline).ask(operation)
        shown.matches(answer.data, as_json=as_json)


@app.command(cls=Verb)
def read(
    file: File,
    offset: Annotated[int, typer.Option(metavar="N", min=0, help="The first byte.")] = 0,
    length: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="So many bytes; all by default.")
    ] = None,
    wait_offline: Wait = False,
    as_json: Json = False,
) -> None:
    """Write a file to standard output, byte for byte."""
    target = arguments.target(file)
    operation = ReadFile(path=target.path, offset=offset, length=length or 0)
    files = _files(target, wait_offline)
    with _local_faults():
        if not as_json:
            files.ask(operation, take=lambda data: write_out(1, data))
            return
        answer = files.ask(operation)
    content = answer.data
    try:
        text: dict[str, str] = {"content": content.decode()}
    except UnicodeDecodeError:
        text = {"content_base64": base64.b64encode(content).decode("ascii")}
    show_json({**answer.facts, **text})


@app.command(cls=Verb)
def write(
    file: File,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A file here; - is standard input.")
    ] = "-",
    expect: Expect = None,
    overwrite: Overwrite = False,
    mode: Mode = None,
    parents: Parents = False,
    wait_offline: Wait = False,
    as_json: Json = False,
) -> None:
    """Make a file, or replace one as a whole.

    A file that is there is replaced only with --overwrite, or with --expect when it still is what
    you have read.
    """
    target = arguments.target(file)
    operation = WriteFile(
        path=target.path,
        data=arguments.content(source),
        expect=arguments.expectation(expect, overwrite=overwrite),
        mode=arguments.mode(mode),
        make_parents=parents,
    )
    facts = _facts(target, operation, wait_offline)
    shown.written(facts, target, "wrote", as_json=as_json)


@app.command(cls=Verb)
def edit(
    file: File,
    old: Annotated[
        list[str],
        typer.Option(metavar="TEXT", help="What must be there, exactly once; may be repeated."),
    ],
    new: Annotated[
        list[str], typer.Option(metavar="TEXT", help="What takes its place; one for each --old.")
    ],
    every: Annotated[bool, typer.Option("--all", help="At every place, not only one.")] = False,
    expect: Expect = None,
    wait_offline: Wait = False,
    as_json: Json = False,
) -> None:
    """Replace text in a file: all of the edits, or none."""
    if len(old) != len(new):
        raise Misuse(
            f"cannot edit: {len(old)} times --old and {len(new)} times --new; give them in pairs"
        )
    target = arguments.target(file)
    operation = EditFile(
        path=target.path,
        edits=tuple(
            Replacement(old=os.fsencode(one), new=os.fsencode(other), all=every)
            for one, other in zip(old, new, strict=True)
        ),
        expected_sha256=b"" if expect is None else arguments.sha256(expect),
    )
    facts = _facts(target, operation, wait_offline)
    shown.written(facts, target, "edited", as_json=as_json)


@app.command(cls=Verb)
def get(
    file: File,
    local: Annotated[
        str | None, typer.Argument(metavar="LOCAL", help="A file or folder here; by default here.")
    ] = None,
    overwrite: Overwrite = False,
    wait_offline: Wait = False,
    as_json: Json = False,
) -> None:
    """Bring a file here, whole or not at all, with its checksum verified.

    After Ctrl-C or a lost link the same line again goes on where it was.
    """
    from farhand_control_plane.client import file_get

    target = arguments.target(file)
    place = arguments.local_target(local, target.path)
    with _local_faults():
        facts = file_get.get(_files(target, wait_offline), target.path, place, overwrite=overwrite)
    shown.transferred(facts, f"{facts['local']} is here", as_json=as_json)


@app.command(cls=Verb)
def put(
    source: Annotated[str, typer.Argument(metavar="LOCAL", help="A file here.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="MACHINE[:PATH]", help="Its place there, or a folder; alone, the first root."
        ),
    ],
    expect: Expect = None,
    overwrite: Overwrite = False,
    mode: Mode = None,
    parents: Parents = False,
    take: Annotated[
        bool, typer.Option("--take", help="End another put of the same content there.")
    ] = False,
    wait_offline: Wait = False,
    as_json: Json = False,
) -> None:
    """Bring a file to a machine, whole or not at all, with its checksum verified.

    A file that is there is replaced only with --overwrite, or with --expect when it still is what
    you have read. After Ctrl-C or a lost link the same line again sends the rest only.
    """
    from farhand_control_plane.cli.input_writer import InputWriter
    from farhand_control_plane.client import file_put

    target = arguments.target(file, folder=True)
    expected = arguments.expectation(expect, overwrite=overwrite)
    server = api()

    def feed(attempt_id: str, descriptor: int) -> None:
        # Why it cannot go on is what the command's own end says.
        writer = InputWriter(server.target, attempt_id, on_loss=lambda _reason, _held: None)
        writer.start()
        writer.read_from(descriptor)

    with _local_faults():
        facts = file_put.put(
            Files(server, target.machine, say=note, wait_offline=wait_offline),
            Path(source),
            target.path,
            feed,
            expect=expected,
            mode=arguments.mode(mode),
            make_parents=parents,
            take=take,
        )
    shown.transferred(facts, f"{source} is on {target.machine}", as_json=as_json)


@app.command("make-folder", cls=Verb)
def make_folder(
    folder: File, parents: Parents = False, wait_offline: Wait = False, as_json: Json = False
) -> None:
    """Make a folder; one that is there already is fine."""
    target = arguments.target(folder)
    facts = _facts(target, MakeFolder(path=target.path, parents=parents), wait_offline)
    said = "made" if facts.get("created") else "there already"
    shown.done(facts, target, said, as_json=as_json)


@app.command(cls=Verb)
def move(
    file: File,
    to: Annotated[str, typer.Argument(metavar="PATH", help="Its new path, on the same machine.")],
    overwrite: Overwrite = False,
    wait_offline: Wait = False,
    as_json: Json = False,
) -> None:
    """Give a file or folder another path."""
    target = arguments.target(file)
    operation = MoveFile(path=target.path, to=os.fsencode(to), replace=overwrite)
    shown.done(_facts(target, operation, wait_offline), target, "moved", as_json=as_json)


@app.command(cls=Verb)
def remove(
    file: File, expect: Expect = None, wait_offline: Wait = False, as_json: Json = False
) -> None:
    """Remove a file, a link or an empty folder."""
    target = arguments.target(file)
    operation = RemoveFile(
        path=target.path,
        expected_sha256=b"" if expect is None else arguments.sha256(expect),
    )
    shown.done(_facts(target, operation, wait_offline), target, "removed", as_json=as_json)


def _files(target: arguments.Target, wait_offline: bool) -> Files:
    return Files(api(), target.machine, say=note, wait_offline=wait_offline)


def _facts(
    target: arguments.Target, operation: FileOperation, wait_offline: bool
) -> dict[str, Any]:  # JSON
    try:
        return _files(target, wait_offline).ask(operation).facts
    except FileRefused as refused:
        text = str(refused).replace("make_parents", "--parents")
        if refused.code == FileErrorCode.EXISTS:
            text = f"{text}; replace it with --overwrite"
        raise FarhandError(text) from refused


@contextlib.contextmanager
def _local_faults() -> Iterator[None]:
    """Turn what this computer's files refuse into one line; the end of our reader stays itself."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        name = f" {os.fsdecode(error.filename)}" if error.filename is not None else ""
        raise FarhandError(f"cannot use{name or ' a file'} here: {error.strerror}") from error
