"""The page and its files, for everybody: they hold no data, that comes from the API."""

import html
import secrets
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, Response

from farhand_control_plane.api.built_page import JAVASCRIPT
from farhand_control_plane.api.services import Services, services_of
from farhand_control_plane.api.waiting_page import (
    LOOK_AGAIN_S,
    WAITING_SCRIPT,
    WAITING_SCRIPT_NAME,
    waiting_page,
)
from farhand_control_plane.own_program import for_strangers
from farhand_shared.errors import NotFound

router = APIRouter(include_in_schema=False)

_Services = Annotated[Services, Depends(services_of)]

# Each is the same document; which view it shows the page's own router decides.
VIEWS: Final = ("/", "/chat", "/machines", "/tickets", "/tickets/{ticket_id}", "/sign-in")
_METHODS: Final = ["GET", "HEAD"]
_NONCE_PLACE: Final = "__CSP_NONCE__"
_PROGRAM_PLACE: Final = "__FARHAND_PROGRAM__"
_ASSET_CACHED_S: Final = 365 * 24 * 3600


async def show_view(services: _Services) -> Response:
    """Answer any view's address with the page, or say that it is not built."""
    nonce = secrets.token_urlsafe(16)
    index = await services.page.index()
    if index is not None:
        program = html.escape(for_strangers(), quote=True)
        shown = index.replace(_NONCE_PLACE, nonce).replace(_PROGRAM_PLACE, program)
        return HTMLResponse(shown, headers=_headers(nonce))
    text = waiting_page(nonce, services.page.why_failed())
    headers = {**_headers(nonce), "Retry-After": str(LOOK_AGAIN_S)}
    return HTMLResponse(text, status_code=503, headers=headers)


for _view in VIEWS:
    router.add_api_route(_view, show_view, methods=_METHODS)


async def show_asset(name: str, request: Request, services: _Services) -> Response:
    """Answer with a file of the page; its name holds its hash, so it is good for ever."""
    if name == WAITING_SCRIPT_NAME:
        return Response(WAITING_SCRIPT, headers={"Content-Type": JAVASCRIPT})
    asset = await services.page.asset(name)
    if asset is None:
        raise NotFound(f"cannot find the page's file {name[:200]!r}; load the page again")
    headers = {
        "Cache-Control": f"public, max-age={_ASSET_CACHED_S}, immutable",
        "ETag": asset.etag,
        "Vary": "Accept-Encoding",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    if _names(request.headers.get("if-none-match", ""), asset.etag):
        return Response(status_code=304, headers=headers)
    content = asset.content
    if asset.compressed is not None and _takes_gzip(request.headers.get("accept-encoding", "")):
        content = asset.compressed
        headers["Content-Encoding"] = "gzip"
    # Not as `media_type`: the framework would add a character set of its own.
    return Response(content, headers={**headers, "Content-Type": asset.media_type})


router.add_api_route("/assets/{name}", show_asset, methods=_METHODS)


def _headers(nonce: str) -> dict[str, str]:
    """Return the headers of a document: what it may load, and that nobody frames or keeps it."""
    policy = (
        "default-src 'none'; script-src 'self'; "
        f"style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def _names(if_none_match: str, etag: str) -> bool:
    """Tell whether the client has this form already; strong and weak are compared alike."""
    strong = etag.removeprefix("W/")
    named = {part.strip().removeprefix("W/") for part in if_none_match.split(",")}
    return strong in named or "*" in named


def _takes_gzip(accept_encoding: str) -> bool:
    for part in accept_encoding.lower().split(","):
        coding, _, parameters = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            quality = parameters.strip().removeprefix("q=")
            return quality.strip("0.") != "" or not parameters.strip()
    return False
