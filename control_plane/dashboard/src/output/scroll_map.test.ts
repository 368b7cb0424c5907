import assert from "node:assert/strict";
import { test } from "node:test";
import { atRest, offsetAfter, PHYSICAL_MAX, physicalHeight } from "./scroll_map.ts";

const SHORT = { list: 50_000, viewport: 300 };
const LONG = { list: 30_000_000, viewport: 300 };
const LAST = PHYSICAL_MAX - LONG.viewport;

test("a list that fits is shown as it is", () => {
  assert.equal(physicalHeight(SHORT.list), SHORT.list);
  assert.equal(offsetAfter(SHORT, 0, 0, 40_000), 0);
  assert.equal(atRest(SHORT, 0, 40_000), 40_000);
});

test("the bar's ends are the list's ends", () => {
  assert.equal(offsetAfter(LONG, 999, 500, 0), 0);
  assert.equal(LAST + offsetAfter(LONG, 0, 0, LAST), LONG.list - LONG.viewport);
});

test("a small movement is exact to the pixel", () => {
  assert.equal(offsetAfter(LONG, 12_345, 4_000_000, 4_000_120), 12_345);
});

test("a jump goes to the same part of the list", () => {
  const middle = LAST / 2;
  const shown = middle + offsetAfter(LONG, 0, 0, middle);
  assert.ok(Math.abs(shown - (LONG.list - LONG.viewport) / 2) <= 1);
});

test("at rest the bar moves, what is shown does not", () => {
  for (const place of [1_000, 7_500_000, 15_000_000, 29_000_000]) {
    const at = 3_000_000;
    const offset = place - at;
    const settled = atRest(LONG, offset, at);
    const again = offset + at - settled; // what the list does to its offset
    assert.equal(settled + again, place);
    const part = settled / LAST - place / (LONG.list - LONG.viewport);
    assert.ok(Math.abs(part) < 1e-6, `${place}`);
  }
});

test("every row can be reached by small steps from a jump", () => {
  let at = LAST / 3;
  let offset = offsetAfter(LONG, 0, 0, at);
  const began = at + offset;
  for (let step = 0; step < 1_000; step++) {
    const next = at + 40;
    offset = offsetAfter(LONG, offset, at, next);
    at = next;
  }
  assert.equal(at + offset, began + 40_000);
});
