"""What the routes work with, put together by `wiring` and carried by the application."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request

from farhand_control_plane.api.access import Authenticator
from farhand_control_plane.api.built_page import BuiltPage
from farhand_control_plane.api.event_streams import EventStreams
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.environments import Offer
from farhand_shared.ids import InstanceId, SourceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where this deployment is reached, as it tells others. Empty: not named by the operator."""

    public_url: str
    public_host: str
    bind: str
    enrol_port: int
    link_port: int
    root_certificate_pem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    instance_id: InstanceId
    instance_name: str
    chat_source_id: SourceId
    database: Database
    authenticator: Authenticator
    session_cookie: str  # its name
    page: BuiltPage
    offline_planner: bool  # no language model is set
    event_streams: EventStreams
    offer: Offer | None  # what the provisioner makes; None: none is set
    # Called, not held: the listeners' ports are known only once they are open.
    addresses: Callable[[], Addresses]
    ready: Callable[[], bool]


def services_of(request: Request) -> Services:
    """Return the services of the application that serves this request."""
    services: Services = request.app.state.services
    return services
