"""An attempt's frames to its committed end, over as many connections as it takes."""

import contextlib
import time
from collections.abc import Callable, Generator
from typing import Final

from farhand_control_plane.client.api import (
    RESUME_CAP_S,
    RESUME_FIRST_S,
    RESUME_FOR_S,
    Api,
    Body,
    Refused,
    path_with,
    segment,
)
from farhand_shared.errors import FarhandError, ProtocolError, Unavailable
from farhand_shared.exec_frames import Frame, FrameKind, decoded

Frames = Generator[Frame, None, None]
_ENDS: Final = (FrameKind.COMMITTED, FrameKind.ERROR)


def follow(api: Api, attempt_id: str) -> Frames:
    """Yield an attempt's frames from its first byte, coming back when a connection breaks."""
    return _Followed(api, attempt_id).frames(None)


def ask(api: Api, path: str, content: bytes) -> Frames:
    """Start a command with one request and yield its frames, coming back as ``follow`` does.

    The request is sent once: lost before it was accepted, nobody knows whether it was taken, and
    Unavailable says so.
    """
    return _Followed(api).frames(lambda: api.open("POST", path, content, timeout_s=None))


class _Followed:
    """What a client has of one attempt."""

    def __init__(self, api: Api, attempt_id: str = "") -> None:
        self._api = api
        self._attempt_id = attempt_id
        self._taken = {FrameKind.STDOUT: 0, FrameKind.STDERR: 0}

    def frames(self, start: Callable[[], Body] | None) -> Frames:
        wait_s, away_since = RESUME_FIRST_S, 0.0
        opening = start or self._resume
        while True:
            broken: FarhandError = Unavailable("the server ended the stream")
            try:
                with contextlib.closing(opening()) as body:
                    for frame in decoded(body.chunks()):
                        wait_s, away_since = RESUME_FIRST_S, 0.0
                        self._note(frame)
                        yield frame
                        if frame.kind in _ENDS:
                            return
            except (Unavailable, ProtocolError) as error:
                broken = error
            except Refused as error:
                if error.status < 500 or not self._attempt_id:
                    raise
                broken = error
            if not self._attempt_id:
                raise Unavailable(
                    f"cannot tell whether it began: {broken}; it is not sent again by itself"
                ) from broken
            opening = self._resume
            now = time.monotonic()
            away_since = away_since or now
            if now - away_since > RESUME_FOR_S:
                raise Unavailable(f"cannot follow the output any longer: {broken}") from broken
            time.sleep(wait_s)  # nothing tells us when the server is back
            wait_s = min(wait_s * 2, RESUME_CAP_S)

    def _resume(self) -> Body:
        path = path_with(
            f"/v1/attempts/{segment(self._attempt_id)}/output",
            {"stdout": self._taken[FrameKind.STDOUT], "stderr": self._taken[FrameKind.STDERR]},
        )
        return self._api.open("GET", path, timeout_s=None)

    def _note(self, frame: Frame) -> None:
        match frame.kind:
            case FrameKind.STDOUT | FrameKind.STDERR:
                self._taken[frame.kind] += len(frame.payload)
            case FrameKind.OMITTED:
                gap = frame.json()
                stream = FrameKind[str(gap["stream"]).upper()]
                self._taken[stream] = gap["offset"] + gap["length"]
            case FrameKind.ACCEPTED:
                self._attempt_id = frame.json()["attempt_id"]
            case _:
                pass
