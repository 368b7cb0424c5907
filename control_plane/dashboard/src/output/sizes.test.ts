import assert from "node:assert/strict";
import { test } from "node:test";
import { sizeWords } from "./sizes.ts";

test("sizes are short and in steps of a thousand", () => {
  const words = [0, 999, 1_000, 9_949, 9_951, 999_949, 999_951, 10_888_896, 5e9].map(sizeWords);
  assert.deepEqual(words, [
    "0 B",
    "999 B",
    "1.0 kB",
    "9.9 kB",
    "10 kB",
    "1.0 MB",
    "1.0 MB",
    "11 MB",
    "5.0 GB",
  ]);
});
