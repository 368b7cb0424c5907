import assert from "node:assert/strict";
import { test } from "node:test";
import { failureWords, hasFailed } from "./failures.ts";

const exited = (exit_status: number | null, reason: string | null = "exit") =>
  hasFailed({ state: "exited", reason, exit_status });

test("only an exit of 0 by itself is a success", () => {
  assert.equal(exited(0), false);
  assert.equal(exited(2), true);
  assert.equal(exited(137, "signal"), true);
  assert.equal(exited(0, "timeout"), true);
  assert.equal(exited(137, "oom"), true);
  assert.equal(exited(null, "shutdown"), true);
});

test("what never ran did not succeed, and what a person called off did not fail", () => {
  const ended = (state: string) => hasFailed({ state, reason: null, exit_status: null });
  const failed = ["spawn_error", "refused", "expired", "indeterminate", "lost"];
  assert.deepEqual(failed.map(ended), [true, true, true, true, true]);
  assert.deepEqual(["queued", "started", "superseded", "cancelled_before_start"].map(ended), [
    false,
    false,
    false,
    false,
  ]);
  assert.equal(exited(143, "cancel"), false);
});

test("one command is named by how it ended, several by how many failed", () => {
  assert.equal(failureWords(1, 0, "Exit 0"), null);
  assert.equal(failureWords(1, 1, "Exit 2"), "Exit 2");
  assert.equal(failureWords(1, 1), "Failed");
  assert.equal(failureWords(3, 1), "1 of 3 failed");
  assert.equal(failureWords(3, 3), "Failed");
});
