"""What a page reads when it opens: the conversation, questions, commands, who is to be added."""

import httpx2
import pytest

from farhand_control_plane.db import commands, machines, outbox, questions
from farhand_control_plane.domain.words import MemberRole
from farhand_control_plane.wiring import Replica
from farhand_shared.command import CommandSpec, Shell
from farhand_shared.ids import CommandId, MachineId, MemberId, QuestionId, ThreadId, new_id
from tests.integration.control_plane.api.conftest import MakeClient, MakeToken


async def test_a_message_is_in_the_history_under_its_own_name(
    replica: Replica, client: httpx2.AsyncClient, make_client: MakeClient, make_token: MakeToken
) -> None:
    sent = await client.post("/v1/chat", json={"text": "hello", "client_message_id": "one"})
    read = (await client.get("/v1/chat")).json()
    (item,) = read["items"]
    assert read["next_cursor"] is None
    assert read["events_after"] > sent.json()["events_after"]
    assert item["id"] == sent.json()["trigger_id"]
    assert (item["kind"], item["text"], item["client_message_id"]) == ("message", "hello", "one")
    assert item["sender"]
    assert item["sender_member_id"] == replica.bootstrap.owner_member_id
    assert item["question"] is None
    other = MemberId(new_id())
    async with replica.database.transaction() as tx:
        await tx.execute(
            "insert into members (instance_id, member_id, name, role) values (%s, %s, 'bob', %s)",
            (replica.bootstrap.instance_id, other, MemberRole.VIEWER.value),
        )
    bob = await make_client(await make_token(member_id=other))
    (theirs,) = (await bob.get("/v1/chat")).json()["items"]
    assert theirs["client_message_id"] is None  # nobody else's names are told


async def test_a_question_stands_in_the_history_as_it_stands_now(
    replica: Replica, client: httpx2.AsyncClient
) -> None:
    sent = (await client.post("/v1/chat", json={"text": "hello"})).json()
    question_id, thread_id = QuestionId(new_id()), ThreadId(sent["thread_id"])
    instance_id = replica.bootstrap.instance_id
    async with replica.database.transaction() as tx:
        await questions.ask(
            tx, instance_id, question_id, ticket_id=None, thread_id=thread_id, text="which?",
            options=("a", "b"),
        )  # fmt: skip
        await outbox.enqueue(
            tx, instance_id, thread_id, kind="question", text="which?", idempotency_key="q",
            question_id=question_id,
        )  # fmt: skip
        await tx.execute("update outbox set state = 'sent', sent_at = farhand_now()")
    item = (await client.get("/v1/chat")).json()["items"][0]
    assert (item["kind"], item["question_id"], item["sender"]) == ("question", question_id, None)
    assert (item["question"]["state"], item["question"]["options"]) == ("pending", ["a", "b"])
    answered = await client.post(f"/v1/questions/{question_id}/answer", json={"answer": "a"})
    assert answered.status_code == 200
    item = (await client.get("/v1/chat", params={"limit": 200})).json()["items"]
    (asked,) = [one for one in item if one["question_id"]]
    assert (asked["question"]["state"], asked["question"]["answer"]) == ("answered", "a")
    shown = await client.get(f"/v1/questions/{question_id}")
    assert shown.json() == asked["question"]
    assert (await client.get(f"/v1/questions/{new_id()}")).status_code == 404
    assert (await client.get("/v1/questions/x")).status_code == 404


@pytest.mark.parametrize(
    "params",
    [
        {"conversation": "a\0b"},
        {"conversation": ""},
        {"limit": 0},
        {"limit": 201},
        {"cursor": "x"},
        {"cursor": "W1tb" * 4000},
    ],
)
async def test_a_conversation_that_cannot_be_is_refused(
    client: httpx2.AsyncClient, params: dict[str, str | int]
) -> None:
    answer = await client.get("/v1/chat", params=params)
    assert answer.status_code == 400
    assert "cannot" in answer.json()["error"]["message"]


async def add_machine(replica: Replica, name: str) -> MachineId:
    machine_id = MachineId(new_id())
    async with replica.database.transaction() as tx:
        await tx.execute(
            "insert into machines (instance_id, machine_id, owner_member_id, name, status)"
            " values (%s, %s, %s, %s, 'active')",
            (replica.bootstrap.instance_id, machine_id, replica.bootstrap.owner_member_id, name),
        )
    return machine_id


async def queue(replica: Replica, machine_id: MachineId, title: str) -> CommandId:
    async with replica.database.transaction() as tx:
        queued = await commands.enqueue(
            tx,
            commands.NewCommand(
                instance_id=replica.bootstrap.instance_id,
                machine_id=machine_id,
                requester_member_id=replica.bootstrap.owner_member_id,
                spec=CommandSpec(run=Shell(script=b"true")),
                title=title,
            ),
        )
    return queued.command_id


async def test_the_open_commands_of_one_machine_are_listed_with_what_they_wait_for(
    replica: Replica, client: httpx2.AsyncClient
) -> None:
    laptop, desktop = await add_machine(replica, "laptop"), await add_machine(replica, "desktop")
    for n in range(3):
        await queue(replica, laptop, f"laptop {n}")
    await queue(replica, desktop, "desktop")
    stopped = await queue(replica, laptop, "stopped")
    await client.post(f"/v1/commands/{stopped}/stop")

    async def titles(**params: str | int | bool) -> list[str]:
        found = (await client.get("/v1/commands", params=params)).json()["items"]
        return [one["title"] for one in found]

    assert await titles() == ["stopped", "desktop", "laptop 2", "laptop 1", "laptop 0"]
    mine = ["laptop 2", "laptop 1", "laptop 0"]
    assert await titles(machine_id=laptop, open=True) == mine
    assert await titles(machine_id="laptop", open=True) == mine
    assert await titles(machine_id=laptop) == ["stopped", *mine]
    assert await titles(open=True) == ["desktop", *mine]
    page = (await client.get("/v1/commands", params={"open": True, "limit": 3})).json()
    assert [one["title"] for one in page["items"]] == ["desktop", "laptop 2", "laptop 1"]
    assert await titles(open=True, cursor=page["next_cursor"]) == ["laptop 0"]
    first = page["items"][0]
    assert (first["state"], first["waiting"], first["machine_seen_at"]) == ("queued", True, None)
    assert (await client.get("/v1/commands", params={"machine_id": "nobody"})).status_code == 404
    assert (await client.get("/v1/commands", params={"cursor": "x"})).status_code == 400
    async with replica.database.transaction() as tx:
        assert await machines.get(tx, replica.bootstrap.instance_id, laptop) is not None


async def test_a_code_comes_with_the_line_that_adds_a_computer(client: httpx2.AsyncClient) -> None:
    made = (await client.post("/v1/machines/codes", json={})).json()
    assert made["url"] == "http://farhand.test"
    assert made["install_line"] == "curl -fsSL http://farhand.test/install.sh | sh"
