"""Tokens open routes, by scope, and sessions do by both halves; everything else stays shut."""

import asyncio
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from farhand_control_plane.app import access_of, routes
from farhand_control_plane.db import tokens
from farhand_control_plane.domain.access import ALL_SCOPES, Scope, new_token, token_hash
from farhand_control_plane.wiring import Replica
from farhand_shared.ids import InstanceId, MemberId, new_id

# The raw routes in front of the framework, which `routes()` does not know. The second one opens to
# `exec` too, which has a test of its own.
OUTPUT = f"/v1/attempts/{new_id()}/output"
RAW = [("POST", "/v1/exec", Scope.EXEC), ("GET", OUTPUT, Scope.READ)]
FRAMEWORK = [
    (method, route.path.replace("{", "").replace("}", ""), level)
    for route in routes()
    for method in sorted(route.methods or ())
    if (level := access_of(route)) is not None
]
ALL = [*FRAMEWORK, *RAW]


async def test_every_route_is_shut_without_a_token(make_client) -> None:
    client = await make_client()
    for method, path, _ in ALL:
        answer = await client.request(method, path)
        assert answer.status_code == 401, path
        assert answer.json()["error"]["code"] == "not_authenticated"
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("token", ["fh_", "fh_" + "A" * 43, "x" * 46, "fh_" + "ä" * 43])
async def test_every_route_is_shut_to_a_token_that_is_not_known(make_client, token: str) -> None:
    client = await make_client()
    for method, path, _ in ALL:
        answer = await client.request(
            method, path, headers={"Authorization": f"Bearer {token}".encode()}
        )
        assert answer.status_code == 401, path


async def test_every_route_is_shut_to_a_token_with_every_scope_but_its_own(
    make_client, make_token
) -> None:
    for level in Scope:
        client = await make_client(await make_token(*[s for s in Scope if s is not level]))
        for method, path, needed in ALL:
            if needed is level and path != OUTPUT:
                answer = await client.request(method, path, json={})
                assert answer.status_code == 403, path
                assert answer.json()["error"]["code"] == "not_allowed"
                assert repr(level.value) in answer.json()["error"]["message"]


async def test_every_route_opens_to_a_token_with_its_scope_alone(make_client, make_token) -> None:
    for level in Scope:
        client = await make_client(await make_token(level))
        for method, path, needed in ALL:
            # The stream is tried elsewhere; a link must open a page that shows something.
            if needed is not level or path in ("/v1/events", "/v1/sign-in/links"):
                continue
            answer = await client.request(method, path, json={})
            assert answer.status_code not in (401, 403), (method, path, answer.text)
            assert answer.status_code < 500, (method, path, answer.text)


async def test_an_attempts_output_opens_to_who_may_run_and_to_who_may_read(
    make_client, make_token
) -> None:
    for scope in Scope:
        client = await make_client(await make_token(scope))
        opens = scope in (Scope.EXEC, Scope.READ)
        assert (await client.get(OUTPUT)).status_code == (404 if opens else 403), scope


UNSAFE = ("POST", "PUT", "PATCH", "DELETE")


async def test_every_route_is_shut_to_half_a_session(make_client, sign_in, make_token) -> None:
    browser, other = await sign_in(), await sign_in()
    client = await make_client()
    name = browser.cookie.partition("=")[0]
    wrong = {
        "the cookie alone": browser.headers(page_key=""),
        "the key alone": browser.headers(cookie=""),
        "a wrong key": browser.headers(page_key="fhp_" + "A" * 43),
        "a key of another form": browser.headers(page_key="x"),
        "another session's key": browser.headers(page_key=other.page_key),
        "a wrong cookie": browser.headers(cookie=f"{name}=fhs_{'A' * 43}"),
        "a cookie of another name": browser.headers(cookie=f"farhand_00000000={browser.secret}"),
        "the halves changed over": browser.headers(
            cookie=f"{name}={browser.page_key}", page_key=browser.secret
        ),
        "a token as the cookie": browser.headers(cookie=f"{name}={await make_token()}"),
        "a token as the key": browser.headers(page_key=await make_token()),
    }
    for what, headers in wrong.items():
        for method, path, _ in ALL:
            answer = await client.request(method, path, json={}, headers=headers)
            assert answer.status_code == 401, (what, method, path, answer.text)
            assert answer.json()["error"]["code"] == "not_authenticated"


async def test_every_route_is_shut_to_what_a_browser_holds_as_a_token(make_client, sign_in) -> None:
    browser = await sign_in()
    client = await make_client()
    for secret in (browser.secret, browser.page_key, f"fh_{browser.secret[4:]}"):
        for method, path, _ in ALL:
            for more in ({}, browser.headers()):  # a token that opens nothing is not forgiven
                answer = await client.request(
                    method, path, json={}, headers={**more, "Authorization": f"Bearer {secret}"}
                )
                assert answer.status_code == 401, (method, path, answer.text)


