"""Live events over a real connection."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from farhand_control_plane.db import events
from farhand_control_plane.ports import listening_socket
from farhand_control_plane.serve import http_server
from farhand_control_plane.wiring import Replica
from farhand_shared.ids import new_id


@pytest.fixture
async def live(replica: Replica, make_token) -> AsyncIterator[httpx2.AsyncClient]:
    """A client over a socket: streams pass as they come."""
    server = http_server(replica)
    listening = listening_socket("127.0.0.1", 0)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    token = await make_token()
    async with httpx2.AsyncClient(
        base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=10
    ) as client:
        yield client
        replica.event_streams.close()
    server.should_exit = True
    await serving


@asynccontextmanager
async def stream(
    client: httpx2.AsyncClient, headers: dict[str, str] | None = None, **params: Any
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    async with client.stream("GET", "/v1/events", params=params, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.aiter_lines()
        assert (await anext(lines)).startswith(":")  # it is open

        async def parsed() -> AsyncIterator[dict[str, Any]]:
            async for line in lines:
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

        yield parsed()


async def emit(replica: Replica, kind: str, **more: Any) -> int:
    async with replica.database.transaction() as tx:
        return await events.emit(tx, replica.bootstrap.instance_id, kind, **more)


async def test_stored_events_come_first_and_new_ones_as_they_happen(
    replica: Replica, live: httpx2.AsyncClient
) -> None:
    first = await emit(replica, "trigger_received", payload={"text": "ä\n\u2028"})
    async with stream(live, after=first - 1) as found, asyncio.timeout(5):
        event = await anext(found)
        assert (event["seq"], event["kind"]) == (first, "trigger_received")
        assert event["payload"] == {"text": "ä\n\u2028"}
        second = await emit(replica, "ticket_opened")
        assert (await anext(found))["seq"] == second


async def test_without_a_number_only_what_happens_from_now_on_comes(
    replica: Replica, live: httpx2.AsyncClient
) -> None:
    await emit(replica, "ticket_opened")
    async with stream(live) as found, asyncio.timeout(5):
        new = await emit(replica, "ticket_closed")
        assert (await anext(found))["seq"] == new


async def test_a_client_that_comes_back_misses_nothing_and_sees_nothing_twice(
    replica: Replica, live: httpx2.AsyncClient
) -> None:
    first = await emit(replica, "report_made")
    async with stream(live, after=first - 1) as found, asyncio.timeout(5):
        assert (await anext(found))["seq"] == first
    away = [await emit(replica, "report_made") for _ in range(3)]
    async with stream(live, headers={"Last-Event-ID": str(first)}) as found, asyncio.timeout(5):
        assert [(await anext(found))["seq"] for _ in away] == away


async def test_events_of_a_thread_or_ticket_can_be_had_alone(
    replica: Replica, live: httpx2.AsyncClient
) -> None:
    thread_id, ticket_id = new_id(), new_id()
    start = await emit(replica, "report_made")
    wanted = await emit(replica, "trigger_received", thread_id=thread_id)
    await emit(replica, "report_made", thread_id=new_id())
    ours = await emit(replica, "ticket_opened", ticket_id=ticket_id)
    async with stream(live, after=start, thread_id=thread_id) as found, asyncio.timeout(5):
        assert (await anext(found))["seq"] == wanted
    async with stream(live, after=start, ticket_id=ticket_id) as found, asyncio.timeout(5):
        assert (await anext(found))["seq"] == ours


@pytest.mark.parametrize(
    ("params", "headers"),
    [
        ({"thread_id": "x"}, {}),
        ({"after": -1}, {}),
        ({"after": 10**18}, {}),  # of another database: nothing would come for years
        ({"after": 10**30}, {}),
        ({}, {"Last-Event-ID": "x"}),
        ({}, {"Last-Event-ID": "1000000"}),
        ({}, {"Last-Event-ID": "9" * 5000}),
    ],
)
async def test_a_wrong_place_to_start_is_refused(
    client: httpx2.AsyncClient, params: dict[str, Any], headers: dict[str, str]
) -> None:
    answer = await client.get("/v1/events", params=params, headers=headers)
    assert answer.status_code == 400


async def test_an_open_stream_does_not_hold_the_servers_stop(
    replica: Replica, live: httpx2.AsyncClient
) -> None:
    async with stream(live) as found, asyncio.timeout(5):
        replica.event_streams.close()
        with pytest.raises(StopAsyncIteration):
            await anext(found)


async def test_a_stream_ends_with_the_session_that_opened_it(
    replica: Replica, live: httpx2.AsyncClient, sign_in
) -> None:
    browser, other = await sign_in(), await sign_in()
    url = str(live.base_url).rstrip("/")
    async with (
        httpx2.AsyncClient(base_url=url, timeout=10) as page,
        stream(page, browser.headers()) as found,
        stream(page, other.headers()) as others,
        asyncio.timeout(8),  # less than a heartbeat: it is told, not found out
    ):
        await emit(replica, "ticket_opened")
        assert (await anext(found))["kind"] == "ticket_opened"
        assert (await anext(others))["kind"] == "ticket_opened"
        answer = await page.post("/v1/sign-out", headers={**browser.headers(), "Origin": url})
        assert answer.status_code == 204
        assert [event async for event in found] == []
        await emit(replica, "ticket_closed")
        assert (await anext(others))["kind"] == "ticket_closed"
