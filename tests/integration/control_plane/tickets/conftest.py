"""An instance whose people talk, whose Router decides and whose Workers report, all by hand."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from farhand_control_plane.channels.chat import ChatChannel
from farhand_control_plane.channels.relay import Relay
from farhand_control_plane.db import commands, questions, tickets
from farhand_control_plane.db.bootstrap import Bootstrap
from farhand_control_plane.db.listen import Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.tickets import TicketView
from farhand_control_plane.domain.words import MachineStatus, MemberRole, ReportKind
from farhand_control_plane.ingest.chat import Accepted, ChatMessage, accept_chat
from farhand_control_plane.ingest.due import expire_due
from farhand_control_plane.ingest.handback import HandedBack, hand_back
from farhand_control_plane.ingest.tickets import NewQuestion, reply_sent, report
from farhand_control_plane.ingest.verdicts import Accept, Closed, Decision, close_eval
from farhand_shared.command import CommandSpec, Shell
from farhand_shared.ids import (
    CommandId,
    EvalId,
    MachineId,
    MemberId,
    QuestionId,
    ReportId,
    SessionId,
    TicketId,
    TriggerId,
    new_id,
)


@dataclass
class Desk:
    """Everything a test does to one instance; each call is its own committed transaction."""

    database: Database
    instance: Bootstrap

    @property
    def owner(self) -> MemberId:
        return self.instance.owner_member_id

    @property
    def router(self) -> SessionId:
        return self.instance.router_session_id

    # ── people ──────────────────────────────────────────────────────────────────────────────────

    def message(self, text: str, **changes: Any) -> ChatMessage:
        values: dict[str, Any] = {
            "instance_id": self.instance.instance_id,
            "source_id": self.instance.chat_source_id,
            "member_id": self.owner,
            "conversation": "main",
            "client_message_id": new_id(),
            "text": text,
        }
        return ChatMessage(**{**values, **changes})

    async def say(self, text: str, **changes: Any) -> Accepted:
        async with self.database.transaction() as tx:
            return await accept_chat(tx, self.message(text, **changes))

    async def member(self, role: MemberRole, name: str = "bob") -> MemberId:
        member_id = MemberId(new_id())
        await self.run(
            "insert into members (instance_id, member_id, name, role) values (%s, %s, %s, %s)",
            self.instance.instance_id,
            member_id,
            name,
            role.value,
        )
        return member_id

    # ── the Router ──────────────────────────────────────────────────────────────────────────────

    async def close(self, eval_id: EvalId | None, decision: Decision) -> Closed:
        assert eval_id is not None
        async with self.database.transaction() as tx:
            return await close_eval(tx, self.instance.instance_id, eval_id, decision)

    async def open_ticket(self, text: str = "run uname", **changes: Any) -> TicketView:
        """Let the owner ask for something and the Router accept it."""
        accepted = await self.say(text, **changes)
        await self.read(self.router)
        closed = await self.close(accepted.eval_id, Accept(title=text))
        assert closed.ticket_id is not None
        return await self.ticket(closed.ticket_id)

    async def ticket(self, ticket_id: TicketId) -> TicketView:
        async with self.database.transaction() as tx:
            view = await tickets.get(tx, self.instance.instance_id, ticket_id)
        assert view is not None
        return view

    # ── a Worker ────────────────────────────────────────────────────────────────────────────────

    async def report(
        self, ticket: TicketView, kind: ReportKind, text: str = "here it is", **changes: Any
    ) -> ReportId:
        if kind is ReportKind.QUESTION:
            changes.setdefault("question", NewQuestion(text=text))
        changes.setdefault("effect_key", new_id())
        async with self.database.transaction() as tx:
            return await report(
                tx,
                self.instance.instance_id,
                changes.pop("session_id", ticket.last_session_id),
                ticket.row.ticket_id,
                kind,
                text,
                **changes,
            )

    async def hand_back(self, ticket: TicketView, trigger_id: TriggerId) -> HandedBack:
        async with self.database.transaction() as tx:
            return await hand_back(
                tx, self.instance.instance_id, ticket.row.ticket_id, trigger_id, "not mine"
            )

    async def read(self, session_id: SessionId) -> list[dict[str, Any]]:
        """Take a session's pending messages as the engine does: one item, consumed marks."""
        async with self.database.transaction() as tx:
            cursor = await tx.execute(
                "update sessions set next_item_seq = next_item_seq + 1, ready_at = null"
                " where session_id = %s returning next_item_seq - 1 as seq",
                (session_id,),
            )
            row = await cursor.fetchone()
            assert row is not None
            await tx.execute(
                "insert into items (instance_id, session_id, item_seq, kind, payload, generation,"
                " created_at) values (%s, %s, %s, 'input', %s, 0, farhand_now())",
                (self.instance.instance_id, session_id, row["seq"], Jsonb({})),
            )
            cursor = await tx.execute(
                "update inbox set consumed_by_seq = %s where session_id = %s"
                " and consumed_by_seq is null and parked_at is null"
                " returning kind, dedupe_key, payload, wakes, seq",
                (row["seq"], session_id),
            )
            return sorted(await cursor.fetchall(), key=lambda message: message["seq"])

    # ── machines ────────────────────────────────────────────────────────────────────────────────

    async def machine(
        self,
        name: str = "laptop",
        *,
        owner: MemberId | None = None,
        status: MachineStatus = MachineStatus.ACTIVE,
    ) -> MachineId:
        machine_id = MachineId(new_id())
        await self.run(
            "insert into machines (instance_id, machine_id, owner_member_id, name, status)"
            " values (%s, %s, %s, %s, %s)",
            self.instance.instance_id,
            machine_id,
            owner or self.owner,
            name,
            status.value,
        )
        return machine_id

    async def command(self, ticket: TicketView, machine_id: MachineId) -> CommandId:
        async with self.database.transaction() as tx:
            enqueued = await commands.enqueue(
                tx,
                commands.NewCommand(
                    instance_id=self.instance.instance_id,
                    machine_id=machine_id,
                    requester_member_id=ticket.row.requester_member_id,
                    spec=CommandSpec(run=Shell(script=b"uname")),
                    title="uname",
                    ticket_id=ticket.row.ticket_id,
                    session_id=ticket.session_id,
                    item_seq=1,
                    call_index=int.from_bytes(machine_id.encode()[-6:], "big"),
                    mandate_hash=ticket.mandate.mandate_hash,
                ),
            )
        return enqueued.command_id

    # ── what came of it ─────────────────────────────────────────────────────────────────────────

    async def relay(self) -> int:
        """Deliver what is due, once."""
        relay = Relay(
            self.database,
            Listener(self.database.dsn),
            {"chat": ChatChannel()},
            on_sent=reply_sent,
        )
        return await relay.deliver_due()

    async def due(self) -> int:
        """Do what is due, one transaction after the other, until nothing is."""
        changed = 0
        while True:
            async with self.database.transaction() as tx:
                now = await expire_due(tx)
            if not now:
                return changed
            changed += now

    async def shift_clock(self, seconds: int) -> None:
        await self.run(
            "update schema_record set clock_shift_ms = clock_shift_ms + %s", seconds * 1000
        )

    async def run(self, statement: str, *values: Any) -> None:
        async with self.database.autocommit() as connection:
            await connection.execute(statement, values)

    async def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        async with self.database.autocommit() as connection:
            return await (await connection.execute(query, values)).fetchall()

    async def count(self, table: str) -> int:
        (row,) = await self.rows(f"select count(*) as n from {table}")
        return int(row["n"])

    async def events(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the events of these kinds (none: all), oldest first."""
        rows = await self.rows("select * from events order by seq")
        return [row for row in rows if not kinds or row["kind"] in kinds]

    async def inbox(self, session_id: SessionId) -> list[dict[str, Any]]:
        return await self.rows("select * from inbox where session_id = %s order by seq", session_id)

    async def question(self, question_id: QuestionId | ReportId) -> questions.QuestionView:
        async with self.database.transaction() as tx:
            view = await questions.get(tx, self.instance.instance_id, QuestionId(question_id))
        assert view is not None
        return view


@pytest.fixture
def desk(database: Database, instance: Bootstrap) -> Desk:
    """The instance of this test."""
    return Desk(database=database, instance=instance)


@pytest.fixture
async def other_desk(database: Database, desk: Desk) -> Desk:
    """Another instance in the same database, complete: nothing of it is the first one's."""
    return Desk(database=database, instance=await make_instance(database))


async def make_instance(database: Database) -> Bootstrap:
    """Make an instance as the bootstrap makes the first; the product has one per deployment yet."""
    ids = {name: new_id() for name in ("instance", "member", "source", "router")}
    async with database.transaction() as tx:
        await tx.execute(
            "insert into instances (instance_id, name) values (%s, 'other')", (ids["instance"],)
        )
        await tx.execute(
            "insert into members (instance_id, member_id, name, role)"
            " values (%s, %s, 'eve', 'owner')",
            (ids["instance"], ids["member"]),
        )
        await tx.execute(
            "insert into policies (instance_id, version, rules)"
            " select %s, version, rules from policies limit 1",
            (ids["instance"],),
        )
        await tx.execute(
            "insert into sources (instance_id, source_id, kind, name)"
            " values (%s, %s, 'chat', 'chat')",
            (ids["instance"], ids["source"]),
        )
        await tx.execute(
            "insert into sessions (instance_id, session_id, kind) values (%s, %s, 'router')",
            (ids["instance"], ids["router"]),
        )
    values: dict[str, Any] = {
        "instance_id": ids["instance"],
        "owner_member_id": ids["member"],
        "chat_source_id": ids["source"],
        "router_session_id": ids["router"],
        "policy_version": 1,
    }
    return Bootstrap(**values)


Until = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def change_policy(desk: Desk) -> Callable[[Change], Any]:
    """Write a new policy version: the newest one with one change."""

    async def write(change: Change) -> None:
        (row,) = await desk.rows(
            "select version, rules from policies where instance_id = %s"
            " order by version desc limit 1",
            desk.instance.instance_id,
        )
        change(row["rules"])
        await desk.run(
            "insert into policies (instance_id, version, rules, made_by_member_id)"
            " values (%s, %s, %s, %s)",
            desk.instance.instance_id,
            row["version"] + 1,
            Jsonb(row["rules"]),
            desk.owner,
        )

    return write
