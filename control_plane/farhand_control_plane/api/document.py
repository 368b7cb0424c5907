"""The API's own description: what the framework knows, the streamed routes, the one shape of error.

It is the source of the pages' client, so it holds every closed vocabulary and nothing that depends
on the version of the framework.
"""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request

from farhand_control_plane.api import exec_document, files_document
from farhand_control_plane.api.access import Reader
from farhand_control_plane.api.event_shape import Event
from farhand_control_plane.api.shapes import Failure

router = APIRouter()

_FAILURE: Final = {
    "description": "what cannot be done, why, and what to do",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}},
}
# The framework's own answer to a bad request: `failures` gives another.
_NOT_OURS: Final = ("HTTPValidationError", "ValidationError")


def document(api: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the whole application."""
    described = api.openapi()
    schemas = described["components"]["schemas"]
    for name in _NOT_OURS:
        schemas.pop(name, None)
    for model in (Failure, Event):
        schema = model.model_json_schema(
            ref_template="#/components/schemas/{model}", mode="serialization"
        )
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    # Whoever may call one of ours may call these in the same ways.
    security = described["paths"]["/v1/commands"]["get"]["security"]
    for path, item in (exec_document.PATHS | files_document.PATHS).items():
        described["paths"][path] = {
            method: {**operation, "security": security} for method, operation in item.items()
        }
    for item in described["paths"].values():
        for operation in item.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = _FAILURE
    described["paths"] = dict(sorted(described["paths"].items()))
    described["components"]["schemas"] = dict(sorted(schemas.items()))
    return described


async def _described(request: Request) -> dict[str, Any]:
    api = request.app
    assert isinstance(api, FastAPI)  # noqa: S101  # it is included in nothing else
    return document(api)


@router.get("/openapi.json", include_in_schema=False)
async def openapi(
    caller: Reader, described: Annotated[dict[str, Any], Depends(_described)]
) -> dict[str, Any]:
    """Return the OpenAPI document."""
    return described
