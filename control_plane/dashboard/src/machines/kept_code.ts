/**
 * The enrolment code in hand, kept in this tab over a close of the dialog and a reload.
 *
 * It may lie there for its ten minutes: the storage is this tab's alone, where the page shows the
 * code anyway, and the code opens nothing by itself. It works once, and the machine that used it may
 * do nothing before a person has found the same six words on both screens.
 */
import type { CodeMade } from "./queries.ts";

export interface KeptCode {
  readonly made: CodeMade;
  readonly name: string | null;
}

type Store = Pick<Storage, "getItem" | "setItem" | "removeItem">;

const STORED = "farhand.code";

/** Returns the kept code; null when there is none, or its time is over. */
export function keptCode(storage: Store, now: Date): KeptCode | null {
  try {
    const kept = JSON.parse(storage.getItem(STORED) ?? "null") as KeptCode | null;
    if (kept !== null && Date.parse(kept.made.expires_at) > now.getTime()) return kept;
  } catch {
    // What cannot be read is forgotten below.
  }
  forgetCode(storage);
  return null;
}

export function keepCode(storage: Store, kept: KeptCode): void {
  try {
    storage.setItem(STORED, JSON.stringify(kept));
  } catch {
    // A full or forbidden storage only costs what a reload would have kept.
  }
}

export function forgetCode(storage: Store): void {
  try {
    storage.removeItem(STORED);
  } catch {
    // As above.
  }
}
