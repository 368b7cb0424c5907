import assert from "node:assert/strict";
import { test } from "node:test";
import { Refresher } from "./refresher.ts";

function an() {
  const asked: string[] = [];
  const finish: (() => void)[] = [];
  const refresher = new Refresher((key) => {
    asked.push(key === null ? "everything" : key.join("/"));
    return new Promise<void>((resolve) => finish.push(resolve));
  });
  return { asked, finish, refresher };
}

/** Longer than keys are gathered for. */
const later = () => new Promise((resolve) => setTimeout(resolve, 120));

test("what comes together is read once", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { asked, refresher } = an();
  for (let i = 0; i < 5; i++) refresher.add(["tickets"]);
  refresher.add(["ticket", "a"]);
  refresher.add(null);
  assert.deepEqual(asked, []);
  t.mock.timers.tick(50);
  assert.deepEqual(asked, ["tickets", "ticket/a", "everything"]);
});

test("what becomes stale while it is read is read once more, not at the same time", async () => {
  const { asked, finish, refresher } = an();
  refresher.add(["tickets"]);
  await later();
  refresher.add(["tickets"]);
  refresher.add(["tickets"]);
  await later();
  assert.deepEqual(asked, ["tickets"]);
  finish[0]?.();
  await later();
  assert.deepEqual(asked, ["tickets", "tickets"]);
  finish[1]?.();
  await later();
  assert.equal(asked.length, 2);
});

test("a key that is slow does not hold up another", async () => {
  const { asked, refresher } = an();
  refresher.add(["slow"]);
  await later();
  refresher.add(["fast"]);
  await later();
  assert.deepEqual(asked, ["slow", "fast"]);
});
