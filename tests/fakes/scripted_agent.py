"""An agent whose messages say what it does, and whose effects are rows that a test can count.

A message's payload may hold ``{"calls": [[tool, arguments], …]}``: the model "asks" for exactly
these calls. Tools: ``effect`` (adds a row to ``test_effects``), ``wait`` (waits for the message
``for``), ``wait_and_tell`` (the same, and sends that message at once), ``tell`` (a message to
another session), ``boom`` (raises). ``{"poison": "read" | "think"}`` makes that part raise for
every batch with the message. It does not model: compaction, streaming, prices, a model that is slow
(give ``before_thinking`` for that).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import psycopg

from farhand_control_plane.db import sessions
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.engine.contract import (
    InboxMessage,
    Json,
    LogItem,
    SessionRef,
    Thought,
    ToolDone,
    ToolIntent,
    ToolWaits,
    UsageRecord,
)
from farhand_shared.ids import SessionId


def make_effects_table(dsn: str) -> None:
    """Make the table of effects. It has no unique key on purpose: a repeated effect must show."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            """
            create table test_effects (
              id bigint generated always as identity primary key,
              session_id uuid not null, item_seq bigint not null, call_index bigint not null,
              what text not null
            )
            """
        )


async def _at_once(ref: SessionRef) -> None:
    """Think without delay."""


@dataclass
class ScriptedAgent:
    """Implements the engine's Agent. Counters are per process."""

    before_thinking: Callable[[SessionRef], Awaitable[None]] = _at_once
    batches: list[list[str]] = field(default_factory=list)  # dedupe keys, one list per read
    thoughts: int = 0
    settled: list[SessionId] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    set_aside_keys: list[str] = field(default_factory=list)

    async def read(self, tx: Tx, ref: SessionRef, batch: Sequence[InboxMessage]) -> Json:
        self.batches.append([message.dedupe_key for message in batch])
        for message in batch:
            if message.payload.get("poison") == "read":
                raise ValueError(f"cannot read {message.dedupe_key}")
        return {
            "messages": [{"key": m.dedupe_key, "kind": m.kind, "payload": m.payload} for m in batch]
        }

    async def think(self, ref: SessionRef, items: Sequence[LogItem]) -> Thought:
        await self.before_thinking(ref)
        self.thoughts += 1
        last = items[-1]
        messages = last.payload["messages"] if last.kind == "input" else []
        calls: list[ToolIntent] = []
        for message in messages:
            if message["payload"].get("poison") == "think":
                raise ValueError(f"cannot think about {message['key']}")
            for name, arguments in message["payload"].get("calls", ()):
                index = len(calls)
                calls.append(
                    ToolIntent(
                        call_index=index, call_id=f"call_{index}", name=name, arguments=arguments
                    )
                )
        return Thought(
            payload={"text": "", "calls": [call.name for call in calls]},
            calls=tuple(calls),
            usage=UsageRecord(model="scripted", prompt_tokens=len(items), output_tokens=1),
        )

    async def act(
        self, tx: Tx, ref: SessionRef, item_seq: int, intent: ToolIntent
    ) -> ToolDone | ToolWaits:
        arguments = intent.arguments
        match intent.name:
            case "effect":
                await tx.execute(
                    """
                    insert into test_effects (session_id, item_seq, call_index, what)
                    values (%s, %s, %s, %s)
                    """,
                    (ref.session_id, item_seq, intent.call_index, arguments["what"]),
                )
                return ToolDone(content=f"did {arguments['what']}")
            case "wait" | "wait_and_tell":
                if intent.name == "wait_and_tell":
                    await self._tell(tx, ref, ref.session_id, arguments["for"])
                return ToolWaits(
                    waits_for=arguments["for"],
                    wait_s=arguments.get("wait_s", 5.0),
                    otherwise=f"started {arguments['for']}",
                )
            case "tell":
                await self._tell(tx, ref, arguments["session_id"], arguments["key"])
                return ToolDone(content="told")
            case "boom":
                raise ZeroDivisionError("boom")
            case unknown:
                return ToolDone(content=f"there is no tool {unknown}")

    async def resolve(self, tx: Tx, ref: SessionRef, message: InboxMessage) -> str:
        return f"inline {message.dedupe_key}"

    async def settle(self, tx: Tx, ref: SessionRef, items: Sequence[LogItem]) -> None:
        self.settled.append(ref.session_id)

    async def set_aside(self, tx: Tx, ref: SessionRef, message: InboxMessage, reason: str) -> None:
        self.set_aside_keys.append(message.dedupe_key)

    async def give_up(self, tx: Tx, ref: SessionRef, reason: str) -> None:
        self.given_up.append(reason)

    async def _tell(self, tx: Tx, ref: SessionRef, session_id: SessionId, key: str) -> None:
        await sessions.append(
            tx, ref.instance_id, session_id, kind="note", dedupe_key=key, payload={}
        )
