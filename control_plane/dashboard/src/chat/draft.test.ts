import assert from "node:assert/strict";
import { test } from "node:test";
import { refusalOf } from "./draft.ts";

test("64 KiB of UTF-8 are a message, a byte more is refused with a reason", () => {
  assert.equal(refusalOf(""), null);
  assert.equal(refusalOf("a".repeat(65_536)), null);
  assert.match(refusalOf("a".repeat(65_537)) ?? "", /^Too long by 1 KiB/);
  assert.equal(refusalOf("é".repeat(32_768)), null);
  assert.match(refusalOf("é".repeat(32_769)) ?? "", /^Too long/);
  assert.match(refusalOf("😀".repeat(20_000)) ?? "", /^Too long by 15 KiB/);
});
