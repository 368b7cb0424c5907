import assert from "node:assert/strict";
import { test } from "node:test";
import { ReaderHand } from "./reader_hand.ts";

test("while rows are added only a reader's hand scrolls", () => {
  const hand = new ReaderHand();
  hand.grew(0);
  assert.equal(hand.scrolls(100), false);
  hand.acted(100);
  assert.equal(hand.scrolls(900), true);
  hand.grew(1_200);
  assert.equal(hand.scrolls(1_300), false);
});

test("a held pointer scrolls until it is up, also when only its next move tells", () => {
  const hand = new ReaderHand();
  hand.took();
  hand.grew(5_000);
  hand.moved(5_001, 1);
  assert.equal(hand.scrolls(5_001), true);
  hand.moved(5_002, 0);
  hand.grew(6_100);
  assert.equal(hand.scrolls(6_100), false);
});

test("where nothing grows whatever scrolls means it", () => {
  const hand = new ReaderHand();
  assert.equal(hand.scrolls(0), true);
  hand.grew(0);
  assert.equal(hand.scrolls(499), false);
  assert.equal(hand.scrolls(500), true);
});
