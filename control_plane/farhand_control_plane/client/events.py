"""The server's events as they happen, over as many connections as it takes."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from farhand_control_plane.client.api import (
    RESUME_CAP_S,
    RESUME_FIRST_S,
    RESUME_FOR_S,
    Api,
    Refused,
    path_with,
)
from farhand_shared.errors import FarhandError, Unavailable

Event = dict[str, Any]  # one of GET /v1/events


def events(
    api: Api, after: int | None, away: Callable[[str], None] | None = None
) -> Iterator[Event | None]:
    """Yield events numbered above ``after`` (None: from now on), and None while it is quiet.

    ``away`` is told when the server stays away for more than a moment.
    """
    wait_s, away_since = RESUME_FIRST_S, 0.0
    while True:
        try:
            body = api.open("GET", path_with("/v1/events", {"after": after}))
            with contextlib.closing(body):
                for event in _parsed(body.chunks()):
                    wait_s, away_since = RESUME_FIRST_S, 0.0
                    if event is not None:
                        after = event["seq"]
                    yield event
            broken: FarhandError = Unavailable("the server ended the stream")
        except Unavailable as error:
            broken = error
        except Refused as error:
            if error.status < 500:
                raise
            broken = error
        now = time.monotonic()
        if not away_since:
            away_since = now
        elif now - away_since > RESUME_FOR_S:
            raise Unavailable(f"cannot follow any longer: {broken}") from broken
        elif away is not None and wait_s == RESUME_CAP_S:
            away("the server is away; waiting for it")
            away = None
        time.sleep(wait_s)  # nothing tells us when the server is back
        wait_s = min(wait_s * 2, RESUME_CAP_S)


def _parsed(chunks: Iterator[bytes]) -> Iterator[Event | None]:
    """Yield the events of a server-sent stream, None for its comments: it is open, and quiet."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n\n")
        for block in whole:
            data = [line for line in block.split(b"\n") if line.startswith(b"data: ")]
            yield json.loads(data[0][len(b"data: ") :]) if data else None
