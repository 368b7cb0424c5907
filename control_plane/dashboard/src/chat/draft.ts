/** What is in the message box: how long it may be, and kept while this tab lives. */

/** The server's limit for a message, in UTF-8. */
export const MESSAGE_MAX_BYTES = 64 * 1024;
const STORED = "farhand.draft";

/** Returns why a text cannot be sent, as a sentence; null when it can, or is empty. */
export function refusalOf(text: string): string | null {
  // Three bytes per unit at most: counting is only needed near the limit.
  if (text.length * 3 <= MESSAGE_MAX_BYTES) return null;
  const bytes = new TextEncoder().encode(text).length;
  if (bytes <= MESSAGE_MAX_BYTES) return null;
  const over = Math.ceil((bytes - MESSAGE_MAX_BYTES) / 1024);
  return `Too long by ${over.toLocaleString()} KiB: a message holds 64 KiB. Shorten it, or put the text in a file on a machine.`;
}

export function storedDraft(): string {
  try {
    return sessionStorage.getItem(STORED) ?? "";
  } catch {
    return "";
  }
}

export function storeDraft(text: string): void {
  try {
    if (text === "") sessionStorage.removeItem(STORED);
    else sessionStorage.setItem(STORED, text);
  } catch {
    // A full or forbidden storage only costs what a reload would have kept.
  }
}
