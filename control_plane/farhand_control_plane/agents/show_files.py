"""How the end of an operation on files is shown to a model: numbered text, and what was cut."""

import json
from collections.abc import Sequence
from typing import Any, Final

from farhand_control_plane.db import output
from farhand_control_plane.db.command_views import CommandView
from farhand_control_plane.db.file_calls import FileCall
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.llm.blocks import render
from farhand_shared.command import ExitReason
from farhand_shared.file_operation import (
    FileErrorCode,
    FileFault,
    GlobFiles,
    ListFolder,
    ReadFile,
    SearchFiles,
    read_report,
)
from farhand_shared.ids import InstanceId
from farhand_shared.limits import KIB, MIB
from farhand_shared.link_events import Stream

READ_BYTES: Final = 2 * MIB  # of a file, from its beginning: what lines can be shown of
_SHOWN_CHARACTERS: Final = 40_000  # of one answer
_LINE_CHARACTERS: Final = 2_000
_MATCH_CHARACTERS: Final = 400
_REPORT_BYTES: Final = 64 * KIB
_DATA_BYTES: Final = 4 * MIB  # far over what a page of a listing is

# What a model can do about a refusal, beyond what the machine says for everybody.
_ADVICE: Final = {
    FileErrorCode.EXISTS: "to replace it, read_file it and give its sha256",
    FileErrorCode.NO_MATCH: "give the file's exact text, without the line numbers",
}


async def file_answer(
    tx: Tx, instance_id: InstanceId, view: CommandView, call: FileCall
) -> str | None:
    """Return what an operation gave, or why it did nothing; None when its machine did not say."""
    result = view.result
    if result is None or result.reason is not ExitReason.EXIT:
        return None

    async def wrote(stream: Stream, limit: int) -> bytes:
        return await output.read(tx, instance_id, view.attempt_id, stream, 0, limit)

    report = read_report(await wrote(Stream.STDERR, _REPORT_BYTES))
    if report is None:
        return None
    return shown(view, call, report, await wrote(Stream.STDOUT, _DATA_BYTES))


def shown(
    view: CommandView, call: FileCall, report: dict[str, Any] | FileFault, data: bytes
) -> str:
    """Return the block of an operation that said ``report`` and wrote ``data``."""
    if isinstance(report, FileFault):
        return _refused(view, report)
    match call.operation:
        case ReadFile():
            return _read(view, call, data, report)
        case ListFolder() | GlobFiles():
            return _listed(view, call, _lines(data))
        case SearchFiles():
            return _found(view, call, _lines(data))
        case _:
            created = "yes" if report.get("created") else None
            size, sha256 = report.get("size"), report.get("sha256")
            return _file(view, call, None, size=size, sha256=sha256, created=created)


def _refused(view: CommandView, fault: FileFault) -> str:
    advice = _ADVICE.get(FileErrorCode(fault.code)) if fault.code in set(FileErrorCode) else None
    text = f"{fault.message}; {advice}" if advice else fault.message
    return render("error", text, code=fault.code, id=view.command_id, ended="yes")


def _read(view: CommandView, call: FileCall, data: bytes, facts: dict[str, Any]) -> str:
    size = int(facts["size"])
    whole = len(data) == size
    about: dict[str, object] = {"size": size, "sha256": facts["sha256"] if whole else None}
    if b"\0" in data:
        text = f"[a binary file of {size:,} bytes; it is not shown]"
        return _file(view, call, text, **about, binary="yes")
    first = int(call.arguments.get("from_line", 1))
    most = int(call.arguments.get("lines", 1 << 30))
    text = data.decode("utf-8", "replace")
    if "\ufffd" in text and not _is_utf8(data, cut=not whole):
        about["encoding"] = "not UTF-8: what is no text is shown as \ufffd"
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
        about["line_ends"] = "\\r\\n: give them so in edit_file"
    lines = text.removesuffix("\n").split("\n") if text else []
    if not whole and lines:
        lines.pop()  # its end is not here
    kept: list[str] = []
    room = _SHOWN_CHARACTERS
    for line in lines[first - 1 : first - 1 + most]:
        cut = _cut(line, _LINE_CHARACTERS)
        room -= len(cut)
        if room < 0 and kept:
            break
        kept.append(cut)
    last = first - 1 + len(kept)
    body = [f"{number:>6}\t{line}" for number, line in enumerate(kept, first)]
    if not kept:
        body.append(f"[it has {len(lines):,} lines]" if lines else "[it is empty]")
    elif last < len(lines):
        body.append(f"[lines {last + 1} to {len(lines)} are not shown; read_file(from_line="
                    f"{last + 1}) goes on here]")  # fmt: skip
    if not whole:
        body.append(f"[only the first {len(data):,} of {size:,} bytes can be read like this; use "
                    "search_files, or start with sed -n, for the rest]")  # fmt: skip
    about["lines"] = f"{first}-{last}" if kept else None
    return _file(view, call, "\n".join(body), **about)


def _listed(view: CommandView, call: FileCall, lines: Sequence[dict[str, Any]]) -> str:
    *entries, last = lines
    body = []
    for entry in entries:
        name = str(entry["path"])
        if entry["type"] == "folder":
            name += "/"
        elif "target" in entry:
            name += f" -> {entry['target']}"
        elif "size" in entry:
            name += f"  {entry['size']:,}"
        body.append(name)
    if last["more"]:
        body.append(f"[there is more; list_folder(after={last['after']!r}) goes on here]")
    return render(
        "folder",
        "\n".join(body) or "[nothing is there]",
        id=view.command_id,
        machine=view.machine_name,
        path=_path(call),
        entries=len(entries),
        more="yes" if last["more"] else None,
        ended="yes",
    )


def _found(view: CommandView, call: FileCall, lines: Sequence[dict[str, Any]]) -> str:
    *found, last = lines
    body = [f"{one['path']}:{one['line']}: {_cut(str(one['text']), _MATCH_CHARACTERS)}"
            for one in found]  # fmt: skip
    if last["more"]:
        body.append("[there are more; search less, or in fewer files]")
    return render(
        "matches",
        "\n".join(body) or "[no line matches]",
        id=view.command_id,
        machine=view.machine_name,
        path=_path(call),
        found=len(found),
        more="yes" if last["more"] else None,
        skipped=last.get("skipped") or None,
        ended="yes",
    )


def _file(view: CommandView, call: FileCall, text: str | None, /, **facts: object) -> str:
    return render(
        "file",
        text,
        id=view.command_id,
        machine=view.machine_name,
        path=_path(call),
        **facts,
        ended="yes",
    )


def _path(call: FileCall) -> str:
    return call.operation.path.decode("utf-8", "replace")


def _cut(line: str, limit: int) -> str:
    return line if len(line) <= limit else f"{line[:limit]} [… {len(line) - limit:,} characters]"


def _is_utf8(data: bytes, *, cut: bool) -> bool:
    """Tell whether bytes are UTF-8; of ``cut`` ones the last character may be broken."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return cut and error.end == len(data) and error.reason == "unexpected end of data"
    return True


def _lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]
