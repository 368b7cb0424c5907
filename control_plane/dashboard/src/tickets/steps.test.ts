import assert from "node:assert/strict";
import { test } from "node:test";
import type { TicketWithAll } from "./queries.ts";
import { stepsOf } from "./steps.ts";

type Told = Parameters<typeof stepsOf>[0];

const at = (second: string) => `2026-11-30T18:46:${second}Z`;

function told(parts: { closed?: boolean } = {}): Told {
  return {
    id: "t",
    outcome: parts.closed ? "done" : null,
    closed_at: parts.closed ? at("29.5") : null,
    why: { triggers: [{ id: "m", text: "run", sender: "ada", received_at: at("29") }] },
    commands: [{ id: "c", queued_at: at("29.963693") } as TicketWithAll["commands"][number]],
    settled_questions: [],
    reports: [{ id: "r", created_at: at("30.03") } as TicketWithAll["reports"][number]],
  };
}

test("steps come in the order in which they happened", () => {
  assert.deepEqual(
    stepsOf(told()).map((step) => step.kind),
    ["asked", "command", "report"],
  );
});

test("an answer stands where it was given; a question that nobody answered has none", () => {
  const question = (id: string, answer: string | null) =>
    ({ id, answer, settled_at: at("29.9") }) as TicketWithAll["settled_questions"][number];
  const ticket = {
    ...told(),
    settled_questions: [question("q", "the old one"), question("p", null)],
  };
  assert.deepEqual(
    stepsOf(ticket).map((step) => (step.kind === "answered" ? step.answer : step.kind)),
    ["asked", "the old one", "command", "report"],
  );
});

test("the end is last, whatever the clocks of its facts say", () => {
  assert.equal(stepsOf(told({ closed: true })).at(-1)?.kind, "closed");
});
