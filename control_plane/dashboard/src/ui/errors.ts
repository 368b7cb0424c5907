/** What an error says to a person: the server's words, as a sentence. */
import { messageOf } from "../api/errors.ts";

/** Return the error's message with a capital and a full stop. */
export function errorText(error: unknown): string {
  const message = messageOf(error) || "something unexpected went wrong; reload the page";
  const sentence = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?…]$/.test(sentence) ? sentence : `${sentence}.`;
}
