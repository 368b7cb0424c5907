/** What the chat shows, in order: built from the conversation and what is on its way. */
import type { ChatItem } from "./history.ts";
import type { Outgoing } from "./outgoing.ts";

export type Entry =
  | { readonly kind: "day"; readonly key: string; readonly at: string }
  /** `keptBy`: the tickets that took it; while it is only offered to some, none is named. */
  | {
      readonly kind: "message";
      readonly key: string;
      readonly item: ChatItem;
      readonly keptBy: readonly string[];
    }
  | { readonly kind: "outgoing"; readonly key: string; readonly message: Outgoing }
  /** `isRecent`: one of the last, which are shown whole also when they are closed. */
  | {
      readonly kind: "ticket";
      readonly key: string;
      readonly ticketId: string;
      readonly isRecent: boolean;
    }
  /** `about`: the ticket it speaks for, where that is not what stands right above. */
  | {
      readonly kind: "reply";
      readonly key: string;
      readonly item: ChatItem;
      readonly about: string | null;
    }
  | {
      readonly kind: "question";
      readonly key: string;
      readonly item: ChatItem;
      readonly about: string | null;
    }
  /** The agent has not said what it makes of the last message. */
  | { readonly kind: "thinking"; readonly key: string };

const RECENT_TICKETS = 2;
/** A message that was not judged for so long is not being thought about. */
const THINKING_MS = 10 * 60_000;
/** After a verdict the words follow within seconds, or not at all. */
const WORDS_MS = 30_000;
/** A ticket that asks is offered every message, and gives back what is no answer within this. */
const OFFER_MS = 30_000;

/** Returns the entries, oldest first. `items` is newest first. */
export function timelineOf(
  items: readonly ChatItem[],
  outgoing: readonly Outgoing[],
  now: Date,
): Entry[] {
  const oldestFirst = [...items].reverse();
  const opened = oldestFirst.map((item) => item.opened_ticket_id).filter((id) => id !== null);
  const recent = new Set(opened.slice(-RECENT_TICKETS));
  const cards = new Set(opened);
  const entries: Entry[] = [];
  let day = "";
  let above: string | null = null; // the ticket that what comes next would belong to
  const beginDay = (at: string) => {
    const date = new Date(at).toDateString();
    if (date === day) return;
    day = date;
    entries.push({ kind: "day", key: `day:${date}`, at });
  };
  for (const item of oldestFirst) {
    // The card says that it is being worked on.
    if (item.kind === "acknowledgement" && cards.has(item.ticket_id ?? "")) continue;
    beginDay(item.at);
    if (item.kind === "message") {
      const keptBy = isOffered(item, items, now) ? [] : item.delivered_to;
      entries.push({ kind: "message", key: keyOf(item), item, keptBy });
      above = null;
      const ticketId = item.opened_ticket_id;
      if (ticketId !== null) {
        const isRecent = recent.has(ticketId);
        entries.push({ kind: "ticket", key: `ticket:${ticketId}`, ticketId, isRecent });
        above = ticketId;
      }
      continue;
    }
    const about = item.ticket_id !== above ? item.ticket_id : null;
    const kind = item.kind === "question" ? "question" : "reply";
    entries.push({ kind, key: item.id, item, about });
    if (about !== null) above = about;
  }
  const shown = new Set(items.map((item) => item.client_message_id));
  for (const message of outgoing) {
    if (shown.has(message.id)) continue;
    beginDay(message.at);
    entries.push({ kind: "outgoing", key: `sent:${message.id}`, message });
  }
  if (isThinking(items, outgoing, shown, now)) entries.push({ kind: "thinking", key: "thinking" });
  return entries;
}

/** The same before and after the server has it: the words stay where they are. */
function keyOf(item: ChatItem): string {
  return item.client_message_id === null ? item.id : `sent:${item.client_message_id}`;
}

/**
 * Tells whether tickets have a message only to look whether it is for them.
 *
 * It is over when one was judged, or spoke, or took it as its answer; or when none gave it back.
 */
function isOffered(message: ChatItem, items: readonly ChatItem[], now: Date): boolean {
  if (message.verdict !== null || message.delivered_to.length === 0) return false;
  const at = Date.parse(message.at);
  if (now.getTime() - at >= OFFER_MS) return false;
  return !items.some((item) => {
    if (!message.delivered_to.includes(item.ticket_id ?? "")) return false;
    const settled = item.question?.settled_at ?? null;
    return Date.parse(item.at) > at || (settled !== null && Date.parse(settled) > at);
  });
}

function isThinking(
  items: readonly ChatItem[],
  outgoing: readonly Outgoing[],
  shown: ReadonlySet<string | null>,
  now: Date,
): boolean {
  if (outgoing.some((message) => message.state === "sent" && !shown.has(message.id))) return true;
  const at = items.findIndex((item) => item.kind === "message");
  const last = items[at];
  if (last === undefined) return false;
  const age = now.getTime() - Date.parse(last.at);
  if (isOffered(last, items, now)) return true;
  if (last.verdict === null) return last.delivered_to.length === 0 && age < THINKING_MS;
  const speaks = last.verdict === "answer" || last.verdict === "stop";
  return speaks && at === 0 && age < WORDS_MS;
}
