"""The routes that need neither token nor session, and why."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request

from farhand_control_plane.api.page import VIEWS
from farhand_control_plane.api.services import Services, services_of
from farhand_shared.errors import Unavailable
from farhand_shared.version import CAPABILITY, __version__

router = APIRouter(tags=["public"])

# path → why it is open. Everything else needs a caller; app.create_app enforces it.
PUBLIC: Final = {
    **dict.fromkeys(VIEWS, "the page is the same for everybody and asks the API for all it shows"),
    "/assets/{name}": "files of the page: they hold nothing but its program and its looks",
    "/v1/sign-in": "who signs in is nobody yet; the link's token decides, once",
    "/install.sh": "a computer that is being added has no token yet; what it gets holds no secret",
    "/dist/{file}": "the same computer fetches the daemon, which anybody may have",
    **dict.fromkeys(
        (
            "/updates/channels/{channel}",
            "/updates/versions/{version}",
            "/updates/files/{sha256}",
            "/updates/index/{project}/",
            "/updates/index/{project}/{file}",
        ),
        "machines fetch the daemon's releases as they fetched the daemon; signatures and hashes "
        "decide what they believe, and nothing here is secret",
    ),
    "/healthz": "load balancers and process supervisors have no token, and it tells nothing else",
    "/.well-known/farhand": (
        "a computer that enrols has no token yet; it says where to dial, and the pin in the "
        "enrolment code decides whether that is true"
    ),
}

_Services = Annotated[Services, Depends(services_of)]


@router.get("/healthz")
async def healthz(services: _Services) -> dict[str, str]:
    """Tell whether this replica serves: 200, or 503 while it starts or stops."""
    if not services.ready():
        raise Unavailable("cannot serve: the replica is starting or stopping; try again")
    return {"status": "ok"}


@router.get("/.well-known/farhand")
async def well_known(request: Request, services: _Services) -> dict[str, Any]:
    """Tell a computer where to enrol and a daemon where to dial.

    Hints only. Unless the operator names a host, it is the one that this request was sent to: a
    computer that reached us under a name will reach the other ports under it too.
    """
    at = services.addresses()
    host = at.public_host or request.url.hostname or at.bind
    if ":" in host:
        host = f"[{host.strip('[]')}]"
    return {
        "product": "farhand",
        "version": __version__,
        "capability": CAPABILITY,
        "instance_name": services.instance_name,
        "url": at.public_url or str(request.base_url).rstrip("/"),
        "enrol_address": f"{host}:{at.enrol_port}",
        "link_address": f"{host}:{at.link_port}",
        "root_certificate_pem": at.root_certificate_pem,
    }
