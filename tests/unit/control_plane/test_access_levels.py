"""Each route has its access level beside it."""

from pathlib import Path

from farhand_control_plane.api.public import PUBLIC
from farhand_control_plane.app import access_of, routes
from farhand_control_plane.domain.access import Scope

VIEWS = ("/", "/chat", "/machines", "/tickets", "/tickets/{ticket_id}", "/sign-in")

# What each route opens with. A new route belongs here, so that its level is a decision.
LEVELS = {
    ("GET", "/healthz"): None,
    ("GET", "/.well-known/farhand"): None,
    **{(method, path): None for method in ("GET", "HEAD") for path in VIEWS},
    ("GET", "/assets/{name}"): None,
    ("HEAD", "/assets/{name}"): None,
    ("POST", "/v1/sign-in"): None,
    ("POST", "/v1/sign-in/links"): Scope.TOKENS,
    ("POST", "/v1/sign-out"): Scope.READ,
    ("GET", "/v1/me"): Scope.READ,
    ("GET", "/install.sh"): None,
    ("GET", "/dist/{file}"): None,
    ("GET", "/updates/channels/{channel}"): None,
    ("GET", "/updates/versions/{version}"): None,
    ("GET", "/updates/files/{sha256}"): None,
    ("GET", "/updates/index/{project}/"): None,
    ("GET", "/updates/index/{project}/{file}"): None,
    ("GET", "/v1/chat"): Scope.READ,
    ("POST", "/v1/chat"): Scope.CHAT,
    ("GET", "/v1/events"): Scope.READ,
    ("GET", "/v1/machines"): Scope.READ,
    ("POST", "/v1/machines/codes"): Scope.MACHINES,
    ("GET", "/v1/machines/codes/{code_id}"): Scope.READ,
    ("GET", "/v1/machines/{machine}"): Scope.READ,
    ("POST", "/v1/machines/{machine}/confirm"): Scope.MACHINES,
    ("GET", "/v1/machines/explain"): Scope.READ,
    ("POST", "/v1/machines/{machine}/rename"): Scope.MACHINES,
    ("POST", "/v1/machines/{machine}/labels"): Scope.MACHINES,
    ("POST", "/v1/machines/{machine}/pause"): Scope.MACHINES,
    ("POST", "/v1/machines/{machine}/resume"): Scope.MACHINES,
    ("POST", "/v1/machines/{machine}/revoke"): Scope.MACHINES,
    ("GET", "/v1/provisioners"): Scope.READ,
    ("GET", "/v1/environments"): Scope.READ,
    ("POST", "/v1/environments"): Scope.MACHINES,
    ("POST", "/v1/environments/{machine}/destroy"): Scope.MACHINES,
    ("GET", "/v1/tickets"): Scope.READ,
    ("GET", "/v1/tickets/{ticket_id}"): Scope.READ,
    ("POST", "/v1/tickets/{ticket_id}/answer"): Scope.CHAT,
    ("POST", "/v1/tickets/{ticket_id}/accept"): Scope.CHAT,
    ("POST", "/v1/tickets/{ticket_id}/stop"): Scope.TICKETS,
    ("GET", "/v1/questions"): Scope.READ,
    ("GET", "/v1/questions/{question_id}"): Scope.READ,
    ("POST", "/v1/questions/{question_id}/answer"): Scope.CHAT,
    ("GET", "/v1/commands"): Scope.READ,
    ("GET", "/v1/commands/{command_id}"): Scope.READ,
    ("POST", "/v1/commands/{command_id}/stop"): Scope.EXEC,
    ("GET", "/v1/tokens"): Scope.TOKENS,
    ("POST", "/v1/tokens"): Scope.TOKENS,
    ("DELETE", "/v1/tokens/{token_id}"): Scope.TOKENS,
    ("GET", "/openapi.json"): Scope.READ,
}


def test_the_levels_of_all_routes_are_these() -> None:
    found = {
        (method, route.path): access_of(route)
        for route in routes()
        for method in route.methods or ()
    }
    assert found == LEVELS


def test_only_these_routes_are_public_and_each_says_why() -> None:
    assert {path for (_, path), level in LEVELS.items() if level is None} == set(PUBLIC)
    assert all(len(reason) > 20 for reason in PUBLIC.values())


def test_no_route_is_declared_outside_the_api_folder() -> None:
    package = Path(__file__).resolve().parents[3] / "control_plane" / "farhand_control_plane"
    for path in package.rglob("*.py"):
        if path.parent.name != "api":
            assert "@router." not in path.read_text(), path
