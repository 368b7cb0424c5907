/** What an error says to a person: the server's words, as a sentence. */

/** Return the error's message with a capital and a full stop; never a stack, never "[object]". */
export function errorText(error: unknown): string {
  const message =
    error instanceof TypeError
      ? "cannot reach the server: the network failed or the server is not running; it will be tried again"
      : error instanceof Error && error.message !== ""
        ? error.message
        : "cannot do this: something unexpected went wrong; reload the page";
  const sentence = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?…]$/.test(sentence) ? sentence : `${sentence}.`;
}
