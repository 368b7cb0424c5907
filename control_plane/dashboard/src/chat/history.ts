/** A conversation as far as the page has read it: newest first, as the server has it. */
import type { Schemas } from "../api/client.ts";

export type ChatItem = Schemas["ChatItem"];

export interface History {
  readonly items: readonly ChatItem[];
  /** Where older items go on; null at the beginning of the conversation. */
  readonly next_cursor: string | null;
}

/**
 * Returns the history with its newest page read anew.
 *
 * Older items stay as they were. When more has happened than one page holds, what was known is
 * dropped rather than shown with a hole in it; scrolling up reads it again.
 */
export function withNewest(known: History | undefined, newest: History): History {
  if (known === undefined || newest.next_cursor === null) return pick(newest);
  const last = newest.items.at(-1);
  const at = known.items.findIndex((item) => item.id === last?.id);
  if (at < 0) return pick(newest);
  return { items: [...newest.items, ...known.items.slice(at + 1)], next_cursor: known.next_cursor };
}

/** Returns the history with the page that was read at `cursor` added, unless it was already. */
export function withOlder(known: History, older: History, cursor: string): History {
  if (known.next_cursor !== cursor) return known;
  const ids = new Set(known.items.map((item) => item.id));
  const fresh = older.items.filter((item) => !ids.has(item.id));
  return { items: [...known.items, ...fresh], next_cursor: older.next_cursor };
}

function pick({ items, next_cursor }: History): History {
  return { items, next_cursor };
}
