"""Requests that are wrong, and what the API answers."""

import json

import httpx2
import pytest

from farhand_control_plane.db import events
from farhand_control_plane.wiring import Replica
from farhand_shared.errors import FarhandError


async def chat(client: httpx2.AsyncClient, text: str, **more: str) -> httpx2.Response:
    return await client.post("/v1/chat", json={"text": text, **more})


def error_of(answer: httpx2.Response) -> dict[str, str]:
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    assert "Traceback" not in answer.text
    return body["error"]


async def test_a_message_is_accepted_and_says_where_to_follow(client: httpx2.AsyncClient) -> None:
    answer = await chat(client, "which machines do I have?", client_message_id="one")
    assert answer.status_code == 202
    accepted = answer.json()
    assert accepted["eval_id"] is not None
    assert accepted["duplicate"] is False
    again = (await chat(client, "which machines do I have?", client_message_id="one")).json()
    assert again["duplicate"] is True
    assert again["trigger_id"] == accepted["trigger_id"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat", {"text": "hi", "this_machine": "\ud800"}),
        ("/v1/chat", {"text": "hi", "conversation": "a\0b"}),
        ("/v1/tokens", {"name": "x\0", "scopes": ["read"]}),
        ("/v1/tokens", {"name": "x", "scopes": ["read"], "machine": "\ud800"}),
        ("/v1/machines/codes", {"name": "\udfff"}),
        ("/v1/exec", {"machine": "\ud800", "argv": ["true"]}),
        ("/v1/exec", {"machine": "box", "argv": ["true"], "timeout_ms": 10**30}),
    ],
)
async def test_what_no_text_or_number_can_be_is_refused_and_never_a_fault_of_ours(
    client: httpx2.AsyncClient, path: str, body: dict[str, object]
) -> None:
    answer = await client.post(
        path, content=json.dumps(body), headers={"content-type": "application/json"}
    )
    assert answer.status_code in (400, 404), answer.text
    assert error_of(answer)["code"] in ("invalid_input", "not_found")


@pytest.mark.parametrize("nested", ["[" * 150_000, '{"machine": "m", "argv": ' + "[" * 150_000])
async def test_a_body_nested_without_end_is_refused(
    client: httpx2.AsyncClient, nested: str
) -> None:
    answer = await client.post("/v1/exec", content=nested)
    assert answer.status_code == 400
    assert error_of(answer)["code"] == "invalid_input"


@pytest.mark.parametrize("text", ["", "   \n"])
async def test_an_empty_message_is_refused(client: httpx2.AsyncClient, text: str) -> None:
    answer = await chat(client, text)
    assert answer.status_code == 400
    assert error_of(answer)["code"] == "invalid_input"
    assert "empty" in error_of(answer)["message"]


async def test_a_message_of_1_mb_is_refused_with_its_size_and_the_limit(
    client: httpx2.AsyncClient,
) -> None:
    answer = await chat(client, "x" * 1_000_000)
    assert answer.status_code == 413
    error = error_of(answer)
    assert error["code"] == "too_large"
    assert "1,000,000" in error["message"]
    assert "65,536" in error["message"]


async def test_a_body_past_the_limit_is_not_read_on(client: httpx2.AsyncClient) -> None:
    answer = await chat(client, "x" * 5_000_000)
    assert answer.status_code == 413
    assert "the request body is 5,0" in error_of(answer)["message"]

    async def pieces():
        for _ in range(1000):
            yield b"x" * 10_000

    answer = await client.post("/v1/chat", content=pieces())  # no length is declared
    assert answer.status_code == 413


async def test_nul_in_a_message_is_a_plain_error_or_kept(client: httpx2.AsyncClient) -> None:
    answer = await chat(client, "run echo \0 on box")
    assert answer.status_code in (202, 400)
    if answer.status_code == 400:
        assert error_of(answer)["code"] == "invalid_input"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"not json", "json"),
        (b"[]", "body"),
        (b"{}", "text"),
        (b'{"text": 5}', "text"),
        (b'{"text": "x", "colour": "red"}', "colour"),
        (b'{"text": "x", "conversation": ""}', "conversation"),
    ],
)
async def test_a_body_of_another_shape_names_the_field(
    client: httpx2.AsyncClient, content: bytes, named: str
) -> None:
    answer = await client.post(
        "/v1/chat", content=content, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    error = error_of(answer)
    assert error["code"] == "invalid_input"
    assert named in error["message"].lower()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/tickets/nonsense",
        "/v1/tickets/01a22e39-1983-7cba-bf26-ee61ce1306ca",
        "/v1/commands/nonsense",
        "/v1/machines/nonsense",
        "/v1/machines/%00",
        "/v1/machines/codes/nonsense",
        "/v1/nowhere",
    ],
)
async def test_what_is_not_there_is_404_in_the_same_shape(
    client: httpx2.AsyncClient, path: str
) -> None:
    answer = await client.get(path)
    assert answer.status_code == 404
    assert error_of(answer)["code"] == "not_found"


