"""Errors as the API tells them: ``{"error": {"code", "message"}}``, never a traceback."""

import logging
from collections.abc import Mapping
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from farhand_control_plane.api.access import NotAuthenticated
from farhand_control_plane.api.request_body import TooSlow
from farhand_control_plane.logs import log
from farhand_shared.errors import (
    Conflict,
    FarhandError,
    InvalidInput,
    NewerSchema,
    NotAllowed,
    NotFound,
    ProtocolError,
    TooLarge,
    Unavailable,
)
from farhand_shared.ids import new_id

LOGGER = logging.getLogger(__name__)

# Most particular first.
_STATUS: Final[tuple[tuple[type[FarhandError], int], ...]] = (
    (NotAuthenticated, 401),
    (NotAllowed, 403),
    (NotFound, 404),
    (TooSlow, 408),
    (Conflict, 409),
    (TooLarge, 413),
    (InvalidInput, 400),
    (Unavailable, 503),
    (NewerSchema, 503),
    (ProtocolError, 502),
)


_HEADERS: Final[Mapping[int, Mapping[str, str]]] = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},  # the rest of the request may still come, and means nothing
}


def status_of(error: FarhandError) -> int:
    """Return the HTTP status for an error of ours."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def failure(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return an error response in the API's one shape."""
    return JSONResponse(
        {"error": {"code": code, "message": message}}, status_code=status, headers=headers
    )


def failure_of(error: FarhandError) -> JSONResponse:
    """Return the response for an error of ours; its text was written for the caller."""
    status = status_of(error)
    return failure(status, error.code, str(error), _HEADERS.get(status))


async def _ours(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, FarhandError)  # noqa: S101  # registered for these alone
    return failure_of(error)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101  # registered for these alone
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    what = where or "the body"
    reason = str(first["msg"])
    return failure(
        400,
        InvalidInput.code,
        f"cannot read the request: {what}: {reason[:1].lower()}{reason[1:]}; see /openapi.json",
    )


async def _framework(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101  # registered for these alone
    if error.status_code == 404:
        return failure(404, NotFound.code, f"cannot find {request.url.path}; see /openapi.json")
    if error.status_code == 405:
        message = f"cannot {request.method} {request.url.path}; see /openapi.json"
        return failure(405, "method_not_allowed", message, error.headers)
    return failure(error.status_code, InvalidInput.code, f"cannot answer: {error.detail}")


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    return our_fault(request.method, request.url.path, error)


def our_fault(method: str, path: str, error: Exception) -> JSONResponse:
    """Return the response for a fault of our own: the log has it under an id that it names."""
    fault_id = new_id()
    log(
        LOGGER,
        "request_failed",
        level=logging.ERROR,
        fault_id=fault_id,
        method=method,
        path=path,
        error=repr(error),
    )
    LOGGER.debug("request_failed_at", exc_info=error)
    return failure(
        500,
        FarhandError.code,
        f"cannot answer: internal error; the server's log has it under {fault_id}",
    )


def install(app: FastAPI) -> None:
    """Make every failure of the application one of these."""
    app.add_exception_handler(FarhandError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _framework)
    app.add_exception_handler(Exception, _unexpected)
