import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError, SignedOut, Unreachable } from "../api/errors.ts";
import { Outbox, type Outgoing } from "./outgoing.ts";

class FakeStorage {
  readonly kept = new Map<string, string>();
  getItem = (name: string) => this.kept.get(name) ?? null;
  setItem = (name: string, value: string) => void this.kept.set(name, value);
  removeItem = (name: string) => void this.kept.delete(name);
}

function an(
  answers: (message: Outgoing) => Promise<unknown>,
  storage = new FakeStorage(),
): { outbox: Outbox; posted: string[]; storage: FakeStorage } {
  const posted: string[] = [];
  let ids = 0;
  const outbox = new Outbox({
    post: (message) => {
      posted.push(message.id);
      return answers(message);
    },
    pause: async () => undefined,
    storage,
    newId: () => `m${++ids}`,
  });
  return { outbox, posted, storage };
}

/** Lets everything that waits for nothing but promises happen. */
const settled = () => new Promise((resolve) => setImmediate(resolve));
const states = (outbox: Outbox) => outbox.messages.map((one) => `${one.id} ${one.state}`);

test("a message is there at once, and gone when the conversation shows it", async () => {
  const { outbox } = an(async () => undefined);
  outbox.add("hello");
  assert.deepEqual(states(outbox), ["m1 sending"]);
  await settled();
  assert.deepEqual(states(outbox), ["m1 sent"]);
  outbox.settle(new Set(["m1"]));
  assert.deepEqual(states(outbox), []);
});

test("messages go out in the order in which they were written", async () => {
  let release = () => {};
  const first = new Promise<void>((resolve) => {
    release = resolve;
  });
  const { outbox, posted } = an((message) => (message.id === "m1" ? first : Promise.resolve()));
  outbox.add("one");
  outbox.add("two");
  await settled();
  assert.deepEqual(posted, ["m1"]);
  release();
  await settled();
  assert.deepEqual(posted, ["m1", "m2"]);
});

test("while the server is away the same message is tried with the same id", async () => {
  let away = 3;
  const { outbox, posted } = an(async () => {
    if (away-- > 0) throw new Unreachable();
  });
  outbox.add("hello");
  await settled();
  assert.deepEqual(posted, ["m1", "m1", "m1", "m1"]);
  assert.deepEqual(states(outbox), ["m1 sent"]);
});

test("a refusal is shown, and a person may try again with the same id", async () => {
  let refuses = true;
  const { outbox, posted } = an(async () => {
    if (refuses) throw new ApiError(422, "invalid", "cannot take the message: it is empty");
  });
  outbox.add(" ");
  await settled();
  assert.equal(outbox.messages[0]?.state, "failed");
  assert.match(outbox.messages[0]?.error ?? "", /it is empty/);
  refuses = false;
  outbox.retry("m1");
  await settled();
  assert.deepEqual(posted, ["m1", "m1"]);
  assert.deepEqual(states(outbox), ["m1 sent"]);
});

test("a refused message does not hold up the next one", async () => {
  const { outbox } = an(async (message) => {
    if (message.id === "m1") throw new ApiError(413, "too_large", "cannot take it");
  });
  outbox.add("large");
  outbox.add("small");
  await settled();
  assert.deepEqual(states(outbox), ["m1 failed", "m2 sent"]);
});

test("a server that stays away is given up after a while, by saying so", async () => {
  const { outbox, posted } = an(async () => {
    throw new Unreachable();
  });
  outbox.add("hello");
  await settled();
  assert.deepEqual(states(outbox), ["m1 failed"]);
  assert.equal(posted.length, 33);
});

test("what was not sent when the page was reloaded is sent with its id", async () => {
  const storage = new FakeStorage();
  const never = an(() => new Promise(() => undefined), storage);
  never.outbox.add("hello");
  const again = an(async () => undefined, storage);
  assert.equal(again.outbox.messages[0]?.text, "hello");
  again.outbox.resume();
  await settled();
  assert.deepEqual(again.posted, ["m1"]);
  assert.equal(storage.kept.size, 0);
});

test("a storage with something else in it is an empty one", () => {
  const storage = new FakeStorage();
  for (const kept of ["{", "3", "[1]", '[{"id":1}]', "null"]) {
    storage.setItem("farhand.outgoing", kept);
    assert.deepEqual(an(async () => undefined, storage).outbox.messages, []);
  }
});

test("signing out forgets what was written", async () => {
  const { outbox, storage } = an(async () => {
    throw new SignedOut("not_authenticated", "cannot answer");
  });
  outbox.add("hello");
  await settled();
  outbox.clear();
  assert.deepEqual(outbox.messages, []);
  assert.equal(storage.kept.size, 0);
});
