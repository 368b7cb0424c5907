/** The why-chain in words: rules of the gate, verdicts and the scope of a mandate. */
import type { Schemas } from "../api/client.ts";

type Why = Schemas["Why"];

const RULES: Record<string, string> = {
  person_addressed: "a member asked for it directly",
  person_candidate: "a member wrote something that may be work",
  person_follow_up: "somebody followed up where a ticket is open",
  outsider_candidate: "somebody who is no member wrote something that may be work",
  outsider_addressed: "somebody who is no member addressed Farhand",
  bot_candidate: "a listed bot reported something",
};

/** Return how the gate saw it: "a member asked for it directly". */
export function ruleWords(why: Pick<Why, "gate_rule">): string {
  return RULES[why.gate_rule] ?? `by the rule ${why.gate_rule.replaceAll("_", " ")}`;
}

const VERDICTS: Record<string, string> = {
  accept: "Taken as work",
  attach: "Added to a ticket",
  answer: "Answered",
  stop: "Stopped a ticket",
  ignore: "Ignored",
  unavailable: "Not judged yet",
};

export function verdictWords(why: Pick<Why, "verdict" | "strength">): string {
  const verdict = VERDICTS[why.verdict] ?? why.verdict;
  return why.strength === "inferred" ? `${verdict}, inferred` : `${verdict}, explicit request`;
}

const ACTIONS: Record<string, string> = { run_command: "run commands", reply: "reply" };

const TIER_MAX = 5;

/** Return what a mandate allows, one clause each: what, where, how far. */
export function scopeWords(
  scope: Record<string, unknown>,
  grantedBy: string,
  nameOf: (machineId: string) => string,
): { what: string; where: string; howFar: string } {
  const actions = strings(scope["actions"])
    .map((action) => ACTIONS[action] ?? action.replaceAll("_", " "))
    .sort((a, b) => b.length - a.length);
  const machines = scope["machines"];
  const tier = scope["tier_max"];
  return {
    what: `May ${listed(actions) || "do nothing"}`,
    where:
      machines === "owned"
        ? `on every machine of ${grantedBy}`
        : `on ${listed(strings(machines).map(nameOf)) || "no machine"}`,
    howFar:
      tier === TIER_MAX ? "with the account's full authority" : `with authority up to T${tier}`,
  };
}

/** Return "a", "a and b", "a, b and c". */
function listed(words: string[]): string {
  const last = words.at(-1) ?? "";
  return words.length < 2 ? last : `${words.slice(0, -1).join(", ")} and ${last}`;
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}
