import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChatItem } from "./history.ts";
import type { Outgoing } from "./outgoing.ts";
import { timelineOf } from "./timeline.ts";

const NOW = new Date("2026-03-02T12:00:00Z");

let made = 0;

function an(kind: ChatItem["kind"], fields: Partial<ChatItem> = {}): ChatItem {
  return {
    id: `i${++made}`,
    kind,
    text: "",
    at: "2026-03-02T11:00:00Z",
    sender: kind === "message" ? "Ada" : null,
    sender_member_id: null,
    client_message_id: null,
    verdict: kind === "message" ? "accept" : null,
    opened_ticket_id: null,
    delivered_to: [],
    ticket_id: null,
    reply_to_trigger_id: null,
    question_id: null,
    question: null,
    command_ids: [],
    ...fields,
  };
}

function outgoing(fields: Partial<Outgoing>): Outgoing {
  return {
    id: "m1",
    text: "hi",
    at: "2026-03-02T12:00:00Z",
    state: "sending",
    error: null,
    ...fields,
  };
}

/** What is shown, oldest first, without the days. */
function shown(items: ChatItem[], out: Outgoing[] = [], now = NOW): string[] {
  return timelineOf([...items].reverse(), out, now)
    .filter((entry) => entry.kind !== "day")
    .map((entry) => {
      if (entry.kind === "ticket") return `card ${entry.ticketId}${entry.isRecent ? "" : " old"}`;
      if (entry.kind === "reply" || entry.kind === "question") {
        return entry.about === null ? entry.kind : `${entry.kind} about ${entry.about}`;
      }
      return entry.kind;
    });
}

test("a ticket's card follows the message that opened it, instead of the acknowledgement", () => {
  const items = [
    an("message", { opened_ticket_id: "t1" }),
    an("acknowledgement", { ticket_id: "t1" }),
    an("reply", { ticket_id: "t1" }),
  ];
  assert.deepEqual(shown(items), ["message", "card t1", "reply"]);
});

test("an acknowledgement without its card in sight is words like any other", () => {
  assert.deepEqual(shown([an("acknowledgement", { ticket_id: "t0" })]), ["reply about t0"]);
});

test("a reply that stands elsewhere says which ticket it is about, once", () => {
  const items = [
    an("message", { opened_ticket_id: "t1" }),
    an("message", { opened_ticket_id: "t2" }),
    an("reply", { ticket_id: "t1" }),
    an("reply", { ticket_id: "t1" }),
    an("question", { ticket_id: "t2" }),
  ];
  assert.deepEqual(shown(items), [
    "message",
    "card t1",
    "message",
    "card t2",
    "reply about t1",
    "reply",
    "question about t2",
  ]);
});

test("only the last two cards are recent", () => {
  const items = ["t1", "t2", "t3"].map((id) => an("message", { opened_ticket_id: id }));
  assert.deepEqual(
    shown(items).filter((one) => one.startsWith("card")),
    ["card t1 old", "card t2", "card t3"],
  );
});

test("a message on its way is at the end, and once the server has it, it is there once", () => {
  const before = timelineOf([], [outgoing({})], NOW);
  const item = an("message", { client_message_id: "m1", verdict: null });
  const after = timelineOf([item], [outgoing({ state: "sent" })], NOW);
  const keys = (entries: typeof before) =>
    entries.map((one) => one.key).filter((key) => key !== "thinking");
  assert.deepEqual(
    keys(after).slice(1),
    keys(before).slice(1),
    "the same key: nothing is drawn anew",
  );
  assert.equal(after.filter((one) => one.kind === "outgoing").length, 0);
});

test("the agent thinks about a message until it is judged, or after a while no longer", () => {
  const unjudged = (at: string) => an("message", { verdict: null, at });
  assert.deepEqual(shown([unjudged("2026-03-02T11:59:00Z")]), ["message", "thinking"]);
  assert.deepEqual(shown([unjudged("2026-03-02T11:00:00Z")]), ["message"]);
  assert.deepEqual(shown([], [outgoing({ state: "sent" })]), ["outgoing", "thinking"]);
  assert.deepEqual(shown([], [outgoing({ state: "waiting" })]), ["outgoing"]);
});

test("after a verdict to answer, the agent thinks until its words are there", () => {
  const asked = an("message", { verdict: "answer", at: "2026-03-02T11:59:55Z" });
  assert.deepEqual(shown([asked]), ["message", "thinking"]);
  assert.deepEqual(shown([asked, an("reply")]), ["message", "reply"]);
});

test("a message that went to a ticket is not thought about here", () => {
  const given = an("message", { verdict: null, delivered_to: ["t1"], at: "2026-03-02T11:59:00Z" });
  assert.deepEqual(shown([given]), ["message"]);
});

test("a message names no ticket while it is only offered, and then those that took it", () => {
  const at = "2026-03-02T11:59:55Z";
  const offered = an("message", { verdict: null, delivered_to: ["t1", "t2"], at });
  const names = (items: ChatItem[], now = NOW) =>
    timelineOf([...items].reverse(), [], now).flatMap((one) =>
      one.kind === "message" ? one.keptBy : [],
    );
  assert.deepEqual(names([offered]), []);
  assert.deepEqual(shown([offered]), ["message", "thinking"]);
  const later = new Date("2026-03-02T12:01:00Z");
  assert.deepEqual(names([offered], later), ["t1", "t2"], "nobody gave it back");

  const taken = { ...offered, delivered_to: ["t1"] };
  const spoke = an("reply", { ticket_id: "t1", at: "2026-03-02T11:59:56Z" });
  assert.deepEqual(names([taken, spoke]), ["t1"]);
  const judged = { ...offered, verdict: "attach", delivered_to: ["t2"] } as ChatItem;
  assert.deepEqual(names([judged]), ["t2"]);

  const question = { settled_at: "2026-03-02T11:59:56Z" } as ChatItem["question"];
  const asked = an("question", { ticket_id: "t1", question });
  assert.deepEqual(names([asked, taken]), ["t1"], "its answer");
});

test("each day begins once", () => {
  const days = timelineOf(
    [an("reply", { at: "2026-03-02T11:00:00Z" }), an("message", { at: "2026-02-27T11:00:00Z" })],
    [outgoing({})],
    NOW,
  ).filter((entry) => entry.kind === "day");
  assert.equal(days.length, 2);
});
