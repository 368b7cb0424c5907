"""The HTTP application of one replica: its routes, their access levels, its one shape of error."""

from collections.abc import Iterator

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from farhand_control_plane.api import (
    chat,
    commands,
    document,
    environments,
    events,
    failures,
    install,
    machines,
    page,
    public,
    questions,
    sign_in,
    tickets,
    tokens,
    updates,
)
from farhand_control_plane.api.access import Requires
from farhand_control_plane.api.answer_headers import AnswerHeaders
from farhand_control_plane.api.body_limit import BodyLimit
from farhand_control_plane.api.exec import App, ExecApp
from farhand_control_plane.api.request_body import BODY_WITHIN_S
from farhand_control_plane.api.services import Services
from farhand_control_plane.api.sign_in import SIGN_IN_BODY_MAX_BYTES, SIGN_IN_PATH
from farhand_control_plane.domain.access import Scope
from farhand_control_plane.machines.execs import Execs
from farhand_shared.version import __version__

_ROUTERS: tuple[APIRouter, ...] = (
    public.router,
    page.router,
    sign_in.router,
    chat.router,
    events.router,
    install.router,
    updates.router,
    machines.router,
    environments.router,
    tickets.router,
    questions.router,
    commands.router,
    tokens.router,
    document.router,
)


def create_app(services: Services, execs: Execs, *, body_within_s: float = BODY_WITHIN_S) -> App:
    """Return the whole application; raises at once when a route has no access level."""
    api = create_api(services)
    # In front of the framework, because its routing costs as much as a whole short command.
    caller_of = services.authenticator.caller_of
    limited = BodyLimit(
        api,
        authenticate=caller_of,
        open_paths={SIGN_IN_PATH: SIGN_IN_BODY_MAX_BYTES},
        within_s=body_within_s,
    )
    return ExecApp(
        AnswerHeaders(limited),
        authenticate=caller_of,
        execs=execs,
        body_within_s=body_within_s,
    )


def create_api(services: Services) -> FastAPI:
    """Return the routes that the framework serves."""
    # The pages that show the document load scripts from elsewhere: none here.
    api = FastAPI(
        title="Farhand", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    api.state.services = services
    for route in routes():
        if access_of(route) is None and route.path not in public.PUBLIC:
            raise AssertionError(f"route {route.path} has no access level")
    for router in _ROUTERS:
        api.include_router(router)
    failures.install(api)
    return api


def routes() -> Iterator[APIRoute]:
    """Yield every route of the framework, each with its full path."""
    for router in _ROUTERS:
        for route in router.routes:
            if not isinstance(route, APIRoute):
                raise AssertionError(f"route {route!r} is of a kind that has no access level")
            yield route


def access_of(route: APIRoute) -> Scope | None:
    """Return the scope that a route requires; None for one that anybody may call."""
    return next(_scopes(route.dependant), None)


def _scopes(dependant: Dependant) -> Iterator[Scope]:
    for inner in dependant.dependencies:
        if isinstance(inner.call, Requires):
            yield inner.call.scope
        yield from _scopes(inner)
