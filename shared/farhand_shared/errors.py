"""The error tree: every failure a caller may act on has a stable ``code``.

FarhandError
├── InvalidInput        the caller's input breaks a rule; the same input fails again
│   └── TooLarge        names the thing, its size and the limit
├── NotAllowed          authenticated, but not entitled
├── NotFound            absent, or another instance's: the two look alike
├── Conflict            the state has moved on; read it again
├── Unavailable         a part is down; the same call may work later (retryable)
├── NewerSchema         the database needs newer code
└── ProtocolError       the other end of the link broke the protocol

Text is lower case, ``cannot X: reason; what to do``, and fit for the person who made the call.
"""


class FarhandError(Exception):
    """Root. ``code`` is stable and part of the API; ``retryable`` answers "would again help?"."""

    code = "internal"
    retryable = False


class InvalidInput(FarhandError):
    code = "invalid_input"


class TooLarge(InvalidInput):
    """Carries what was too large, by how much, and what the limit is (bytes)."""

    code = "too_large"

    def __init__(self, thing: str, size_bytes: int, limit_bytes: int, advice: str) -> None:
        self.thing = thing
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(
            f"{thing} is {size_bytes:,} bytes, the limit is {limit_bytes:,} bytes; {advice}"
        )


class NotAllowed(FarhandError):
    code = "not_allowed"


class NotFound(FarhandError):
    code = "not_found"


class Conflict(FarhandError):
    code = "conflict"


class Unavailable(FarhandError):
    code = "unavailable"
    retryable = True


class NewerSchema(FarhandError):
    code = "newer_schema"


class ProtocolError(FarhandError):
    code = "protocol"
