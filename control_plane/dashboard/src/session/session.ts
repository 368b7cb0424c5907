/**
 * Whether this page is signed in, and the three ways in which that changes: a sign-in link, a
 * sign-out (here or in another tab), and a server that no longer knows the session.
 */
import { useSyncExternalStore } from "react";
import { failureOf, messageOf, Unreachable } from "../api/errors.ts";
import { tokenOf } from "./fragment.ts";
import { keepPageKey, onOtherTab, readPageKey } from "./page_key.ts";

export type Session =
  | { readonly state: "signing_in" }
  | { readonly state: "signed_in" }
  /** `reason`: why, for a person; null when nobody has signed in yet or they signed out. */
  | { readonly state: "signed_out"; readonly reason: string | null };

let session: Session = { state: "signed_out", reason: null };
const watchers = new Set<() => void>();

export function currentSession(): Session {
  return session;
}

/** Calls back at every change; returns how to stop. */
export function watchSession(changed: () => void): () => void {
  watchers.add(changed);
  return () => watchers.delete(changed);
}

export function useSession(): Session {
  return useSyncExternalStore(watchSession, currentSession);
}

/**
 * Takes up the session at the start of the page. Call once, before the first render.
 *
 * A sign-in token in the address is taken out of it at once, before anything else runs: it must not
 * stay in the history or in a screenshot.
 */
export function startSession(): void {
  onOtherTab((key) => become(key === null ? { state: "signed_out", reason: null } : SIGNED_IN));
  const token = tokenOf(location);
  if (token !== null) {
    history.replaceState(null, "", location.pathname);
    void signIn(token);
    return;
  }
  session = readPageKey() === null ? { state: "signed_out", reason: null } : SIGNED_IN;
}

/** Uses up a sign-in link's token. */
export async function signIn(token: string): Promise<void> {
  become({ state: "signing_in" });
  try {
    const answer = await post("/v1/sign-in", { token });
    const body: unknown = await answer.json().catch(() => undefined);
    if (!answer.ok) throw failureOf(answer.status, body);
    if (!keepPageKey((body as { page_key: string }).page_key)) {
      throw new Error("cannot sign in: this browser keeps no data for the page; allow it");
    }
    become(SIGNED_IN);
  } catch (error) {
    // An older session of this browser is as good as before.
    if (readPageKey() !== null) become(SIGNED_IN);
    else become({ state: "signed_out", reason: reasonOf(error) });
  }
}

/** Ends the session on the server and in every tab of this browser. */
export async function signOut(): Promise<void> {
  const key = readPageKey();
  // The page is signed out whatever the server says: what it shows is gone with the key.
  keepPageKey(null);
  become({ state: "signed_out", reason: null });
  if (key === null) return;
  await post("/v1/sign-out", undefined, key).catch(() => undefined);
}

/** Takes the server's word that the session sent with `key` opens nothing. */
export function sessionRefused(key: string | null, reason: string): void {
  const current = readPageKey();
  if (key !== current) return; // the request is older than the sign-in of another tab
  keepPageKey(null);
  if (session.state !== "signed_out") become({ state: "signed_out", reason });
}

const SIGNED_IN: Session = { state: "signed_in" };

function become(next: Session): void {
  if (next === session) return;
  session = next;
  for (const changed of watchers) changed();
}

function post(path: string, body: unknown, key?: string): Promise<Response> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key !== undefined) headers["Farhand-Page-Key"] = key;
  return fetch(path, {
    method: "POST",
    headers,
    body: body === undefined ? null : JSON.stringify(body),
  }).catch((cause: unknown) => {
    throw new Unreachable(cause);
  });
}

function reasonOf(error: unknown): string {
  if (error instanceof Unreachable) {
    return "cannot sign in: the server is away; open the link again when it is back";
  }
  return messageOf(error);
}
