import assert from "node:assert/strict";
import { test } from "node:test";
import { type AddFacts, addStep } from "./add_step.ts";

function a(id: string, status: string, owner_member_id = "me") {
  return { id, name: id, status, owner_member_id };
}

function step(facts: Partial<AddFacts<ReturnType<typeof a>>>): string {
  const found = addStep({
    machines: [],
    isReading: false,
    memberId: "me",
    user: null,
    followed: null,
    putOff: new Set(),
    ...facts,
  });
  if (found.kind === "words" || found.kind === "added") return `${found.kind} ${found.machine.id}`;
  return found.kind === "turned away" ? `${found.kind} ${found.name}` : found.kind;
}

const laptop = { id: "laptop", name: "laptop" };

test("a code waits for a computer, its words come by themselves, and it is in", () => {
  assert.equal(step({ machines: [a("old", "active")] }), "code");
  assert.equal(step({ user: laptop, isReading: true }), "reading");
  assert.equal(step({ user: laptop, machines: [a("laptop", "pending")] }), "words laptop");
  assert.equal(step({ user: laptop, machines: [a("laptop", "active")] }), "added laptop");
});

test("a machine that used an earlier code is shown, if this person has to confirm it", () => {
  assert.equal(step({ machines: [a("laptop", "pending")] }), "words laptop");
  assert.equal(step({ machines: [a("laptop", "pending", "another")] }), "code");
  assert.equal(step({ machines: [a("laptop", "pending")], memberId: null }), "code");
});

test("the dialog stays with the machine whose words it shows", () => {
  const machines = [a("laptop", "active"), a("box", "pending")];
  assert.equal(step({ machines, followed: laptop }), "added laptop");
  assert.equal(
    step({ machines, followed: laptop, user: { id: "box", name: "box" } }),
    "added laptop",
  );
});

test("a machine that is gone was turned away, wherever somebody did it", () => {
  assert.equal(step({ user: laptop }), "turned away laptop");
  assert.equal(step({ followed: laptop, isReading: true }), "turned away laptop");
  assert.equal(step({ followed: laptop, machines: [a("box", "pending")] }), "turned away laptop");
});

test("a machine that was put off makes way for a code, and another that waits", () => {
  const putOff = new Set(["laptop"]);
  const machines = [a("laptop", "pending")];
  assert.equal(step({ machines, putOff, followed: laptop }), "code");
  assert.equal(step({ machines: [...machines, a("box", "pending")], putOff }), "words box");
});
