"""What is stored about the input of commands."""

from enum import StrEnum

from farhand_control_plane.db.transaction import Tx
from farhand_shared.codec import decode_spec
from farhand_shared.ids import CommandId, InstanceId


class InputKind(StrEnum):
    """What a command reads from."""

    NONE = "none"  # the null device
    PIPE = "pipe"
    TERMINAL = "terminal"


async def kind_of(tx: Tx, instance_id: InstanceId, command_id: CommandId) -> InputKind:
    """Return what a command was started with; none when it is unknown."""
    cursor = await tx.execute(
        "select spec from commands where instance_id = %s and command_id = %s",
        (instance_id, command_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return InputKind.NONE
    spec = decode_spec(row["spec"])
    if spec.pty is not None:
        return InputKind.TERMINAL
    return InputKind.PIPE if spec.stdin else InputKind.NONE
