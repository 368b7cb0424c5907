import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { affectedBy } from "./affected.ts";
import type { LiveEvent } from "./event_stream.ts";

function an(kind: string, ticket_id: string | null = null): LiveEvent {
  return { seq: 1, kind, subject_id: null, thread_id: null, ticket_id, payload: {}, at: "" };
}

test("every kind of event that the API names is known here", () => {
  const url = new URL("../../openapi.json", import.meta.url);
  const document = JSON.parse(readFileSync(url, "utf8"));
  const kinds: string[] = document.components.schemas.EventKind.enum;
  assert.ok(kinds.length > 10);
  for (const kind of kinds) assert.notEqual(affectedBy(an(kind)), null, kind);
});

test("a kind of a later server has everything read again", () => {
  assert.equal(affectedBy(an("of_a_later_server")), null);
});

test("an event about a ticket has that ticket read again, and no other", () => {
  const affected = affectedBy(an("command_ended", "t1")) ?? [];
  assert.ok(affected.some((key) => key.join() === "ticket,t1"));
  assert.ok(!affected.some((key) => key.join() === "ticket"));
});

test("a machine that comes, goes, pauses or has another name concerns tickets that may wait for it", () => {
  for (const kind of ["online", "offline", "paused", "resumed", "renamed"]) {
    const affected = affectedBy(an(`machine_${kind}`)) ?? [];
    const names = affected.map((key) => key.join());
    assert.ok(names.includes("ticket") && names.includes("machines"), kind);
  }
});
