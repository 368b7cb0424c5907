"""A browser signs in by a one-time link; its session needs both its halves and our own page."""

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from farhand_control_plane.api.access import Authenticator, NotAuthenticated
from farhand_control_plane.db import sign_in_links, tokens
from farhand_control_plane.db.listen import TOKENS, Listener
from farhand_control_plane.domain.access import ALL_SCOPES, SESSION_S, Scope, token_hash
from farhand_control_plane.wiring import Replica
from farhand_shared.ids import MemberId, new_id


async def link_of(client: httpx2.AsyncClient) -> str:
    """Make a link; return its token."""
    answer = await client.post("/v1/sign-in/links")
    assert answer.status_code == 201, answer.text
    return answer.json()["url"].partition("#")[2]


async def shift_clock(replica: Replica, by: timedelta) -> None:
    async with replica.database.transaction() as tx:
        await tx.execute(
            "update schema_record set clock_shift_ms = %s", (round(by.total_seconds() * 1000),)
        )


async def a_member(replica: Replica) -> MemberId:
    member_id = MemberId(new_id())
    async with replica.database.transaction() as tx:
        await tx.execute(
            "insert into members (instance_id, member_id, name, role)"
            " values (%s, %s, 'mia', 'member')",
            (replica.bootstrap.instance_id, member_id),
        )
    return member_id


# ── links ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_link_names_the_page_and_carries_its_token_where_no_server_sees_it(client) -> None:
    made = (await client.post("/v1/sign-in/links")).json()
    parts = urlsplit(made["url"])
    assert (parts.scheme, parts.netloc, parts.path) == ("http", "farhand.test", "/sign-in")
    assert parts.query == ""
    assert parts.fragment.startswith("fhl_")
    lasts = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=14) < lasts <= timedelta(minutes=15)


async def test_a_link_behind_a_proxy_is_of_the_address_that_people_use(client) -> None:
    headers = {"Host": "farhand.example", "X-Forwarded-Proto": "https"}
    made = (await client.post("/v1/sign-in/links", headers=headers)).json()
    assert made["url"].startswith("https://farhand.example/sign-in#")


