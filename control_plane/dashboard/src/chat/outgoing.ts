/**
 * Messages on their way: shown at once, sent one after another, the same one never twice.
 *
 * A message has its id before it is first sent, and keeps it for every try; the server takes the same
 * id again as the same message. So a try whose answer was lost is simply repeated, also after the
 * page was loaded anew.
 */
import { messageOf, RequestError } from "../api/errors.ts";
import { Backoff, pause } from "../live/backoff.ts";

export interface Outgoing {
  readonly id: string; // the client_message_id
  readonly text: string;
  readonly at: string; // when it was written, ISO 8601
  readonly state: "sending" | "waiting" | "sent" | "failed"; // waiting: for the server to be back
  readonly error: string | null;
}

export interface OutboxParts {
  readonly post: (message: Outgoing) => Promise<unknown>;
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Survives a reload of this tab. */
  readonly storage?: Pick<Storage, "getItem" | "setItem" | "removeItem">;
  readonly newId?: () => string;
  readonly now?: () => Date;
}

const STORED = "farhand.outgoing";
/** After this many tries without an answer (about a minute) a person decides. */
const TRIES = 33;

export class Outbox {
  readonly #parts: OutboxParts;
  readonly #watchers = new Set<() => void>();
  #messages: readonly Outgoing[];
  #isBusy = false;
  #stopped = new AbortController();

  constructor(parts: OutboxParts) {
    this.#parts = parts;
    this.#messages = stored(parts.storage);
  }

  get messages(): readonly Outgoing[] {
    return this.#messages;
  }

  readonly watch = (changed: () => void): (() => void) => {
    this.#watchers.add(changed);
    return () => this.#watchers.delete(changed);
  };

  readonly current = (): readonly Outgoing[] => this.#messages;

  /** Goes on with what an earlier load of this page had not sent. */
  resume(): void {
    void this.#send();
  }

  add(text: string): void {
    const message: Outgoing = {
      id: (this.#parts.newId ?? randomId)(),
      text,
      at: (this.#parts.now?.() ?? new Date()).toISOString(),
      state: "sending",
      error: null,
    };
    this.#set([...this.#messages, message]);
    void this.#send();
  }

  /** Tries a failed message again, with its id. */
  retry(id: string): void {
    this.#change(id, { state: "sending", error: null });
    void this.#send();
  }

  /** Takes a message out; it was not sent, or a person does not want it any more. */
  remove(id: string): void {
    this.#set(this.#messages.filter((message) => message.id !== id));
  }

  /** Takes out what the conversation shows. */
  settle(shown: ReadonlySet<string>): void {
    const left = this.#messages.filter((message) => !shown.has(message.id));
    if (left.length < this.#messages.length) this.#set(left);
  }

  /** Forgets everything: whoever wrote it has signed out. */
  clear(): void {
    this.#stopped.abort();
    this.#stopped = new AbortController();
    this.#set([]);
  }

  /** Sends what is to be sent, in the order in which it was written. */
  async #send(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    try {
      for (;;) {
        const next = this.#messages.find(isUnsent);
        if (next === undefined) return;
        await this.#deliver(next);
      }
    } finally {
      this.#isBusy = false;
    }
  }

  async #deliver(message: Outgoing): Promise<void> {
    const backoff = new Backoff();
    const { signal } = this.#stopped;
    for (let tries = 1; !signal.aborted; tries++) {
      try {
        await this.#parts.post(message);
        this.#change(message.id, { state: "sent" });
        return;
      } catch (error) {
        const isWorthIt = error instanceof RequestError && error.retryable && tries < TRIES;
        if (!isWorthIt || signal.aborted) {
          this.#change(message.id, { state: "failed", error: messageOf(error) });
          return;
        }
        this.#change(message.id, { state: "waiting" });
        await (this.#parts.pause ?? pause)(backoff.next(), signal);
      }
    }
  }

  #change(id: string, change: Partial<Outgoing>): void {
    if (!this.#messages.some((message) => message.id === id)) return;
    this.#set(
      this.#messages.map((message) => (message.id === id ? { ...message, ...change } : message)),
    );
  }

  #set(messages: readonly Outgoing[]): void {
    this.#messages = messages;
    const left = messages.filter((message) => message.state !== "sent");
    try {
      if (left.length === 0) this.#parts.storage?.removeItem(STORED);
      else this.#parts.storage?.setItem(STORED, JSON.stringify(left));
    } catch {
      // A full or forbidden storage only costs what a reload would have kept.
    }
    for (const changed of this.#watchers) changed();
  }
}

function isUnsent(message: Outgoing): boolean {
  return message.state === "sending" || message.state === "waiting";
}

function stored(storage: OutboxParts["storage"]): Outgoing[] {
  try {
    const value: unknown = JSON.parse(storage?.getItem(STORED) ?? "[]");
    if (!Array.isArray(value)) return [];
    return value.filter(
      (one): one is Outgoing => typeof one?.id === "string" && typeof one?.text === "string",
    );
  } catch {
    return [];
  }
}

/** `crypto.randomUUID` is missing on a page served over plain http from another computer. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
