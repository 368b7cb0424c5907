import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff } from "./backoff.ts";
import { Position } from "./position.ts";

test("numbers are next, a gap, or known already", () => {
  const position = new Position();
  const arrivals = [10, 11, 11, 9, 12, 15, 16].map((seq) => position.take(seq));
  assert.deepEqual(arrivals, ["next", "next", "again", "again", "next", "gap", "next"]);
  assert.equal(position.last, 16);
});

test("a forgotten position begins anew, also with a smaller number", () => {
  const position = new Position();
  position.take(500);
  position.forget();
  assert.equal(position.last, null);
  assert.equal(position.take(3), "next");
});

test("waits double to two seconds, a little apart for each page, and begin anew", () => {
  const backoff = new Backoff();
  const waits = Array.from({ length: 7 }, () => backoff.next(() => 0));
  assert.deepEqual(waits, [100, 200, 400, 800, 1600, 2000, 2000]);
  assert.equal(
    backoff.next(() => 0.8),
    1600,
  );
  backoff.reset();
  assert.equal(
    backoff.next(() => 0),
    100,
  );
});
