import assert from "node:assert/strict";
import { test } from "node:test";
import { ruleWords, scopeWords, verdictWords } from "./why_words.ts";

const nameOf = (id: string) => `machine-${id}`;

test("a mandate's scope reads as a sentence", () => {
  assert.deepEqual(
    scopeWords(
      { actions: ["reply", "run_command"], machines: "owned", tier_max: 5 },
      "ada",
      nameOf,
    ),
    {
      what: "May run commands and reply",
      where: "on every machine of ada",
      howFar: "with the account's full authority",
    },
  );
  assert.deepEqual(
    scopeWords({ actions: ["reply"], machines: ["1", "2", "3"], tier_max: 2 }, "ada", nameOf),
    {
      what: "May reply",
      where: "on machine-1, machine-2 and machine-3",
      howFar: "with authority up to T2",
    },
  );
});

test("a scope that allows nothing says so", () => {
  const words = scopeWords({ actions: [], machines: [], tier_max: 0 }, "ada", nameOf);
  assert.equal(words.what, "May do nothing");
  assert.equal(words.where, "on no machine");
});

test("a rule or verdict of a later release is still readable", () => {
  assert.equal(ruleWords({ gate_rule: "some_new_rule" }), "by the rule some new rule");
  assert.equal(ruleWords({ gate_rule: "person_addressed" }), "a member asked for it directly");
  assert.equal(
    verdictWords({ verdict: "accept", strength: "explicit" }),
    "Taken as work, explicit request",
  );
  assert.equal(
    verdictWords({ verdict: "accept", strength: "inferred" }),
    "Taken as work, inferred",
  );
});
