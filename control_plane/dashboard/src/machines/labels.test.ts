import assert from "node:assert/strict";
import { test } from "node:test";
import { labelChanges, labelLines } from "./labels.ts";

const BEFORE = { team: "infra", build: "", where: "the attic = cold" };

test("labels are lines, and lines that were not touched change nothing", () => {
  const lines = labelLines(BEFORE);
  assert.deepEqual(lines, ["build", "team=infra", "where=the attic = cold"]);
  assert.deepEqual(labelChanges(BEFORE, lines.join("\n")), { add: [], remove: [] });
});

test("a new line is added, a changed one replaces its name, a missing one is removed", () => {
  assert.deepEqual(labelChanges(BEFORE, "team=web\n\n  gpu  \nwhere=the attic = cold\n"), {
    add: ["team=web", "gpu"],
    remove: ["build"],
  });
});

test("of two lines of one name the last one holds", () => {
  assert.deepEqual(labelChanges({}, "team=web\nteam=infra"), { add: ["team=infra"], remove: [] });
  assert.deepEqual(labelChanges({ team: "infra" }, "team=web\nteam=infra"), {
    add: [],
    remove: [],
  });
});