async def test_every_route_opens_to_a_session_of_our_own_page(make_client, sign_in) -> None:
    browser = await sign_in()
    client = await make_client()
    ours = [
        browser.headers(),
        {**browser.headers(), "Sec-Fetch-Site": "same-origin"},
        {**browser.headers(), "Authorization": "Basic cHJveHk6cGFzcw=="},  # a proxy's
        {**browser.headers(), "Cookie": f"other=1; {browser.cookie}; farhand_0=x"},
    ]
    for headers in ours:
        for method, path, _ in ALL:
            if path in ("/v1/events", "/v1/sign-out"):  # tried elsewhere
                continue
            answer = await client.request(method, path, json={}, headers=headers)
            assert answer.status_code not in (401, 403), (method, path, answer.text)
            assert answer.status_code < 500, (method, path, answer.text)


async def test_every_route_that_changes_something_is_shut_to_another_page(
    make_client, sign_in
) -> None:
    """Even to one that has got hold of both halves."""
    browser = await sign_in()
    client = await make_client()
    both = {name: value for name, value in browser.headers().items() if name != "Origin"}
    foreign = [
        {},
        {"Origin": "http://evil.test"},
        {"Origin": "http://farhand.test.evil.test"},
        {"Origin": "http://farhand.test:8421"},
        {"Origin": "null"},
        {"Origin": "http://[bad"},
        {"Origin": "farhand.test"},
        {"Origin": "http://farhand.test", "Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": ""},
    ]
    changing = [(method, path) for method, path, _ in ALL if method in UNSAFE]
    assert len(changing) > 10
    for headers in foreign:
        for method, path in changing:
            answer = await client.request(method, path, json={}, headers={**both, **headers})
            assert answer.status_code == 403, (headers, method, path, answer.text)
            assert answer.json()["error"]["code"] == "wrong_origin"


async def test_a_token_is_good_beside_any_cookie_and_from_anywhere(
    make_client, make_token, sign_in
) -> None:
    browser = await sign_in(Scope.TOKENS, Scope.READ)
    client = await make_client(await make_token(Scope.CHAT))
    for headers in (
        browser.headers(),  # the token's scopes count, not the session's
        browser.headers(cookie=f"{browser.cookie}x"),
        {"Origin": "http://evil.test", "Sec-Fetch-Site": "cross-site"},
    ):
        answer = await client.post("/v1/chat", json={"text": "hello"}, headers=headers)
        assert answer.is_success, answer.text
        assert (await client.get("/v1/machines", headers=headers)).status_code == 403


async def test_another_origin_is_told_nothing_that_would_let_it_in(make_client) -> None:
    """No answer of ours ever allows a foreign page to send our headers or to read."""
    client = await make_client()
    asks = {
        "Origin": "http://evil.test",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "farhand-page-key",
    }
    for _, path, _ in ALL:
        answer = await client.request("OPTIONS", path, headers=asks)
        assert answer.status_code >= 400
        assert not any(name.startswith("access-control-") for name in answer.headers)


async def test_no_answer_is_kept_and_no_type_is_guessed(client, make_client) -> None:
    for answer in (
        await client.get("/v1/machines"),
        await (await make_client()).get("/v1/machines"),
        await client.get("/nowhere"),
        await client.post("/nowhere"),
    ):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_public_routes_need_no_token(make_client) -> None:
    client = await make_client()
    assert (await client.get("/healthz")).json() == {"status": "ok"}


async def test_an_expired_token_opens_nothing(replica: Replica, make_client) -> None:
    token = new_token()
    async with replica.database.transaction() as tx:
        await tokens.create(
            tx,
            replica.bootstrap.instance_id,
            replica.bootstrap.owner_member_id,
            name="old",
            token_sha256=token_hash(token),
            scopes=ALL_SCOPES,
            expires_at=datetime.now(UTC) - timedelta(seconds=1),
        )
    client = await make_client(token)
    assert (await client.get("/v1/machines")).status_code == 401


async def test_a_removed_members_token_opens_nothing(replica: Replica, make_client) -> None:
    member_id = MemberId(new_id())
    token = new_token()
    async with replica.database.transaction() as tx:
        await tx.execute(
            "insert into members (instance_id, member_id, name, role, removed_at)"
            " values (%s, %s, 'gone', 'member', now())",
            (replica.bootstrap.instance_id, member_id),
        )
        await tokens.create(
            tx,
            replica.bootstrap.instance_id,
            member_id,
            name="gone",
            token_sha256=token_hash(token),
            scopes=ALL_SCOPES,
        )
    client = await make_client(token)
    assert (await client.get("/v1/machines")).status_code == 401


