/**
 * The page's one event stream, over as many connections as it takes.
 *
 * The story it exists for: the replica behind an open page is restarted, or the laptop sleeps. The
 * page keeps what it shows, says "reconnecting…" if that lasts, comes back with the number of the
 * last event it saw, and reads everything anew that it shows: so nothing is lost, and because
 * events only say *what* to read anew, nothing can be doubled.
 */
import { createParser } from "eventsource-parser";
import { ApiError, SignedOut } from "../api/errors.ts";
import { Backoff, pause } from "./backoff.ts";
import { Position } from "./position.ts";

/** One event as it is on the wire; `Schemas["Event"]` says what it holds. */
export interface LiveEvent {
  readonly seq: number;
  readonly kind: string;
  readonly subject_id: string | null;
  readonly thread_id: string | null;
  readonly ticket_id: string | null;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly at: string;
}

export interface EventStreamParts {
  /** Opens the stream after the event of that number (null: from now on). */
  readonly open: (
    after: number | null,
    signal: AbortSignal,
  ) => Promise<ReadableStream<Uint8Array<ArrayBuffer>>>;
  readonly onEvent: (event: LiveEvent) => void;
  /** Something may have been missed: whatever is shown is to be read again. */
  readonly onGap: () => void;
  /** The connection is there again after it was lost; other long ones may be dead as well. */
  readonly onBack: () => void;
  readonly onChange: () => void;
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** The server says something at least every 15 s; after this long the connection is dead. */
const SILENCE_MS = 40_000;
/** A restart that nobody notices needs no words. */
const TELL_AFTER_MS = 2_000;

export class EventStream {
  readonly #parts: EventStreamParts;
  readonly #position = new Position();
  #running: AbortController | null = null;
  #isOpen = false;
  #tell: ReturnType<typeof setTimeout> | undefined;
  #isReconnecting = false;
  #wasLost = false;

  constructor(parts: EventStreamParts) {
    this.#parts = parts;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** True when the server has been away for so long that a person should know. */
  get isReconnecting(): boolean {
    return this.#isReconnecting;
  }

  /** Starts, or goes on after a `stop`. */
  start(): void {
    if (this.#running !== null) return;
    this.#running = new AbortController();
    void this.#run(this.#running.signal);
  }

  /** Closes the connection; the position is kept. */
  stop(): void {
    this.#running?.abort();
    this.#running = null;
    clearTimeout(this.#tell);
    this.#tell = undefined;
    this.#become(false, false);
  }

  async #run(signal: AbortSignal): Promise<void> {
    const backoff = new Backoff();
    const wait = this.#parts.pause ?? pause;
    while (!signal.aborted) {
      this.#tell ??= setTimeout(() => this.#become(false, true), TELL_AFTER_MS);
      try {
        await this.#follow(signal, backoff);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof SignedOut) {
          this.stop();
          return;
        }
        if (error instanceof ApiError && !error.retryable) this.#position.forget();
      }
      if (signal.aborted) return;
      this.#wasLost = true;
      this.#become(false, this.#isReconnecting);
      await wait(backoff.next(), signal);
    }
  }

  /** Reads one connection to its end. */
  async #follow(signal: AbortSignal, backoff: Backoff): Promise<void> {
    const connection = new AbortController();
    const end = () => connection.abort();
    signal.addEventListener("abort", end);
    let silence = setTimeout(end, SILENCE_MS);
    try {
      const body = await this.#parts.open(this.#position.last, connection.signal);
      const parser = createParser({ onEvent: (event) => this.#take(event.data) });
      const decoder = new TextDecoder();
      let isFirst = true;
      const reader = body.getReader();
      const cancel = () => void reader.cancel().catch(() => undefined);
      connection.signal.addEventListener("abort", cancel);
      if (connection.signal.aborted) cancel();
      for (;;) {
        const { done, value } = await reader.read();
        if (done || signal.aborted) return;
        clearTimeout(silence);
        silence = setTimeout(end, SILENCE_MS);
        backoff.reset();
        if (isFirst) {
          isFirst = false;
          clearTimeout(this.#tell);
          this.#tell = undefined;
          this.#become(true, false);
          this.#parts.onGap();
          if (this.#wasLost) this.#parts.onBack();
          this.#wasLost = false;
        }
        parser.feed(decoder.decode(value, { stream: true }));
      }
    } finally {
      clearTimeout(silence);
      signal.removeEventListener("abort", end);
      connection.abort();
    }
  }

  #take(data: string): void {
    const event = parsed(data);
    if (event === null) return;
    const arrival = this.#position.take(event.seq);
    if (arrival === "again") return;
    if (arrival === "gap") this.#parts.onGap();
    this.#parts.onEvent(event);
  }

  #become(isOpen: boolean, isReconnecting: boolean): void {
    if (isOpen === this.#isOpen && isReconnecting === this.#isReconnecting) return;
    this.#isOpen = isOpen;
    this.#isReconnecting = isReconnecting;
    this.#parts.onChange();
  }
}

function parsed(data: string): LiveEvent | null {
  try {
    const value: unknown = JSON.parse(data);
    if (typeof value !== "object" || value === null) return null;
    return typeof (value as LiveEvent).seq === "number" ? (value as LiveEvent) : null;
  } catch {
    return null; // not an event of ours; the next one may be
  }
}
