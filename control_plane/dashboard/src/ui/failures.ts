/**
 * Which commands did not succeed, and the words for it.
 *
 * A ticket is done when its work is over, whatever came of it; the page calls nothing a success that
 * was none. The server counts by the same rule for a list, which has no commands.
 */

interface Ended {
  readonly state: string;
  readonly reason: string | null;
  readonly exit_status: number | null;
}

const FAILED = new Set(["spawn_error", "refused", "expired", "indeterminate", "lost"]);

/** Tells whether a command ended without success; one that a person called off did not fail. */
export function hasFailed({ state, reason, exit_status: status }: Ended): boolean {
  if (state !== "exited") return FAILED.has(state);
  return reason !== "cancel" && !(status === 0 && (reason === null || reason === "exit"));
}

/**
 * Returns what to say in place of success; null when all succeeded.
 *
 * `only`: the words for the only command ("Exit 2"), where it is known.
 */
export function failureWords(count: number, failed: number, only?: string): string | null {
  if (failed === 0) return null;
  if (failed < count) return `${failed} of ${count} failed`;
  return count === 1 && only !== undefined ? only : "Failed";
}