async def test_a_viewer_sees_and_changes_nothing(replica: Replica, make_client, make_token) -> None:
    member_id = MemberId(new_id())
    async with replica.database.transaction() as tx:
        await tx.execute(
            "insert into members (instance_id, member_id, name, role)"
            " values (%s, %s, 'vera', 'viewer')",
            (replica.bootstrap.instance_id, member_id),
        )
    client = await make_client(await make_token(member_id=member_id))
    for method, path, needed in ALL:
        if path == "/v1/events":
            continue
        answer = await client.request(method, path, json={})
        shut = answer.status_code == 403
        assert shut == (needed is not Scope.READ), (method, path, answer.text)


async def test_a_revoked_token_is_shut_at_once_though_it_was_just_used(
    client: httpx2.AsyncClient, make_client, make_token, until
) -> None:
    made = (await client.post("/v1/tokens", json={"name": "x", "scopes": ["read"]})).json()
    other = await make_client(made["token"])
    assert (await other.get("/v1/machines")).status_code == 200
    assert (await client.delete(f"/v1/tokens/{made['id']}")).status_code == 204

    async def is_shut() -> bool:
        return (await other.get("/v1/machines")).status_code == 401

    async with asyncio.timeout(2):  # far below the time for which a checked token is believed
        await until(is_shut)


async def test_a_token_is_stored_as_its_hash_only(replica: Replica, make_token) -> None:
    token = await make_token(Scope.READ)
    async with replica.database.transaction() as tx:
        cursor = await tx.execute("select t::text as row from api_tokens t")
        rows = "".join(row["row"] for row in await cursor.fetchall())
    assert token not in rows
    assert token_hash(token).hex() in rows


async def test_a_token_cannot_make_one_with_more_scopes(make_client, make_token) -> None:
    client = await make_client(await make_token(Scope.TOKENS, Scope.READ))
    answer = await client.post("/v1/tokens", json={"name": "x", "scopes": ["read", "exec"]})
    assert answer.status_code == 403
    assert "'exec'" in answer.json()["error"]["message"]


async def test_tokens_are_listed_page_by_page_without_the_token(client: httpx2.AsyncClient) -> None:
    for number in range(4):
        body = {"name": f"t{number}", "scopes": ["chat", "read"], "expires_in_days": 2}
        assert (await client.post("/v1/tokens", json=body)).status_code == 201
    names, cursor = [], None
    while True:
        params = {"limit": 2} if cursor is None else {"limit": 2, "cursor": cursor}
        page = (await client.get("/v1/tokens", params=params)).json()
        assert len(page["items"]) <= 2
        assert all("token" not in item for item in page["items"])
        names += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert names == ["test", "t0", "t1", "t2", "t3"]


async def test_another_instances_ids_look_like_absent_ones(
    replica: Replica, client: httpx2.AsyncClient, make_client, make_token
) -> None:
    """Invariant 9: nothing of another instance is seen, and its ids answer as no ids would."""
    other = InstanceId(new_id())
    member = MemberId(new_id())
    async with replica.database.transaction() as tx:
        await tx.execute("insert into instances (instance_id, name) values (%s, 'other')", (other,))
        await tx.execute(
            "insert into members (instance_id, member_id, name, role)"
            " values (%s, %s, 'olga', 'owner')",
            (other, member),
        )
    stranger = await make_client(await make_token(instance_id=other, member_id=member))
    ours = await _one_of_each(replica, client)

    for path, listing in (
        ("/v1/machines", True),
        ("/v1/tickets", True),
        ("/v1/questions", True),
        ("/v1/commands", True),
    ):
        assert (await client.get(path)).json()["items"] != [], path
        assert listing
        assert (await stranger.get(path)).json()["items"] == [], path
    for method, template, body in (
        ("GET", "/v1/machines/{machine}", None),
        ("GET", "/v1/machines/{machine_name}", None),
        ("POST", "/v1/machines/{machine}/revoke", None),
        ("POST", "/v1/machines/{machine}/confirm", {"words": ["a"] * 6}),
        ("GET", "/v1/machines/codes/{code}", None),
        ("GET", "/v1/tickets/{ticket}", None),
        ("POST", "/v1/tickets/{ticket}/stop", {}),
        ("POST", "/v1/tickets/{ticket}/accept", None),
        ("POST", "/v1/tickets/{ticket}/answer", {"answer": "x"}),
        ("POST", "/v1/questions/{question}/answer", {"answer": "x"}),
        ("GET", "/v1/commands/{command}", None),
        ("POST", "/v1/commands/{command}/stop", None),
        ("GET", "/v1/attempts/{attempt}/output", None),
        ("DELETE", "/v1/tokens/{token}", None),
    ):
        theirs = await stranger.request(method, template.format(**ours), json=body)
        nothing = {name: new_id() for name in ours}
        absent = await stranger.request(method, template.format(**nothing), json=body)
        assert theirs.status_code == absent.status_code == 404, (template, theirs.text, absent.text)
        for name, value in ours.items():  # apart from the id asked for, the answers are the same
            absent_text = absent.text.replace(nothing[name], value)
            absent = httpx2.Response(404, text=absent_text)
        assert theirs.text == absent.text, template


