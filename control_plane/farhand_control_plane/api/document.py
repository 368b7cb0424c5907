"""The API's own description."""

from typing import Any

from fastapi import APIRouter, FastAPI, Request

from farhand_control_plane.api.access import Reader

router = APIRouter()


@router.get("/openapi.json", include_in_schema=False)
async def openapi(caller: Reader, request: Request) -> dict[str, Any]:
    """Return the OpenAPI document."""
    api = request.app
    assert isinstance(api, FastAPI)  # noqa: S101  # it is included in nothing else
    return api.openapi()
