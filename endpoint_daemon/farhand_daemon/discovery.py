"""Where a control plane's listeners are, as its web address tells: hints, never trusted.

What is learned here decides only where to dial; the root pinned by the enrolment code decides
whom to believe. So a certificate of the web address itself is not checked.
"""

import http.client
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

from farhand_daemon.network.pages import open_page
from farhand_shared.errors import InvalidInput, Unavailable
from farhand_shared.limits import KIB

WELL_KNOWN: Final = "/.well-known/farhand"
_TIMEOUT_S: Final = 10.0
_DOCUMENT_MAX_BYTES: Final = 64 * KIB
_EVERY_INTERFACE: Final = ("", "0.0.0.0", "[::]", "::")  # noqa: S104 - recognised, never bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The document of the well-known address."""

    root_pem: bytes
    enrol_address: str
    link_address: str
    instance_name: str
    capability: int | None = None  # of the link protocol; None: it does not say
    server_time: datetime | None = None  # of the answer, to the second; for doctor


def normal_url(text: str) -> str:
    """Return the address as ``scheme://host[:port]``; ``http`` when no scheme is given."""
    candidate = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(candidate)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput(f"cannot use address {text!r}: {error}") from error
    if parts.scheme not in ("http", "https") or not host or not text.isprintable():
        raise InvalidInput(
            f"cannot use address {text!r}: give it as http://HOST:PORT or https://HOST"
        )
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + (f":{port}" if port is not None else "")


def discover(
    url: str, *, timeout_s: float = _TIMEOUT_S, environ: Mapping[str, str] | None = None
) -> Discovery:
    """Fetch and check the document at a normalised address; raise Unavailable or InvalidInput.

    ``environ``: what names a proxy; None: this process's own.
    """
    try:
        with open_page(
            url,
            WELL_KNOWN,
            accept="application/json",
            environ=os.environ if environ is None else environ,
            timeout_s=timeout_s,
        ) as answer:
            body = answer.read(_DOCUMENT_MAX_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Unavailable(
            f"cannot reach {url}: {reason}; check the address and that the control plane runs"
        ) from error
    if answer.status != http.client.OK:
        raise InvalidInput(
            f"cannot enrol at {url}: {WELL_KNOWN} answers {answer.status}; "
            "give the address of a Farhand control plane"
        )
    host = urlsplit(url).hostname or ""
    return replace(_parse(url, host, body), server_time=_date(answer.getheader("Date")))


def _date(header: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(header) if header else None
    except ValueError:
        return None


def _parse(url: str, host: str, body: bytes) -> Discovery:
    try:
        # Any: a stranger's JSON; each value is checked below.
        document: Any = json.loads(body)
        texts = {
            key: document[key]
            for key in ("root_certificate_pem", "enrol_address", "link_address", "instance_name")
        }
        if not all(isinstance(text, str) for text in texts.values()):
            raise TypeError("a value is no text")
        return Discovery(
            root_pem=texts["root_certificate_pem"].encode(),
            enrol_address=_address(texts["enrol_address"], host),
            link_address=_address(texts["link_address"], host),
            instance_name=texts["instance_name"],
            capability=_number(document.get("capability")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"cannot enrol at {url}: its {WELL_KNOWN} is not what a control plane says ({error}); "
            "give the address of a Farhand control plane"
        ) from error


def _number(value: object) -> int | None:
    return value if type(value) is int else None


def _address(text: str, url_host: str) -> str:
    """Check ``host:port``; a host that means "every interface" becomes the one that was asked."""
    host, colon, port = text.rpartition(":")
    if not (colon and text.isascii() and text.isprintable() and port.isdecimal()):
        raise ValueError(f"{text!r} is not host:port")
    if not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not host:port")
    if host in _EVERY_INTERFACE:
        host = f"[{url_host}]" if ":" in url_host else url_host
    return f"{host}:{port}"
