/** Labels as people write them, one on a line: `build` or `team=infra`. */

export type Labels = Readonly<Record<string, string>>;

/** Returns the lines that say these labels, in order. */
export function labelLines(labels: Labels): string[] {
  return Object.entries(labels)
    .map(([name, value]) => (value === "" ? name : `${name}=${value}`))
    .sort();
}

/** Returns what turns `before` into what the text says; the last line of a name wins. */
export function labelChanges(before: Labels, text: string): { add: string[]; remove: string[] } {
  const after = new Map<string, string>();
  for (const line of text.split("\n").map((one) => one.trim())) {
    if (line !== "") after.set(line.split("=", 1)[0] ?? line, line);
  }
  const old = new Set(labelLines(before));
  return {
    add: [...after.values()].filter((line) => !old.has(line)),
    remove: Object.keys(before).filter((name) => !after.has(name)),
  };
}
