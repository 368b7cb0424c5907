/** The typed client of the API: every request of the page goes through `send`. */
import createClient from "openapi-fetch";
import { readPageKey } from "../session/page_key.ts";
import { sessionRefused } from "../session/session.ts";
import { failureOf, SignedOut, Unreachable } from "./errors.ts";
import type { components, paths } from "./schema.d.ts";

export type Schemas = components["schemas"];

/**
 * Fetches with this page's key; a server that no longer knows the session signs the page out.
 * Rejects with Unreachable when there is no answer, and as `fetch` does when aborted.
 */
export async function send(request: Request): Promise<Response> {
  const key = readPageKey();
  if (key !== null) request.headers.set("Farhand-Page-Key", key);
  let answer: Response;
  try {
    answer = await fetch(request);
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw new Unreachable(error);
  }
  if (answer.status === 401) {
    const failure = failureOf(401, await answer.json().catch(() => undefined));
    sessionRefused(key, failure.message);
    throw failure;
  }
  return answer;
}

/** The routes of the API by path and method; see `got` for their answers. */
export const api = createClient<paths>({ baseUrl: location.origin, fetch: send });

/** Returns the data of a request made with `api`; throws what went wrong. */
export async function got<T>(
  asked: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<T> {
  let answered: Awaited<typeof asked>;
  try {
    answered = await asked;
  } catch (error) {
    if (error instanceof SyntaxError) throw new Unreachable(error); // cut off in the middle
    throw error;
  }
  if (!answered.response.ok) throw failureOf(answered.response.status, answered.error);
  return answered.data as T; // an answer without a body has the type undefined
}

/** Opens a streamed answer. `path` begins with a slash; throws like `got`. */
export async function openStream(
  path: string,
  signal: AbortSignal,
  headers: Record<string, string> = {},
): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
  const answer = await send(new Request(path, { signal, headers, cache: "no-store" }));
  if (!answer.ok) throw failureOf(answer.status, await answer.json().catch(() => undefined));
  if (answer.body === null) throw new Unreachable("an answer without a body");
  return answer.body;
}

export function isSignedOut(error: unknown): boolean {
  return error instanceof SignedOut;
}
