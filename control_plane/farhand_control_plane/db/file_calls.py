"""The calls of Workers that are operations on files: what was asked, in both forms."""

from dataclasses import dataclass
from typing import Any

from farhand_control_plane.db.transaction import Tx
from farhand_shared.codec import decode_spec
from farhand_shared.command import Argv, Shell
from farhand_shared.file_operation import FileOperation
from farhand_shared.ids import CommandId, InstanceId


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCall:
    """An operation, and the arguments of the tool's call that asked for it."""

    operation: FileOperation
    arguments: dict[str, Any]  # its shape belongs to the agents


async def of_command(tx: Tx, instance_id: InstanceId, command_id: CommandId) -> FileCall | None:
    """Return what a command does with files; None for one that runs a program."""
    cursor = await tx.execute(
        """
        select c.spec, t.arguments
          from commands c
          left join tool_calls t
                 on t.instance_id = c.instance_id and t.session_id = c.session_id
                and t.item_seq = c.item_seq and t.call_index = c.call_index
         where c.instance_id = %s and c.command_id = %s
        """,
        (instance_id, command_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    run = decode_spec(row["spec"]).run
    if isinstance(run, Shell | Argv):
        return None
    return FileCall(operation=run, arguments=row["arguments"] or {})
