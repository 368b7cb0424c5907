"""Fetch releases from the control plane that this machine belongs to.

Whom the address leads to is not checked, as with its other pages: the signature of the manifest
and the hashes in it decide what is believed. What comes is bounded in size and time all the same.
"""

import hashlib
import http.client
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from farhand_daemon.network.pages import open_page
from farhand_shared.errors import NotAllowed, NotFound, Unavailable
from farhand_shared.limits import MIB
from farhand_shared.release import ENVELOPE_MAX_BYTES, ReleaseFile

_TIMEOUT_S: Final = 60.0  # of one read; a file on a slow line may take longer in all
_CHUNK_BYTES: Final = MIB // 4


@dataclass(frozen=True, slots=True)
class ReleaseServer:
    """The releases that a control plane carries."""

    url: str  # scheme://host[:port]

    @property
    def index(self) -> str:
        """The package index of the dependencies that its releases name, and of nothing else."""
        return f"{self.url}/updates/index"

    def newest(self, channel: str) -> bytes:
        """Return the envelope of a channel's newest release; NotFound when it has none."""
        return self._small(f"/updates/channels/{quote(channel, safe='')}")

    def named(self, version: str) -> bytes:
        """Return the envelope of a version; NotFound when it is not carried."""
        return self._small(f"/updates/versions/{quote(version, safe='')}")

    def download(self, file: ReleaseFile, target: Path) -> None:
        """Download a file of a release; NotAllowed when it is not the one that was signed."""
        digest, size = hashlib.sha256(), 0
        with self._open(f"/updates/files/{file.sha256}") as answer, target.open("wb") as out:
            while size <= file.size and (data := self._read(answer)):
                size += len(data)
                digest.update(data)
                out.write(data)
        if size != file.size or digest.hexdigest() != file.sha256:
            target.unlink(missing_ok=True)
            raise NotAllowed(
                f"cannot update: {file.name} from {self.url} is not what was signed (it was "
                "changed, or came only in part); try again, and tell whoever runs the server"
            )

    def _small(self, path: str) -> bytes:
        with self._open(path) as answer:
            data = b""
            while len(data) <= ENVELOPE_MAX_BYTES and (more := self._read(answer)):
                data += more
        return data

    def _open(self, path: str) -> http.client.HTTPResponse:
        try:
            answer = open_page(
                self.url, path, accept="*/*", environ=os.environ, timeout_s=_TIMEOUT_S
            )
        except (OSError, http.client.HTTPException) as error:
            raise self._unreached(error) from error
        if answer.status == http.client.OK:
            return answer
        answer.close()
        if answer.status == http.client.NOT_FOUND:
            raise NotFound(
                f"cannot find a release: {self.url} carries none like that; "
                "ask whoever runs the server"
            )
        raise Unavailable(
            f"cannot ask {self.url} for releases: it answers {answer.status}; try again later"
        )

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        try:
            return answer.read(_CHUNK_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreached(error) from error

    def _unreached(self, error: Exception) -> Unavailable:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Unavailable(
            f"cannot reach {self.url} for releases: {reason}; see farhandd doctor, and try again"
        )
