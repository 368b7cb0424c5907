"""What machines fetch to change their version: signed releases, and what these depend on.

The index gives the files that a release names by their hashes, and nothing else. It fetches them
with pip from the index that this computer is set up for, when a machine asks for the first time.
"""

import asyncio
import html
from typing import Final

from fastapi import APIRouter
from fastapi.responses import FileResponse, HTMLResponse, Response

from farhand_control_plane.api.carried import carried
from farhand_control_plane.api.wheel_cache import WheelCache
from farhand_shared.errors import NotFound
from farhand_shared.requirements_lock import LockedWheel, normal_name

router = APIRouter(tags=["public"], prefix="/updates")

_SHORT: Final = {"Cache-Control": "no-cache"}
_FOR_EVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}
_cache: Final = WheelCache()


@router.get("/channels/{channel}", response_class=Response)
async def newest(channel: str) -> Response:
    """Give the newest release of a channel: its manifest with the signatures."""
    found = await asyncio.to_thread(carried.newest, channel)
    return Response(found.envelope, media_type="application/json", headers=_SHORT)


@router.get("/versions/{version}", response_class=Response)
async def version(version: str) -> Response:
    """Give the release of a version."""
    found = await asyncio.to_thread(carried.version, version)
    return Response(found.envelope, media_type="application/json", headers=_SHORT)


@router.get("/files/{sha256}", response_class=Response)
async def file(sha256: str) -> Response:
    """Give a file of a release by its hash."""
    content = await asyncio.to_thread(carried.file, sha256)
    return Response(content, media_type="application/octet-stream", headers=_FOR_EVER)


@router.get("/index/{project}/", response_class=HTMLResponse)
async def project(project: str) -> HTMLResponse:
    """List the wheels of a dependency that releases name, as package indexes do."""
    name = normal_name(project)
    wheels = [wheel for (owner, _), wheel in (await _wheels()).items() if owner == name]
    if not wheels:
        raise NotFound(f"cannot find {project[:60]!r}: no release that is carried here needs it")
    links = "\n".join(
        f'<a href="{html.escape(wheel.name)}#sha256={wheel.sha256}">{html.escape(wheel.name)}</a>'
        for wheel in wheels
    )
    return HTMLResponse(f"<!DOCTYPE html>\n<title>{name}</title>\n{links}\n", headers=_SHORT)


@router.get("/index/{project}/{file}", response_class=FileResponse)
async def wheel(project: str, file: str) -> FileResponse:
    """Give such a wheel."""
    found = (await _wheels()).get((normal_name(project), file))
    if found is None:
        raise NotFound(f"cannot find {file[:100]!r}: no release that is carried here needs it")
    path = await _cache.path(found)
    return FileResponse(path, media_type="application/zip", headers=_FOR_EVER)


async def _wheels() -> dict[tuple[str, str], LockedWheel]:
    return await asyncio.to_thread(carried.wheels)
