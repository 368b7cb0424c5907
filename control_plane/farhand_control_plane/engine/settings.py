"""The engine's numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Times in seconds. Leases live on database time, the rest on this process's clock."""

    lease_s: float = 30.0
    renew_s: float = 10.0  # three tries before a lease lapses
    poll_s: float = 5.0  # the net under NOTIFY
    drain_s: float = 5.0  # what a running step gets to reach a boundary before it is cut off
    retry_s: float = 1.0  # after a failed step, doubling
    retry_cap_s: float = 60.0
    max_batch: int = 64  # messages of one step; the rest stay pending
    max_resumes: int = 5  # charged to a session in a row; the next one makes a tombstone
    act_tries: int = 3  # of a call that fails inside; then the model is told so
    park_after: int = 3  # failures of one message alone in its batch (Router)
