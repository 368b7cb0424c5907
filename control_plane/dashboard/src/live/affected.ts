/** Which of the page's queries an event makes stale. */
import { keys, type QueryKey } from "../api/keys.ts";
import type { LiveEvent } from "./event_stream.ts";

/** Returns the keys to read anew; null: everything, because a later server tells of new things. */
export function affectedBy(event: LiveEvent): readonly QueryKey[] | null {
  const ticket = event.ticket_id === null ? [] : [keys.ticket(event.ticket_id)];
  switch (event.kind) {
    case "trigger_received":
    case "trigger_handed_back":
    case "eval_closed":
      return [keys.chat, ...ticket];
    case "eval_opened":
    case "model_unavailable":
      return [];
    case "ticket_opened":
      return [keys.chat, keys.tickets, ...ticket];
    case "reply_sent":
      return [keys.chat, keys.tickets, ...ticket];
    case "report_made":
    case "needs_person":
    case "session_tombstoned":
      return [keys.tickets, ...ticket];
    case "question_asked":
    case "question_settled":
      return [keys.chat, keys.questions, keys.tickets, ...ticket];
    case "ticket_closed":
      return [keys.tickets, keys.questions, keys.machines, keys.commands, ...ticket];
    case "command_waiting":
    case "command_started":
    case "command_ended":
      return [keys.tickets, keys.machines, keys.commands, ...ticket];
    case "machine_enrolled":
    case "machine_confirmed":
    case "machine_revoked":
      return [keys.machines, keys.codes, keys.commands];
    case "machine_renamed":
    case "machine_paused":
    case "machine_resumed":
    case "machine_online":
    case "machine_offline":
      // A ticket says for which machine it waits, by its name.
      return [keys.machines, keys.commands, keys.tickets, keys.anyTicket];
    case "machine_labelled":
    case "machine_described":
    case "machine_updated":
    case "machine_update_failed":
      return [keys.machines];
    default:
      return null;
  }
}
