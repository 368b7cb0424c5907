import assert from "node:assert/strict";
import { test } from "node:test";
import { type ChatItem, type History, withNewest, withOlder } from "./history.ts";

/** A page of items named by numbers, newest first. */
function page(newest: number, oldest: number, next_cursor: string | null): History {
  const items: ChatItem[] = [];
  for (let id = newest; id >= oldest; id--) items.push({ id: String(id) } as ChatItem);
  return { items, next_cursor };
}

const ids = (history: History) => history.items.map((item) => Number(item.id));
const from = (newest: number, oldest: number) => ids(page(newest, oldest, null));

test("what is new comes before what is known, nothing twice", () => {
  const known = page(10, 1, "c1");
  const merged = withNewest(known, page(12, 8, "c8"));
  assert.deepEqual(ids(merged), from(12, 1));
  assert.equal(merged.next_cursor, "c1");
});

test("an item that changed is shown as it is now", () => {
  const known = page(3, 1, "c1");
  const newest = page(3, 2, "c2");
  (newest.items[0] as { text: string }).text = "now";
  assert.equal(withNewest(known, newest).items[0]?.text, "now");
});

test("more news than one page holds leaves no hole", () => {
  const merged = withNewest(page(10, 1, "c1"), page(100, 90, "c90"));
  assert.deepEqual(ids(merged), from(100, 90));
  assert.equal(merged.next_cursor, "c90");
});

test("a conversation that fits in one page is that page", () => {
  const merged = withNewest(page(3, 1, null), page(5, 1, null));
  assert.deepEqual(ids(merged), from(5, 1));
  assert.equal(merged.next_cursor, null);
});

test("a conversation that outgrows its page keeps what was known", () => {
  const merged = withNewest(page(5, 1, null), page(7, 3, "c3"));
  assert.deepEqual(ids(merged), from(7, 1));
  assert.equal(merged.next_cursor, null);
});

test("older items are added once, even when they were asked for twice", () => {
  const known = page(20, 11, "c11");
  const once = withOlder(known, page(10, 1, "c1"), "c11");
  assert.deepEqual(ids(once), from(20, 1));
  assert.equal(withOlder(once, page(10, 1, "c1"), "c11"), once);
});