async def test_a_method_that_a_route_lacks_is_405_in_the_same_shape(
    client: httpx2.AsyncClient,
) -> None:
    answer = await client.put("/v1/machines")
    assert answer.status_code == 405
    assert error_of(answer)["code"] == "method_not_allowed"


async def test_a_fault_of_ours_tells_an_id_and_no_more(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("canary-7")

    monkeypatch.setattr("farhand_control_plane.db.machines.list_all", broken)
    answer = await client.get("/v1/machines")
    assert answer.status_code == 500
    error = error_of(answer)
    assert error["code"] == FarhandError.code
    assert "canary-7" not in answer.text
    fault_id = error["message"].rsplit(" ", 1)[1]
    assert any(fault_id in str(vars(record)) for record in caplog.records)


async def test_a_database_that_is_away_is_503(client: httpx2.AsyncClient, replica: Replica) -> None:
    await client.get("/v1/machines")  # the token is known by now
    await replica.database.close()
    answer = await client.get("/v1/machines")
    assert answer.status_code == 503
    assert error_of(answer)["code"] == "database_unreachable"


async def test_healthz_says_503_while_the_replica_stops(
    client: httpx2.AsyncClient, replica: Replica
) -> None:
    replica.serving = False
    assert (await client.get("/healthz")).status_code == 503


async def test_the_description_lists_every_route(client: httpx2.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert "/v1/chat" in document["paths"]
    assert document["paths"]["/v1/chat"]["post"]["security"]


async def test_well_known_hints_at_the_host_that_was_asked(
    client: httpx2.AsyncClient, replica: Replica
) -> None:
    hints = (await client.get("/.well-known/farhand")).json()
    assert hints["enrol_address"] == f"farhand.test:{replica.machines.enrol_port}"
    assert hints["link_address"] == f"farhand.test:{replica.machines.link_port}"
    assert hints["url"] == "http://farhand.test"
    assert "BEGIN CERTIFICATE" in hints["root_certificate_pem"]


@pytest.mark.parametrize("words", [["one"], ["a"] * 7])
async def test_confirming_takes_six_words(client: httpx2.AsyncClient, words: list[str]) -> None:
    answer = await client.post("/v1/machines/box/confirm", json={"words": words})
    assert answer.status_code == 400
    assert "6" in error_of(answer)["message"]


@pytest.mark.parametrize("name", ["", "  ", "x" * 65, "a\nb", "a/b"])
async def test_a_name_that_no_machine_can_have_is_refused(
    client: httpx2.AsyncClient, name: str
) -> None:
    answer = await client.post("/v1/machines/codes", json={"name": name})
    assert answer.status_code == 400
    assert "cannot call a machine" in error_of(answer)["message"]


async def test_a_message_sent_twice_is_followed_from_its_first_arrival(
    client: httpx2.AsyncClient, replica: Replica
) -> None:
    asked = {"text": "hello", "client_message_id": "once"}
    first = (await client.post("/v1/chat", json=asked)).json()
    await client.post("/v1/chat", json={"text": "something else"})
    again = (await client.post("/v1/chat", json=asked)).json()
    assert again == {**first, "duplicate": True}
    async with replica.database.transaction() as tx:
        found = await events.read_after(
            tx, replica.bootstrap.instance_id, again["events_after"], limit=2
        )
    received, opened = found
    assert (received.kind, received.subject_id) == ("trigger_received", first["trigger_id"])
    assert (opened.kind, opened.subject_id) == ("eval_opened", first["eval_id"])
    assert opened.payload == {"trigger_ids": [first["trigger_id"]]}
