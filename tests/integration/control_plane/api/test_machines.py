"""Machines over HTTP: the choice among them, and what people change about one."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from farhand_control_plane.domain.access import Scope
from farhand_control_plane.wiring import Replica
from farhand_shared.ids import new_id

Machine = Callable[..., Awaitable[str]]


@pytest.fixture
def a_machine(replica: Replica) -> Machine:
    """Puts an active machine of the owner into the database, offline, and returns its id."""

    async def make(
        name: str, *, facts: str = '{"os": "linux", "tools": {"git": "2.39.2"}}', member: str = ""
    ) -> str:
        machine_id = new_id()
        async with replica.database.transaction() as tx:
            await tx.execute(
                """
                insert into machines (instance_id, machine_id, owner_member_id, name, status,
                                      trust_level, facts, words, created_at)
                values (%s, %s, %s, %s, 'active', 'trusted', %s, '{}', farhand_now())
                """,
                (
                    replica.bootstrap.instance_id,
                    machine_id,
                    member or replica.bootstrap.owner_member_id,
                    name,
                    facts,
                ),
            )
        return machine_id

    return make


async def told(replica):
    async with replica.database.transaction() as tx:
        cursor = await tx.execute(
            "select kind, payload from events where kind like 'machine_%%' order by seq"
        )
        return [(row["kind"], row["payload"]) for row in await cursor.fetchall()]


async def test_the_choice_is_explained_for_every_machine(client, a_machine):
    home = await a_machine("home", facts='{"os": "linux", "tools": {"docker": "24.0.7"}}')
    await a_machine("bare")
    await a_machine("old", facts='{"os": "linux"}')
    answer = await client.get(
        "/v1/machines/explain", params={"selector": "  os=Linux   tool:docker>=24"}
    )
    assert answer.status_code == 200, answer.text
    explained = answer.json()
    assert explained["selector"] == "os=Linux tool:docker>=24"
    assert (explained["chosen"], explained["waits"]) == (home, True)
    assert explained["summary"] == "the work waits for home and starts by itself: it alone fits"
    assert {one["name"]: one["reasons"] for one in explained["machines"]} == {
        "home": ["has docker 24.0.7", "os is linux", "offline", "idle"],
        "bare": ["it has no docker"],
        "old": ["it has not told yet whether it has tool:docker>=24"],
    }


async def test_a_selector_that_cannot_be_read_is_refused_at_the_character(client):
    answer = await client.get("/v1/machines/explain", params={"selector": "os=linux fast"})
    assert answer.status_code == 400
    lines = answer.json()["error"]["message"].splitlines()
    assert lines[0].startswith("cannot read the selector at character 10: this is no term")
    assert lines[1:] == ["    os=linux fast", "             ^"]
    assert (await client.get("/v1/machines/explain")).status_code == 400


async def test_a_machine_is_renamed_once_and_names_stay_unique(client, replica, a_machine):
    machine_id = await a_machine("box")
    await a_machine("other")
    renamed = await client.post("/v1/machines/box/rename", json={"name": " Ada's box "})
    assert renamed.json()["name"] == "Ada's box"
    again = await client.post(f"/v1/machines/{machine_id}/rename", json={"name": "Ada's box"})
    assert again.status_code == 200
    taken = await client.post(f"/v1/machines/{machine_id}/rename", json={"name": "other"})
    assert (taken.status_code, taken.json()["error"]["message"]) == (
        409,
        "cannot rename Ada's box: other is taken; choose another name",
    )
    assert await told(replica) == [
        ("machine_renamed", {"machine": "Ada's box", "before": "box"}),
    ]
    for name in ("", "a/b", "a\nb", "explain", "x" * 65):
        refused = await client.post(f"/v1/machines/{machine_id}/rename", json={"name": name})
        assert refused.status_code == 400, name


async def test_two_that_rename_to_the_same_name_at_once_do_not_both(client, a_machine):
    await a_machine("a")
    await a_machine("b")
    answers = await asyncio.gather(
        *(client.post(f"/v1/machines/{name}/rename", json={"name": "same"}) for name in "ab")
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409]


async def test_labels_come_and_go_and_those_of_the_machines_file_win(client, replica, a_machine):
    await a_machine("box", facts='{"os": "linux", "labels": {"team": "own"}}')
    labelled = await client.post(
        "/v1/machines/box/labels", json={"add": ["build", "team=infra", "tier=1"]}
    )
    assert labelled.json()["labels"] == {"build": "", "team": "own", "tier": "1"}
    assert "labels" not in labelled.json()["facts"]
    again = await client.post("/v1/machines/box/labels", json={"add": ["build"]})
    assert again.status_code == 200
    changed = await client.post(
        "/v1/machines/box/labels", json={"add": ["tier=2"], "remove": ["build", "absent"]}
    )
    assert changed.json()["labels"] == {"team": "own", "tier": "2"}
    assert [payload["labels"] for _, payload in await told(replica)] == [
        {"build": "", "team": "infra", "tier": "1"},
        {"team": "infra", "tier": "2"},
    ]
    chosen = await client.get("/v1/machines/explain", params={"selector": "label:tier=2"})
    assert chosen.json()["chosen"] is not None
    for wrong in ("", "=x", "two words", "a=\x07", "-a"):
        refused = await client.post("/v1/machines/box/labels", json={"add": [wrong]})
        assert refused.status_code == 400, wrong
    many = await client.post(
        "/v1/machines/box/labels", json={"add": [f"l{number}" for number in range(64)]}
    )
    assert many.status_code == 400


async def test_a_paused_machine_keeps_its_state_and_says_so_once(client, replica, a_machine):
    await a_machine("box")
    assert (await client.post("/v1/machines/box/pause")).json()["status"] == "paused"
    assert (await client.post("/v1/machines/box/pause")).json()["status"] == "paused"
    explained = (await client.get("/v1/machines/explain", params={"selector": "os=linux"})).json()
    assert explained["chosen"] is None
    assert "it is paused" in explained["machines"][0]["reasons"][0]
    assert (await client.post("/v1/machines/box/resume")).json()["status"] == "active"
    assert (await client.post("/v1/machines/box/resume")).json()["status"] == "active"
    assert [kind for kind, _ in await told(replica)] == ["machine_paused", "machine_resumed"]


@pytest.mark.parametrize("status", ["pending", "quarantined", "revoked"])
async def test_only_a_machine_that_takes_work_can_be_paused(client, replica, a_machine, status):
    machine_id = await a_machine("box")
    async with replica.database.transaction() as tx:
        await tx.execute("update machines set status = %s", (status,))
    for change in ("pause", "resume"):
        answer = await client.post(f"/v1/machines/{machine_id}/{change}")
        assert answer.status_code == 409, answer.text
        assert answer.json()["error"]["message"].startswith(f"cannot {change} box: it ")
    assert await told(replica) == []


@pytest.mark.parametrize(
    ("change", "asked"),
    [("rename", {"name": "mine"}), ("labels", {"add": ["a"]}), ("pause", {}), ("resume", {})],
)
async def test_another_members_machine_is_not_changed(
    make_client, make_token, replica, a_machine, change, asked
):
    async with replica.database.transaction() as tx:
        cursor = await tx.execute(
            """
            insert into members (instance_id, member_id, name, role)
            values (%s, %s, 'eve', 'member') returning member_id
            """,
            (replica.bootstrap.instance_id, new_id()),
        )
        (row,) = await cursor.fetchall()
    await a_machine("box")
    eve = await make_client(await make_token(Scope.MACHINES, member_id=row["member_id"]))
    answer = await eve.post(f"/v1/machines/box/{change}", json=asked)
    assert answer.status_code == 403, answer.text
    assert await told(replica) == []


async def test_a_name_finds_its_machine_in_any_case_while_one_alone_can_be_meant(client, a_machine):
    vm = await a_machine("vm-2")
    assert (await client.get("/v1/machines/VM-2")).json()["id"] == vm
    other = await a_machine("Vm-2")
    assert (await client.get("/v1/machines/vm-2")).json()["id"] == vm
    assert (await client.get("/v1/machines/Vm-2")).json()["id"] == other
    refused = await client.get("/v1/machines/VM-2")
    assert refused.status_code == 404, "a guess would be one"
    assert (await client.get(f"/v1/machines/{other}")).json()["id"] == other
