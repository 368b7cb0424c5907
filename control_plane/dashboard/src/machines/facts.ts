/** A machine's facts and state as words; the API's values are for programs. */
import type { Machine } from "./queries.ts";

type Described = Pick<Machine, "facts" | "trust_level">;

/** Return its system in one line: "Debian GNU/Linux 12 (bookworm) · x86_64". */
export function systemLine(machine: Pick<Machine, "facts">): string {
  const os = text(machine.facts["os"]);
  const version = text(machine.facts["os_version"]);
  const name = os === "macos" ? `macOS ${version}`.trim() : version || os;
  return [name, text(machine.facts["arch"])].filter((part) => part !== "").join(" · ");
}

/** Return what the agent may do there, as a sentence. */
export function trustSentence(machine: Described): { word: string; sentence: string } {
  const user = text(machine.facts["user"]);
  switch (machine.trust_level) {
    case "trusted":
      return {
        word: "Trusted",
        sentence: `commands run ${user === "" ? "" : `as ${user}, `}without a sandbox`,
      };
    case "workspace":
      return { word: "Workspace", sentence: "commands run in a sandbox, in its own folders" };
    case "off":
      return { word: "Off", sentence: "no command runs until that machine's owner allows it" };
    default:
      return { word: machine.trust_level, sentence: "as set on that machine" };
  }
}

/** Return the facts worth a line, in reading order; a daemon may not tell all of them. */
export function factLines(machine: Pick<Machine, "facts" | "daemon_version">): [string, string][] {
  const facts = machine.facts;
  const cpus = number(facts["cpus"]);
  const memory = number(facts["memory_bytes"]);
  const hardware = [
    cpus === null ? "" : `${cpus} ${cpus === 1 ? "CPU" : "CPUs"}`,
    memory === null ? "" : gib(memory),
    named(list(facts["gpus"]).map(text)),
  ];
  const lines: [string, string][] = [
    ["Hardware", hardware.filter((part) => part !== "").join(", ")],
    ["Disk", disk(facts)],
    ["Power", power(facts)],
    ["Host name", text(facts["hostname"])],
    ["Account", text(facts["user"])],
    ["Time zone", text(facts["time_zone"]).replaceAll("_", " ")],
    ["Repositories", named(list(facts["repositories"]).map(remote))],
    ["Tools", tools(facts["tools"])],
    ["Daemon", machine.daemon_version],
  ];
  return lines.filter(([, value]) => value !== "");
}

/** Return what of its disk is free; "" when it does not tell. */
function disk(facts: Machine["facts"]): string {
  const free = number(facts["disk_free_bytes"]);
  const all = number(facts["disk_bytes"]);
  return free === null || !all ? "" : `${gib(free)} free of ${gib(all)}`;
}

/** Return how a machine with a battery is fed; of others there is nothing to say. */
function power(facts: Machine["facts"]): string {
  if (facts["has_battery"] !== true) return "";
  return facts["on_battery"] === true ? "on battery" : "plugged in";
}

/** Return the tools with their versions: "docker 24.0.7, git 2.39.2". */
function tools(value: unknown): string {
  if (typeof value !== "object" || value === null) return "";
  const known = Object.entries(value).map(([name, version]) => `${name} ${text(version)}`.trim());
  return known.toSorted().join(", ");
}

/** Return a repository without its host where that is the one that everybody knows. */
function remote(value: unknown): string {
  const known = typeof value === "object" && value !== null && "remote" in value;
  return known ? text(value.remote).replace(/^github\.com\//, "") : "";
}

function named(names: string[]): string {
  return names.filter((name) => name !== "").join(", ");
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Return a size of memory as people say it: "24 GB". */
function gib(bytes: number): string {
  const value = bytes / 2 ** 30;
  return `${value < 10 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)} GB`;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
