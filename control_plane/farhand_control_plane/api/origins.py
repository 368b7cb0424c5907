"""Which page sent a request, and at which address people reach us."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from farhand_shared.errors import NotAllowed

# These change nothing, and no other page can read what they answer.
SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}


class WrongOrigin(NotAllowed):
    """Another page than ours sent the request."""

    code = "wrong_origin"


def check_same_origin(headers: Mapping[str, str], public_url: str) -> None:
    """Raise WrongOrigin unless our own page sent this request.

    Browsers say it in ``Sec-Fetch-Site``, which no script can set, but to https and localhost only;
    everywhere else the host of ``Origin`` must be the one that was asked. The scheme is not
    compared: a proxy that ends TLS need not tell us about it. A request with neither header comes
    from no browser that we know; programs have tokens.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        ours = site == "same-origin"
    else:
        origin = _host_of(headers.get("origin", ""))
        ours = origin != "" and origin in (
            _host(urlsplit(headers["origin"]).scheme, headers.get("host", "")),
            _host_of(public_url),
        )
    if not ours:
        raise WrongOrigin(
            "cannot do this: the request comes from another page; use Farhand's own, or a token"
        )


def is_https(headers: Mapping[str, str], scheme: str, public_url: str) -> bool:
    """Tell whether the page that sent this request is an https one.

    Its own word counts first: a proxy may end TLS and say nothing about it.
    """
    if (origin := headers.get("origin", "null")) != "null":
        return origin.startswith("https://")
    if forwarded := _forwarded_scheme(headers):
        return forwarded == "https"
    return scheme == "https" or public_url.startswith("https://")


def base_url(headers: Mapping[str, str], scheme: str, public_url: str) -> str:
    """Return the address of the page: what the operator says, else as this request reached us."""
    host = headers.get("host", "localhost")
    return public_url or f"{_forwarded_scheme(headers) or scheme}://{host}"


def _forwarded_scheme(headers: Mapping[str, str]) -> str:
    first = headers.get("x-forwarded-proto", "").split(",")[0].strip().lower()
    return first if first in _DEFAULT_PORTS else ""


def _host_of(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that enclose no address
        return ""
    return _host(parts.scheme, parts.netloc)


def _host(scheme: str, netloc: str) -> str:
    return netloc.lower().removesuffix(_DEFAULT_PORTS.get(scheme, ""))
