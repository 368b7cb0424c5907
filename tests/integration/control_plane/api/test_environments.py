"""Environments and kinds over HTTP: who may have one, what is listed, what is refused."""

import pytest

from farhand_control_plane.db import environments
from farhand_control_plane.domain.access import Scope
from farhand_shared.ids import new_id

OFFERED = pytest.mark.parametrize(
    "replica_environ",
    [{"FARHAND_PROVISIONER": "local_process", "FARHAND_ENVIRONMENTS_PER_MEMBER": "1"}],
    ids=["offered"],
)  # nothing is made: the loop does not run here


async def test_without_a_provisioner_nothing_is_made_and_it_is_said_how(client):
    refused = await client.post("/v1/environments")
    assert refused.status_code == 400
    assert "set FARHAND_PROVISIONER" in refused.json()["error"]["message"]
    listed = (await client.get("/v1/provisioners")).json()["items"]
    assert {one["name"]: one["in_use"] for one in listed}.items() >= {
        "local_process": False,
        "local_container": False,
    }.items()
    assert (await client.get("/v1/environments")).json()["items"] == []


@OFFERED
async def test_one_is_asked_for_seen_and_destroyed(client):
    made = await client.post("/v1/environments")
    assert made.status_code == 201, made.text
    one = made.json()
    assert (one["state"], one["ticket_id"], one["provisioner"]) == (
        "creating",
        None,
        "local_process",
    )
    # It is no machine to be confirmed: people see it when it has come.
    assert (await client.get("/v1/machines")).json()["items"] == []
    (coming,) = (await client.get("/v1/machines", params={"coming": True})).json()["items"]
    assert (coming["id"], coming["kind"], coming["words"]) == (
        one["machine_id"],
        "on_demand",
        [],
    )
    (ours,) = [p for p in (await client.get("/v1/provisioners")).json()["items"] if p["in_use"]]
    assert (ours["environments"], ours["limits"]["per_member"]) == (1, 1)
    refused = await client.post("/v1/environments")
    assert refused.status_code == 409
    assert f"you have 1 ({one['name']}), the limit is 1" in refused.json()["error"]["message"]
    gone = await client.post(f"/v1/environments/{one['name']}/destroy")
    assert (gone.json()["state"], gone.json()["reason"]) == (
        "destroying",
        "a person asked for it",
    )
    shown = (await client.get(f"/v1/machines/{one['machine_id']}")).json()
    assert shown["status"] == "revoked"
    again = await client.post(f"/v1/environments/{one['machine_id']}/destroy")
    assert again.json()["state"] == "destroying"


@OFFERED
async def test_only_its_owner_and_owners_of_the_instance_destroy_one(
    client, make_client, make_token, replica
):
    one = (await client.post("/v1/environments")).json()
    member_id = new_id()
    async with replica.database.transaction() as tx:
        await tx.execute(
            "insert into members (instance_id, member_id, name, role)"
            " values (%s, %s, 'x', 'member')",
            (replica.bootstrap.instance_id, member_id),
        )
    other = await make_client(await make_token(member_id=member_id))
    refused = await other.post(f"/v1/environments/{one['machine_id']}/destroy")
    assert refused.status_code == 403
    reader = await make_client(await make_token(Scope.READ))
    assert (await reader.post("/v1/environments")).status_code == 403
    assert (await reader.get("/v1/environments")).status_code == 200
    async with replica.database.transaction() as tx:
        (row,) = await environments.list_all(tx, replica.bootstrap.instance_id)
    assert row.state == "creating"


async def test_a_machine_that_no_provisioner_made_is_not_destroyed(client, replica):
    machine_id = new_id()
    async with replica.database.transaction() as tx:
        await tx.execute(
            """
            insert into machines (instance_id, machine_id, owner_member_id, name, status,
                                  created_at)
            values (%s, %s, %s, 'laptop', 'active', farhand_now())
            """,
            (replica.bootstrap.instance_id, machine_id, replica.bootstrap.owner_member_id),
        )
    refused = await client.post("/v1/environments/laptop/destroy")
    assert refused.status_code == 400
    assert "it is a personal machine" in refused.json()["error"]["message"]
    assert (await client.get("/v1/machines/laptop")).json()["kind"] == "personal"


@OFFERED
async def test_the_choice_says_what_would_be_made(client):
    explained = (
        await client.get("/v1/machines/explain", params={"selector": "kind=on_demand os=Linux"})
    ).json()
    assert explained == {
        "selector": "kind=on-demand os=Linux",
        "chosen": None,
        "waits": True,
        "makes": "local_process",
        "summary": "local_process makes a fresh environment",
        "machines": [],
    }


@pytest.mark.parametrize("kind", [None, "personal", "managed"])
async def test_a_code_says_what_its_machine_will_be(client, replica, kind):
    made = await client.post("/v1/machines/codes", json={"name": "box", "kind": kind})
    assert made.status_code == 201, made.text
    async with replica.database.transaction() as tx:
        cursor = await tx.execute("select kind, for_machine_id from enrolment_codes")
        rows = await cursor.fetchall()
    assert rows == [{"kind": kind or "personal", "for_machine_id": None}]


async def test_no_code_makes_an_environment(client):
    refused = await client.post("/v1/machines/codes", json={"kind": "on_demand"})
    assert refused.status_code == 400
