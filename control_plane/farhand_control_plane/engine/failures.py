"""What a step that failed means for the next one: pure rules over counts.

A session remembers how many of its steps ended badly since its last progress (``resumes_charged``:
an exception, or an owner that died). A Worker gets a few and becomes a tombstone. The Router never
does, since an instance would stand still: each failure halves its batch, until the message that
causes it is alone, and then that message is set aside for a person.
"""

from farhand_control_plane.domain.words import SessionKind
from farhand_control_plane.engine.settings import EngineSettings


def is_spent(kind: SessionKind, charged: int, settings: EngineSettings) -> bool:
    """Tell whether a session has used up its resumes."""
    return kind is not SessionKind.ROUTER and charged > settings.max_resumes


def batch_size(kind: SessionKind, pending: int, charged: int) -> int:
    """Return how many of ``pending`` messages the next batch takes."""
    if kind is not SessionKind.ROUTER:
        return pending
    return max(1, pending >> charged)


def is_poison(kind: SessionKind, pending: int, charged: int, settings: EngineSettings) -> bool:
    """Tell whether the oldest message has failed alone often enough to be set aside."""
    if kind is not SessionKind.ROUTER or pending == 0:
        return False
    halvings = pending.bit_length() - 1  # failures until a batch of one
    return charged - halvings >= settings.park_after


def retry_in_s(kind: SessionKind, pending: int, charged: int, settings: EngineSettings) -> float:
    """Return how long a failed session rests; a batch that can be halved is halved at once."""
    if kind is SessionKind.ROUTER and batch_size(kind, pending, charged) > 1:
        return 0.0
    return min(settings.retry_cap_s, settings.retry_s * 2.0**charged)


def model_retry_in_s(asked_s: float, failures: int, settings: EngineSettings) -> float:
    """Return how long a session rests whose model did not answer for the ``failures``-th time."""
    return min(settings.retry_cap_s, asked_s * 2.0 ** (failures - 1))
