import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import {
  currentSession,
  sessionRefused,
  signIn,
  signOut,
  startSession,
  watchSession,
} from "./session.ts";

// What of a browser the session uses, no more.
const storage = new Map<string, string>();
const asked: { path: string; headers: Record<string, string>; body: unknown }[] = [];
let answer: () => Response | Promise<Response>;
let address = new URL("http://farhand.test/chat");
const tabs: ((event: { key: string | null; newValue: string | null }) => void)[] = [];

Object.assign(globalThis, {
  localStorage: {
    getItem: (name: string) => storage.get(name) ?? null,
    setItem: (name: string, value: string) => storage.set(name, value),
    removeItem: (name: string) => storage.delete(name),
  },
  history: {
    replaceState: (_: unknown, __: string, path: string) => {
      address = new URL(path, address);
    },
  },
  addEventListener: (_: string, heard: (typeof tabs)[number]) => tabs.push(heard),
  fetch: async (path: string, init: { headers: Record<string, string>; body: string | null }) => {
    asked.push({ path, headers: init.headers, body: JSON.parse(init.body ?? "null") });
    return answer();
  },
});
Object.defineProperty(globalThis, "location", { get: () => address });

const KEY = "farhand.page_key";
const json = (status: number, body: unknown) => () => Response.json(body, { status });
const refusal = {
  error: { code: "sign_in_link_unusable", message: "cannot sign in: it was used" },
};

/** Resolves when the session has changed for the next time. */
function changed(): Promise<void> {
  return new Promise((resolve) => {
    const stop = watchSession(() => {
      stop();
      resolve();
    });
  });
}

beforeEach(() => {
  storage.clear();
  asked.length = 0;
  address = new URL("http://farhand.test/chat");
  startSession(); // signed out: there is no key
});

test("a link's token leaves the address at once and is used up once", async () => {
  answer = json(201, { page_key: "k1", expires_at: "" });
  address = new URL("http://farhand.test/sign-in#fhl_token");
  startSession();
  assert.equal(address.href, "http://farhand.test/sign-in");
  assert.deepEqual(currentSession(), { state: "signing_in" });
  await changed();
  assert.deepEqual(currentSession(), { state: "signed_in" });
  assert.equal(storage.get(KEY), "k1");
  assert.deepEqual(
    asked.map(({ path, body }) => [path, body]),
    [["/v1/sign-in", { token: "fhl_token" }]],
  );
});

test("a link that does not work says why, in the server's words", async () => {
  answer = json(401, refusal);
  await signIn("old");
  assert.deepEqual(currentSession(), {
    state: "signed_out",
    reason: "cannot sign in: it was used",
  });
});

test("a server that is away does not use up the link", async () => {
  answer = () => Promise.reject(new TypeError("Failed to fetch"));
  await signIn("fresh");
  const session = currentSession();
  assert.ok(session.state === "signed_out" && session.reason?.includes("open the link again"));
});

test("a link that does not work leaves an older session as it is", async () => {
  storage.set(KEY, "k0");
  answer = json(401, refusal);
  await signIn("old");
  assert.deepEqual(currentSession(), { state: "signed_in" });
});

test("signing out empties the page before the server answers", async () => {
  storage.set(KEY, "k1");
  startSession();
  answer = () => Promise.reject(new TypeError("Failed to fetch"));
  const done = signOut();
  assert.deepEqual(currentSession(), { state: "signed_out", reason: null });
  assert.equal(storage.has(KEY), false);
  await done;
  assert.equal(asked[0]?.headers["Farhand-Page-Key"], "k1");
});

test("another tab's sign-out and sign-in are this one's", () => {
  storage.set(KEY, "k1");
  startSession();
  const other = tabs.at(-1);
  other?.({ key: KEY, newValue: null });
  assert.equal(currentSession().state, "signed_out");
  other?.({ key: KEY, newValue: "k2" });
  assert.equal(currentSession().state, "signed_in");
  other?.({ key: "something else", newValue: null });
  assert.equal(currentSession().state, "signed_in");
  other?.({ key: null, newValue: null });
  assert.equal(currentSession().state, "signed_out");
});

test("only a refusal of the key in use signs out", () => {
  storage.set(KEY, "k2");
  startSession();
  sessionRefused("k1", "cannot answer: too old");
  assert.equal(currentSession().state, "signed_in");
  sessionRefused("k2", "cannot answer: revoked");
  assert.deepEqual(currentSession(), { state: "signed_out", reason: "cannot answer: revoked" });
  assert.equal(storage.has(KEY), false);
});
