"""How much of a command's output a replica keeps where; tests make these small."""

from dataclasses import dataclass

from farhand_shared.limits import KIB, MIB, SPOOL_HEAD_BYTES, SPOOL_TAIL_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLimits:
    """Per stream, in bytes and seconds."""

    head_bytes: int = SPOOL_HEAD_BYTES  # stored as it comes
    tail_bytes: int = SPOOL_TAIL_BYTES  # kept in a file, stored at the end
    row_bytes: int = 256 * KIB
    flush_s: float = 0.2
    live_bytes: int = 4 * MIB  # kept in memory for a reader that lags behind
    write_bytes: int = 4 * MIB  # at most this much in one statement
