"""`farhand sign-in` prints a link that opens the page."""

import asyncio
import json
from urllib.request import Request, urlopen

from farhand_control_plane.domain.access import Scope
from tests.integration.control_plane.cli.conftest import Desk, make_token


async def test_the_link_signs_a_browser_in_once(desk: Desk) -> None:
    done = await desk.run("sign-in")
    assert done.status == 0, done.err
    assert done.out.startswith(f"{desk.url}/sign-in#fhl_")
    assert done.out.count("\n") == 1
    assert "works once, until 20" in done.err
    body = json.dumps({"token": done.out.strip().partition("#")[2]}).encode()
    request = Request(
        f"{desk.url}/v1/sign-in", body, {"Content-Type": "application/json"}, method="POST"
    )
    answer = await asyncio.to_thread(urlopen, request)
    with answer:
        assert answer.status == 201
        assert json.load(answer)["page_key"].startswith("fhp_")
        assert answer.headers["Set-Cookie"].startswith("farhand_")


async def test_programs_get_json(desk: Desk) -> None:
    done = await desk.run("sign-in", "--json")
    assert set(json.loads(done.out)) == {"url", "expires_at"}
    assert done.err == ""


async def test_a_token_that_may_not_make_links_is_told_so(desk: Desk) -> None:
    done = await desk.run("sign-in", token=await make_token(desk.replica, Scope.READ))
    assert done.status == 1
    assert done.err == (
        "farhand: cannot do this: the token lacks the scope 'tokens'; use one that has it\n"
    )
