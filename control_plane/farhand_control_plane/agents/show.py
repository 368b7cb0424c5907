"""How objects are shown to a model: one rule per kind, a digest with ids, truncation visible."""

from farhand_control_plane.agents.show_files import file_answer
from farhand_control_plane.db import file_calls, output
from farhand_control_plane.db.command_views import CommandView
from farhand_control_plane.db.machines import MachineView
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.plain_output import plain
from farhand_control_plane.domain.words import MachineKind
from farhand_control_plane.llm.blocks import render
from farhand_shared.command import TERMINAL, shell_exit_status
from farhand_shared.ids import CommandId, InstanceId
from farhand_shared.link_events import Stream

# What of a command's output goes inline; the rest is read with a tool, by offset.
HEAD_BYTES = 3_000
TAIL_BYTES = 5_000
_REPOSITORIES_SHOWN = 30  # of a machine; a selector finds the others too


def machine(view: MachineView) -> str:
    """Return a machine as a block: enough to choose by."""
    facts = view.facts
    labels = sorted(view.labels.items())
    remotes = list(dict.fromkeys(str(one["remote"]) for one in facts.get("repositories", ())))
    return render(
        "machine",
        name=view.name,
        kind=None if view.kind is MachineKind.PERSONAL else view.kind.value,
        presence=view.presence.value,
        status=view.status.value,
        trust_level=view.trust_level,
        os=facts.get("os"),
        arch=facts.get("arch"),
        labels=" ".join(f"{name}={value}" if value else name for name, value in labels) or None,
        repositories=" ".join(remotes[:_REPOSITORIES_SHOWN]) or None,
        running=view.running or None,
        queued=view.queued or None,
    )


def asked(command_id: CommandId, machine_name: str, *, here: bool) -> str:
    """Return a command that was just asked for; not ``here``: it waits for its machine."""
    return render(
        "command",
        id=command_id,
        machine=machine_name,
        state="started" if here else "queued",
        waits_for=None if here else machine_name,
    )


async def command(tx: Tx, instance_id: InstanceId, view: CommandView) -> str:
    """Return a command as a block; with its output when it has ended."""
    if view.state not in TERMINAL:
        waiting = view.waits_because is not None
        return render(
            "command",
            id=view.command_id,
            machine=view.machine_name,
            state=view.state.value,
            waits_for=view.machine_name if waiting else None,
            waits_because=view.waits_because,
            wait_until=view.start_expires_at.isoformat() if waiting else None,
        )
    call = await file_calls.of_command(tx, instance_id, view.command_id)
    if call is not None and (answer := await file_answer(tx, instance_id, view, call)) is not None:
        return answer
    result = view.result
    parts = []
    for stream in Stream:
        text = await _output(tx, instance_id, view, stream)
        if text:
            parts.append(text if stream is Stream.STDOUT else f"[stderr]\n{text}")
    if result is not None:
        parts += [f"[note] {note.text}" for note in result.notes]
    return render(
        "command",
        "\n".join(parts),
        id=view.command_id,
        machine=view.machine_name,
        state=view.state.value,
        reason=view.reason or None,
        exit_status=shell_exit_status(result) if result is not None else None,
        error=view.error or None,
        ended="yes",
    )


async def _output(tx: Tx, instance_id: InstanceId, view: CommandView, stream: Stream) -> str:
    shown = await output.head_tail(tx, instance_id, view.attempt_id, stream, HEAD_BYTES, TAIL_BYTES)
    text = plain(shown.head.decode("utf-8", "replace"))
    if shown.tail:
        text += (
            f"\n[… {shown.omitted:,} bytes left out; read_output(command_id, "
            f"stream={stream.value}, offset={len(shown.head)}) goes on here …]\n"
        )
        text += plain(shown.tail.decode("utf-8", "replace"))
    elif shown.omitted:
        text += f"\n[… {shown.omitted:,} bytes were not kept …]"
    return text