async def test_signing_in_gives_a_cookie_that_no_script_reads_and_a_key_once(
    replica: Replica, client, make_client
) -> None:
    browser = await make_client()
    answer = await browser.post("/v1/sign-in", json={"token": await link_of(client)})
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    assert set(answer.json()) == {"page_key", "expires_at"}
    lasts = datetime.fromisoformat(answer.json()["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=29) < lasts <= timedelta(days=30)
    (set_cookie,) = answer.headers.get_list("set-cookie")
    name, cookie = next(iter(SimpleCookie(set_cookie).items()))
    assert name == "farhand_" + replica.bootstrap.instance_id.replace("-", "")[-8:]
    assert cookie.value.startswith("fhs_")
    assert cookie["httponly"]
    assert cookie["samesite"].lower() == "strict"
    assert cookie["path"] == "/"
    assert int(cookie["max-age"]) == SESSION_S
    assert cookie["domain"] == ""
    assert not cookie["secure"]  # the page is http here


@pytest.mark.parametrize(
    ("headers", "secure"),
    [
        ({"Origin": "https://farhand.test"}, True),
        ({"X-Forwarded-Proto": "https"}, True),
        ({"X-Forwarded-Proto": "https, http"}, True),
        ({"X-Forwarded-Proto": "gopher"}, False),
        ({"Origin": "http://farhand.test", "X-Forwarded-Proto": "https"}, False),
    ],
)
async def test_the_cookie_of_an_https_page_never_travels_without_tls(
    client, make_client, headers: dict[str, str], secure: bool
) -> None:
    browser = await make_client()
    answer = await browser.post(
        "/v1/sign-in", json={"token": await link_of(client)}, headers=headers
    )
    assert answer.status_code == 201, answer.text
    assert ("secure" in answer.headers["set-cookie"].lower()) == secure


async def test_a_link_works_once(client, make_client) -> None:
    token = await link_of(client)
    browser = await make_client()
    assert (await browser.post("/v1/sign-in", json={"token": token})).status_code == 201
    again = await (await make_client()).post("/v1/sign-in", json={"token": token})
    assert again.status_code == 401
    error = again.json()["error"]
    assert error["code"] == "sign_in_link_unusable"
    assert error["message"] == (
        "cannot sign in: the link was used already, and it works once; "
        "run farhand sign-in for another"
    )
    assert "set-cookie" not in again.headers


async def test_of_two_who_use_a_link_at_once_one_signs_in(replica, client, make_client) -> None:
    for _ in range(5):
        token = await link_of(client)
        browsers = [await make_client() for _ in range(4)]
        answers = await asyncio.gather(
            *(browser.post("/v1/sign-in", json={"token": token}) for browser in browsers)
        )
        assert sorted(answer.status_code for answer in answers) == [201, 401, 401, 401]


async def test_a_link_is_too_old_after_fifteen_minutes(replica, client, make_client) -> None:
    token = await link_of(client)
    await shift_clock(replica, timedelta(minutes=15))
    answer = await (await make_client()).post("/v1/sign-in", json={"token": token})
    assert answer.status_code == 401
    assert "the link is too old" in answer.json()["error"]["message"]


@pytest.mark.parametrize("token", ["", "x", "fhl_" + "A" * 43, "fh_" + "A" * 43, "fhl_" + "ä" * 43])
async def test_what_is_no_link_signs_nobody_in(make_client, token: str) -> None:
    answer = await (await make_client()).post("/v1/sign-in", json={"token": token})
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "sign_in_link_unusable"
    assert token == "" or token not in answer.text


async def test_a_removed_members_link_signs_nobody_in(replica, make_client, make_token) -> None:
    member_id = await a_member(replica)
    token = await link_of(await make_client(await make_token(member_id=member_id)))
    async with replica.database.transaction() as tx:
        await tx.execute(
            "update members set removed_at = farhand_now() where member_id = %s", (member_id,)
        )
    answer = await (await make_client()).post("/v1/sign-in", json={"token": token})
    assert answer.status_code == 401
    assert "the link was withdrawn" in answer.json()["error"]["message"]


async def test_links_of_a_revoked_token_sign_nobody_in(client, make_client) -> None:
    body = {"name": "x", "scopes": ["tokens", "read"]}
    made = (await client.post("/v1/tokens", json=body)).json()
    token = await link_of(await make_client(made["token"]))
    await client.delete(f"/v1/tokens/{made['id']}")
    answer = await (await make_client()).post("/v1/sign-in", json={"token": token})
    assert answer.status_code == 401


async def test_a_session_may_do_what_the_links_maker_might_and_no_more(
    make_client, sign_in
) -> None:
    browser = await sign_in(Scope.TOKENS, Scope.READ)
    client = await make_client()
    me = (await client.get("/v1/me", headers=browser.headers())).json()
    assert me["scopes"] == ["read", "tokens"]
    denied = await client.post("/v1/chat", json={"text": "x"}, headers=browser.headers())
    assert denied.status_code == 403
    assert denied.json()["error"]["code"] == "not_allowed"


async def test_a_link_that_would_open_an_empty_page_is_not_made(make_client, make_token) -> None:
    client = await make_client(await make_token(Scope.TOKENS))
    answer = await client.post("/v1/sign-in/links")
    assert answer.status_code == 403
    assert "'read'" in answer.json()["error"]["message"]


async def test_nobody_may_send_a_long_body_to_sign_in(make_client) -> None:
    answer = await (await make_client()).post("/v1/sign-in", json={"token": "x" * 2000})
    assert answer.status_code == 413


async def test_another_page_cannot_change_who_is_signed_in(client, make_client) -> None:
    token = await link_of(client)
    for headers in (
        {"Origin": "http://evil.test"},
        {"Origin": "null"},
        {"Origin": "http://farhand.test:8080"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://farhand.test"},
    ):
        answer = await (await make_client()).post(
            "/v1/sign-in", json={"token": token}, headers=headers
        )
        assert answer.status_code == 403, headers
        assert answer.json()["error"]["code"] == "wrong_origin"
    # The link is as good as before.
    assert (await (await make_client()).post("/v1/sign-in", json={"token": token})).is_success


async def test_signing_in_again_ends_the_session_that_the_browser_had(
    client, make_client, sign_in, until
) -> None:
    old = await sign_in()
    other = await sign_in()
    browser = await make_client()
    answer = await browser.post(
        "/v1/sign-in",
        json={"token": await link_of(client)},
        headers={"Cookie": f"theme=dark; {old.cookie}", "Origin": "http://farhand.test"},
    )
    assert answer.status_code == 201
    stranger = await make_client()

    async def is_over() -> bool:
        return (await stranger.get("/v1/me", headers=old.headers())).status_code == 401

    await until(is_over)
    assert (await stranger.get("/v1/me", headers=other.headers())).status_code == 200


# ── sessions ────────────────────────────────────────────────────────────────────────────────────


async def test_me_tells_who_is_signed_in(make_client, sign_in, client) -> None:
    browser = await sign_in()
    me = (await (await make_client()).get("/v1/me", headers=browser.headers())).json()
    assert me["member"]["role"] == "owner"
    assert set(me["member"]) == {"id", "name", "role"}
    assert me["scopes"] == [scope.value for scope in ALL_SCOPES]
    assert me["offline_planner"] is True
    assert datetime.fromisoformat(me["expires_at"]) > datetime.now(UTC)
    assert me["version"]
    assert me["instance_name"]
    assert (await client.get("/v1/me")).json()["expires_at"] is None  # a token's that has no end


async def test_signing_out_ends_the_session_and_takes_the_cookie_away(
    make_client, sign_in, until
) -> None:
    browser = await sign_in()
    client = await make_client()
    assert (await client.get("/v1/me", headers=browser.headers())).status_code == 200
    answer = await client.post("/v1/sign-out", headers=browser.headers())
    assert answer.status_code == 204
    name, cookie = next(iter(SimpleCookie(answer.headers["set-cookie"]).items()))
    assert name == browser.cookie.partition("=")[0]
    assert (cookie.value, cookie["max-age"], cookie["path"]) == ("", "0", "/")

    async def is_over() -> bool:
        return (await client.get("/v1/me", headers=browser.headers())).status_code == 401

    async with asyncio.timeout(2):  # far below the time for which a session is believed
        await until(is_over)


async def test_a_session_that_ended_on_one_replica_ends_on_the_others(
    replica: Replica, make_client, sign_in, until
) -> None:
    browser = await sign_in()
    headers = {name.lower(): value for name, value in browser.headers().items()}
    listener = Listener(replica.database.dsn)
    name = browser.cookie.partition("=")[0]
    other = Authenticator(replica.database, listener, session_cookie=name)
    async with listener:
        assert (await other.caller_of("GET", headers)).session
        client = await make_client()
        assert (await client.post("/v1/sign-out", headers=browser.headers())).is_success

        async def is_over() -> bool:
            try:
                await other.caller_of("GET", headers)
            except NotAuthenticated:
                return True
            return False

        async with asyncio.timeout(2):
            await until(is_over)


async def test_a_session_that_ends_while_it_is_looked_up_is_not_believed_afterwards(
    replica: Replica, make_client, sign_in, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await sign_in()
    client = await make_client()
    async with (
        replica.database.transaction() as tx
    ):  # or the look-up would note it, and lock the row
        await tx.execute("update api_tokens set used_at = farhand_now()")
    told = asyncio.Event()
    # After the authenticator's own: when we are told, it was.
    replica.listener.subscribe(TOKENS, lambda payload: told.set() if payload else None)
    look_up = tokens.authenticate_session

    async def look_up_and_lose(*arguments: Any) -> Any:
        found = await look_up(*arguments)
        if not told.is_set():
            async with replica.database.transaction() as tx:
                await tokens.revoke(tx, found.instance_id, found.token_id)
            await told.wait()
        return found

    monkeypatch.setattr(tokens, "authenticate_session", look_up_and_lose)
    async with asyncio.timeout(5):
        assert (await client.get("/v1/me", headers=browser.headers())).status_code == 200
        assert (await client.get("/v1/me", headers=browser.headers())).status_code == 401


async def test_a_token_cannot_sign_out(client) -> None:
    answer = await client.post("/v1/sign-out")
    assert answer.status_code == 400
    assert "farhand tokens revoke" in answer.json()["error"]["message"]


async def test_a_session_is_listed_and_revoked_like_a_token(
    client, make_client, sign_in, until
) -> None:
    browser = await sign_in()
    other = await make_client()
    assert (await other.get("/v1/me", headers=browser.headers())).status_code == 200
    items = (await client.get("/v1/tokens")).json()["items"]
    (listed,) = [item for item in items if item["name"].startswith("page in ")]
    assert browser.secret not in json.dumps(items)
    assert (await client.delete(f"/v1/tokens/{listed['id']}")).status_code == 204

    async def is_over() -> bool:
        return (await other.get("/v1/me", headers=browser.headers())).status_code == 401

    async with asyncio.timeout(2):
        await until(is_over)


async def test_a_session_is_named_after_the_browser_in_our_own_words(client, make_client) -> None:
    agents = {
        "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0": (
            "Firefox on Linux"
        ),
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_0) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        "Version/18.0 Safari/605.1.15": "Safari on macOS",
        "\x1b[31mevil": "a browser",
    }
    for agent, name in agents.items():
        browser = await make_client()
        await browser.post(
            "/v1/sign-in",
            json={"token": await link_of(client)},
            headers={"User-Agent": agent.encode()},
        )
        newest = (await client.get("/v1/tokens")).json()["items"][-1]
        assert newest["name"] == f"page in {name}"


async def test_a_session_ends_after_thirty_days(replica, make_client, sign_in) -> None:
    browser = await sign_in()
    client = await make_client()
    await shift_clock(replica, timedelta(days=30))
    assert (await client.get("/v1/me", headers=browser.headers())).status_code == 401


async def test_a_cookie_of_the_same_name_that_somebody_else_set_locks_nobody_out(
    make_client, sign_in
) -> None:
    # Whatever else is served on this host may set one, for a longer path: it then comes first.
    ours, theirs = await sign_in(), await sign_in()
    browser = await make_client()
    name = ours.cookie.partition("=")[0]
    for before in (f"{name}=x", theirs.cookie, "; ".join([f"{name}=fhs_{'x' * 43}"] * 3)):
        headers = ours.headers() | {"Cookie": f"{before}; {ours.cookie}"}
        assert (await browser.get("/v1/me", headers=headers)).status_code == 200, before
    stolen = theirs.headers() | {"Cookie": ours.cookie}
    assert (await browser.get("/v1/me", headers=stolen)).status_code == 401


async def test_a_removed_members_session_opens_nothing(replica, make_client, sign_in) -> None:
    member_id = await a_member(replica)
    browser = await sign_in(member_id=member_id)
    async with replica.database.transaction() as tx:
        await tx.execute(
            "update members set removed_at = farhand_now() where member_id = %s", (member_id,)
        )
    assert (await (await make_client()).get("/v1/me", headers=browser.headers())).status_code == 401


async def test_a_believed_session_is_believed_with_its_key_alone(make_client, sign_in) -> None:
    browser, other = await sign_in(), await sign_in()
    client = await make_client()
    for _ in range(2):
        assert (await client.get("/v1/me", headers=browser.headers())).status_code == 200
        for wrong in ("", "fhp_" + "A" * 43, other.page_key, browser.page_key + "A"):
            answer = await client.get("/v1/me", headers=browser.headers(page_key=wrong))
            assert answer.status_code == 401, wrong


async def test_what_is_sent_and_stored_is_in_no_log_and_in_no_row(
    replica, client, make_client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = await link_of(client)
    browser = await make_client()
    answer = await browser.post("/v1/sign-in", json={"token": token})
    secret = answer.cookies[next(iter(answer.cookies))]
    key = answer.json()["page_key"]
    headers = {"Cookie": f"x={secret}", "Farhand-Page-Key": key}
    assert (await browser.post("/v1/sign-in", json={"token": token})).status_code == 401
    assert (await browser.post("/v1/sign-in", json={"tokens": token})).status_code == 400
    assert (await browser.post("/v1/sign-out", headers=headers)).status_code in (401, 403)
    async with replica.database.transaction() as tx:
        cursor = await tx.execute(
            "select t::text as row from api_tokens t union all select l::text from sign_in_links l"
        )
        rows = "".join(row["row"] for row in await cursor.fetchall())
    for hidden in (token, secret, key):
        assert hidden not in caplog.text
        assert hidden not in rows
        assert token_hash(hidden).hex() in rows


async def test_links_and_sessions_that_ended_are_forgotten_after_a_while(
    replica, client, sign_in
) -> None:
    for _ in range(2):
        await sign_in()
    open_link = await link_of(client)
    kept_s = 7 * 24 * 3600

    async def upkeep() -> tuple[int, int]:
        async with replica.database.transaction() as tx:
            links = await sign_in_links.forget_old(tx, kept_s)
            return links, await tokens.forget_ended_sessions(tx, kept_s)

    assert await upkeep() == (0, 0)
    await shift_clock(replica, timedelta(days=8))
    assert await upkeep() == (3, 0)  # the links; the sessions are good for thirty days
    assert open_link
    await shift_clock(replica, timedelta(days=38))
    assert await upkeep() == (0, 2)
    async with replica.database.transaction() as tx:
        left = await tokens.list_live(tx, replica.bootstrap.instance_id, limit=50)
    assert {view.name for view in left} == {"test"}  # what people made stays
