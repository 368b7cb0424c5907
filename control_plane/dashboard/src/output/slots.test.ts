import assert from "node:assert/strict";
import { test } from "node:test";
import { Slots, type SlotUser } from "./slots.ts";

class FakeUser implements SlotUser {
  state = "out";
  readonly isEndless: boolean;
  constructor(isEndless: boolean) {
    this.isEndless = isEndless;
  }
  begin(): void {
    this.state = "in";
  }
  giveWay(): void {
    this.state = "gave way";
  }
}

function entered(slots: Slots, ...endless: boolean[]): FakeUser[] {
  const users = endless.map((is) => new FakeUser(is));
  for (const user of users) slots.enter(user);
  return users;
}

const states = (users: FakeUser[]) => users.map((user) => user.state);

test("who will end soon is waited for", () => {
  const slots = new Slots(2);
  const users = entered(slots, false, true, true);
  assert.deepEqual(states(users), ["in", "in", "out"]);
  slots.leave(users[0] as FakeUser);
  assert.deepEqual(states(users), ["in", "in", "in"]);
});

test("among those without an end the oldest gives way to the newest", () => {
  const slots = new Slots(2);
  const users = entered(slots, true, true, true);
  assert.deepEqual(states(users), ["gave way", "in", "in"]);
  slots.enter(users[0] as FakeUser);
  assert.deepEqual(states(users), ["in", "gave way", "in"]);
});

test("who leaves while waiting is not let in later", () => {
  const slots = new Slots(1);
  const [first, second, third] = entered(slots, false, false, false) as [
    FakeUser,
    FakeUser,
    FakeUser,
  ];
  slots.leave(second);
  slots.leave(first);
  assert.deepEqual(states([first, second, third]), ["in", "out", "in"]);
});

test("entering twice takes one place", () => {
  const slots = new Slots(2);
  const [first] = entered(slots, false) as [FakeUser];
  slots.enter(first);
  const [second] = entered(slots, false) as [FakeUser];
  assert.equal(second.state, "in");
});

test("whose place is taken away gets it back, the one that lost it last first", () => {
  const slots = new Slots(2);
  const users = entered(slots, true, false, false);
  slots.resize(1);
  assert.deepEqual(states(users), ["gave way", "in", "out"]);
  slots.resize(0);
  assert.deepEqual(states(users), ["gave way", "gave way", "out"]);
  slots.leave(users[1] as FakeUser);
  slots.resize(2);
  assert.deepEqual(states(users), ["in", "gave way", "in"]);
});
