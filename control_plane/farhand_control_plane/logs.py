"""Log lines with an event's name and fields: JSON for machines, text for people.

`log(LOGGER, "replica_started", replica=…)`. Fields are ids and numbers; no secrets and no output of
commands at info.
"""

import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

_FIELDS: Final = "farhand_fields"

REPEATED_EVERY_S: Final = 10.0
# The logger and the beginning of each message that strangers can bring about at will.
REPEATED: Final = (
    ("asyncio", "socket.accept() out of system resource"),
    # What follows it where the server ends meanwhile: it tries to listen again.
    ("asyncio", "Exception in callback BaseSelectorEventLoop._start_serving("),
    ("uvicorn.error", "Exceeded concurrency limit."),
    ("uvicorn.error", "Invalid HTTP request received."),
    ("uvicorn.error", "Unsupported upgrade request."),
)


def log(logger: logging.Logger, event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Write one line: what happened, and the ids and numbers that belong to it."""
    logger.log(level, event, extra={_FIELDS: fields})


def configure(*, json_lines: bool, level: str) -> None:
    """Send everything at ``level`` and above to stderr, in one of the two forms."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if json_lines else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # These speak at info of every request or step they make, without ids of ours.
    for noisy in ("httpx", "httpcore", "httpx2", "openai", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # Others decide how often these happen, and each would be a line, the first with a traceback.
    for name, _ in REPEATED:
        logger = logging.getLogger(name)
        logger.filters[:] = [one for one in logger.filters if not isinstance(one, OncePer)]
    for name, message in REPEATED:
        logging.getLogger(name).addFilter(OncePer(message))


class OncePer(logging.Filter):
    """Lets a message that begins so pass once in a while, with the number that it stands for."""

    def __init__(
        self,
        message: str,
        *,
        every_s: float = REPEATED_EVERY_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._message = message
        self._every_s = every_s
        self._monotonic = monotonic
        self._next_at = float("-inf")
        self._held_back = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if not str(record.msg).startswith(self._message):
            return True
        now = self._monotonic()
        if now < self._next_at:
            self._held_back += 1
            return False
        setattr(record, _FIELDS, {**_fields_of(record), "times": self._held_back + 1})
        record.exc_info = None  # it says where in the library, each time the same
        self._next_at, self._held_back = now + self._every_s, 0
        return True


def _fields_of(record: logging.LogRecord) -> dict[str, Any]:  # whatever the caller gave
    return dict(getattr(record, _FIELDS, {}))


class JsonLines(logging.Formatter):
    """One JSON object per line: at, level, logger, event, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line.update(_fields_of(record))
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """`15:04:05 info event a=1 b=2`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, tz=UTC).strftime("%H:%M:%S")
        fields = "".join(f" {key}={value}" for key, value in _fields_of(record).items())
        text = f"{at} {record.levelname.lower()} {record.getMessage()}{fields}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text