async def _one_of_each(replica: Replica, client: httpx2.AsyncClient) -> dict[str, str]:
    """Make a machine, code, ticket, question, command and token in our instance; return the ids."""
    instance = replica.bootstrap.instance_id
    owner = replica.bootstrap.owner_member_id
    names = "machine code thread trigger eval ticket mandate session assignment question command"
    ids = {name: new_id() for name in (*names.split(), "attempt")}
    code = (await client.post("/v1/machines/codes", json={})).json()
    token = (await client.post("/v1/tokens", json={"name": "x", "scopes": ["read"]})).json()
    statements: list[tuple[str, tuple[object, ...]]] = [
        (
            "insert into machines (instance_id, machine_id, owner_member_id, name, status)"
            " values (%s, %s, %s, 'box', 'active')",
            (instance, ids["machine"], owner),
        ),
        (
            "insert into threads (instance_id, thread_id, source_id, external_key)"
            " values (%s, %s, %s, 'k')",
            (instance, ids["thread"], replica.bootstrap.chat_source_id),
        ),
        (
            "insert into triggers (instance_id, trigger_id, source_id, provider_event_id,"
            " thread_id, thread_seq, kind, sender_external_id, sender_member_id, strength)"
            " values (%s, %s, %s, 'e', %s, 1, 'message', 's', %s, 'explicit')",
            (
                instance,
                ids["trigger"],
                replica.bootstrap.chat_source_id,
                ids["thread"],
                owner,
            ),
        ),
        (
            "insert into evals (instance_id, eval_id, thread_id, state, strength,"
            " requester_member_id, policy_version, last_seq_seen, verdict, closed_at)"
            " values (%s, %s, %s, 'closed', 'explicit', %s, 1, 1, 'accept', now())",
            (instance, ids["eval"], ids["thread"], owner),
        ),
        (
            "insert into eval_triggers (instance_id, eval_id, trigger_id) values (%s, %s, %s)",
            (instance, ids["eval"], ids["trigger"]),
        ),
        (
            "insert into tickets (instance_id, ticket_id, eval_id, title, request,"
            " requester_member_id) values (%s, %s, %s, 't', 'r', %s)",
            (instance, ids["ticket"], ids["eval"], owner),
        ),
        (
            "insert into mandates (instance_id, mandate_id, ticket_id, eval_id, policy_version,"
            " scope, mandate_hash, granted_by_member_id, valid_until)"
            """ values (%s, %s, %s, %s, 1,
                '{"actions": [], "machines": "owned", "tier_max": 5}', 'h', %s,
                now() + interval '1 day')""",
            (instance, ids["mandate"], ids["ticket"], ids["eval"], owner),
        ),
        (
            "insert into sessions (instance_id, session_id, kind, ticket_id)"
            " values (%s, %s, 'worker', %s)",
            (instance, ids["session"], ids["ticket"]),
        ),
        (
            "insert into assignments (instance_id, assignment_id, ticket_id, session_id)"
            " values (%s, %s, %s, %s)",
            (instance, ids["assignment"], ids["ticket"], ids["session"]),
        ),
        (
            "insert into subscriptions (instance_id, thread_id, ticket_id, from_seq)"
            " values (%s, %s, %s, 2)",
            (instance, ids["thread"], ids["ticket"]),
        ),
        (
            "insert into questions (instance_id, question_id, ticket_id, text)"
            " values (%s, %s, %s, 'q')",
            (instance, ids["question"], ids["ticket"]),
        ),
        (
            "insert into commands (instance_id, command_id, machine_id, requester_member_id,"
            " ticket_id, spec, input_digest, start_expires_at)"
            " values (%s, %s, %s, %s, %s, '', '', now() + interval '1 day')",
            (instance, ids["command"], ids["machine"], owner, ids["ticket"]),
        ),
        (
            "insert into attempts (instance_id, attempt_id, command_id, machine_id, state)"
            " values (%s, %s, %s, %s, 'queued')",
            (instance, ids["attempt"], ids["command"], ids["machine"]),
        ),
    ]
    async with replica.database.transaction() as tx:
        for statement, values in statements:
            await tx.execute(statement, values)
    return ids | {"machine_name": "box", "code": code["id"], "token": token["id"]}
