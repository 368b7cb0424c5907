import assert from "node:assert/strict";
import { test } from "node:test";
import { ago, countdown, duration, localTime, utcTime } from "./times.ts";

const NOW = new Date(2026, 10, 30, 14, 30);

test("a time of today is a clock time, others say their day", () => {
  assert.equal(localTime(new Date(2026, 10, 30, 9, 5), NOW, "en-GB"), "9:05");
  assert.equal(localTime(new Date(2026, 10, 29, 9, 5), NOW, "en-GB"), "yesterday 9:05");
  assert.equal(localTime(new Date(2026, 11, 1, 9, 5), NOW, "en-GB"), "tomorrow 9:05");
  assert.equal(localTime(new Date(2026, 5, 2, 9, 5), NOW, "en-GB"), "2 Jun, 9:05");
  assert.equal(localTime(new Date(2025, 5, 2, 9, 5), NOW, "en-GB"), "2 Jun 2025, 9:05");
});

test("the exact time is in UTC to the second", () => {
  assert.equal(utcTime(new Date("2026-11-30T13:02:07.891Z")), "2026-11-30 13:02:07 UTC");
});

test("a countdown ends at zero and never goes below", () => {
  assert.equal(countdown(600_000), "10:00");
  assert.equal(countdown(599_999), "9:59");
  assert.equal(countdown(61_000), "1:01");
  assert.equal(countdown(999), "0:00");
  assert.equal(countdown(0), "0:00");
  assert.equal(countdown(-5_000), "0:00");
  assert.equal(countdown(11_100_000), "3 h 05 min");
  assert.equal(countdown(532_800_000), "6 d 4 h");
});

test("how long ago is coarse, so that it does not flicker", () => {
  const at = (ms: number) => ago(new Date(NOW.getTime() - ms), NOW.getTime());
  assert.equal(at(-2_000), "just now");
  assert.equal(at(9_000), "just now");
  assert.equal(at(29_000), "20 s ago");
  assert.equal(at(59_000), "50 s ago");
  assert.equal(at(240_000), "4 min ago");
  assert.equal(at(3 * 3600_000), "3 h ago");
  assert.equal(at(6 * 24 * 3600_000), "6 d ago");
});

test("a duration has the precision that a reader needs", () => {
  assert.equal(duration(-3), "under 0.1 s");
  assert.equal(duration(240), "0.2 s");
  assert.equal(duration(14_200), "14 s");
  assert.equal(duration(125_000), "2 min 05 s");
  assert.equal(duration(4_320_000), "1 h 12 min");
});
