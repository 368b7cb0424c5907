import assert from "node:assert/strict";
import { test } from "node:test";
import { dayWords } from "./day_words.ts";

const NOW = new Date(2026, 2, 1, 9, 0);

test("days are said as people say them", () => {
  assert.equal(dayWords(new Date(2026, 2, 1, 0, 1), NOW), "Today");
  assert.equal(dayWords(new Date(2026, 1, 28, 23, 59), NOW), "Yesterday");
  assert.equal(dayWords(new Date(2026, 1, 27), NOW, "en-GB"), "Friday 27 February");
  assert.match(dayWords(new Date(2025, 11, 31), NOW, "en-GB"), /31 December 2025/);
});
