/** One attempt's output in this page: read once, shown wherever it is asked for. */
import { api, got, openStream } from "../api/client.ts";
import { ApiError, messageOf, SignedOut } from "../api/errors.ts";
import { breathe } from "./breathe.ts";
import { FileAnswer, type Operation } from "./file_answer.ts";
import { follow, type OutputStream, type Taker } from "./follow.ts";
import { LineBuffer } from "./line_buffer.ts";
import { Slots, type SlotUser } from "./slots.ts";

export type OutputState =
  | "idle" // nobody looks
  | "waiting" // for a slot
  | "following"
  | "reconnecting"
  | "paused" // gave its slot to another output
  | "complete"
  | "failed"; // `error` says why

const slots = new Slots(2);
/** A restart that nobody notices needs no words. */
const TELL_AFTER_MS = 2_000;
/** Outputs that nobody looks at are kept for coming back to, as many and as large as this. */
const KEPT = 8;
const KEPT_UNITS = 32 * 1024 * 1024;
/** Who may not read the bytes is shown the two ends, as the API has them as text. */
const ENDS_BYTES = 256 * 1024;

export class OutputStore implements Taker, SlotUser {
  readonly attemptId: string;
  readonly commandId: string;
  /** What the command does with files; null: it runs a program. */
  readonly operation: Operation | null;
  readonly taken: Record<OutputStream, number> = { stdout: 0, stderr: 0 };
  readonly lines = new LineBuffer();
  /** True while the command has not ended. */
  isEndless = false;
  state: OutputState = "idle";
  error: string | null = null;
  /** What the command seems to wait for. */
  hint: string | null = null;

  readonly #decoders = { stdout: newDecoder(), stderr: newDecoder() };
  readonly #answer: FileAnswer | null;
  readonly #watchers = new Set<() => void>();
  #viewers = 0;
  #reading: AbortController | null = null;
  #tell: ReturnType<typeof setTimeout> | undefined;
  #frame = 0;
  #version = 0;

  constructor(attemptId: string, commandId: string, operation: Operation | null) {
    this.attemptId = attemptId;
    this.commandId = commandId;
    this.operation = operation;
    this.#answer = operation === null ? null : new FileAnswer(operation);
  }

  get version(): number {
    return this.#version;
  }

  get hasViewers(): boolean {
    return this.#viewers > 0;
  }

  readonly watch = (changed: () => void): (() => void) => {
    this.#watchers.add(changed);
    return () => this.#watchers.delete(changed);
  };

  /** Somebody looks: it is read. Returns how to look away. */
  view(): () => void {
    this.#viewers++;
    if (this.state === "idle") this.read();
    return () => {
      this.#viewers--;
      if (this.#viewers > 0) return;
      this.#stop();
      if (this.state !== "complete" && this.state !== "failed") this.#become("idle");
      trim();
    };
  }

  /** Reads what is missing; another output may have to give way. */
  read(): void {
    this.#become("waiting");
    slots.enter(this);
  }

  /** There is more than was read when it was complete: a result that came late. */
  expect(stdout: number, stderr: number): void {
    const more = stdout > this.taken.stdout || stderr > this.taken.stderr;
    if (this.state === "complete" && more && this.#viewers > 0) this.read();
  }

  begin(): void {
    const reading = new AbortController();
    this.#reading = reading;
    this.error = null;
    this.#become("following");
    void this.#follow(reading.signal);
  }

  /** Begins a new connection: the old one may be dead without a word, as a quiet command looks. */
  reconnect(): void {
    if (this.#reading === null) return;
    this.#reading.abort();
    this.begin();
  }

  giveWay(): void {
    this.#reading?.abort();
    this.#reading = null;
    this.#become("paused");
  }

  // What `follow` hands over

  bytes(stream: OutputStream, bytes: Uint8Array): void {
    this.hint = null;
    this.#write(stream, this.#decoders[stream].decode(bytes, { stream: true }));
    this.#changed();
  }

  waitsForInput(takesInput: boolean): void {
    this.hint = takesInput
      ? "It seems to wait for input."
      : "It seems to wait for input; it has none.";
    this.#changed();
  }

  omitted(stream: OutputStream, length: number): void {
    this.#flush(stream);
    this.lines.note(`${length.toLocaleString()} bytes of ${stream} were not kept`);
    this.#changed();
  }

  connected(is: boolean): void {
    if (!is) {
      this.#tell ??= setTimeout(() => this.#become("reconnecting"), TELL_AFTER_MS);
      return;
    }
    this.#hush();
    this.#become("following");
  }

  async #follow(signal: AbortSignal): Promise<void> {
    try {
      const isEnd = await follow(
        this,
        {
          open: ({ stdout, stderr }, aborted) =>
            openStream(
              `/v1/attempts/${encodeURIComponent(this.attemptId)}/output?stdout=${stdout}&stderr=${stderr}`,
              aborted,
            ),
          breathe,
        },
        signal,
      );
      if (!isEnd) return;
      this.#flush("stdout");
      this.#flush("stderr");
      this.#complete();
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status === 403) await this.#readEnds(signal);
      else this.#fail(error);
    }
  }

  async #readEnds(signal: AbortSignal): Promise<void> {
    try {
      const command = await got(
        api.GET("/v1/commands/{command_id}", {
          signal,
          params: {
            path: { command_id: this.commandId },
            query: { head: ENDS_BYTES, tail: ENDS_BYTES },
          },
        }),
      );
      for (const stream of ["stdout", "stderr"] as const) {
        const { head, tail, omitted_bytes, total_bytes } = command[stream];
        this.taken[stream] = total_bytes;
        this.#write(stream, head);
        if (omitted_bytes > 0) this.omitted(stream, omitted_bytes);
        this.#write(stream, tail);
      }
      this.#complete();
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    this.error = error instanceof SignedOut ? null : messageOf(error);
    this.#finish("failed");
  }

  #finish(state: OutputState): void {
    this.#reading = null;
    this.hint = null;
    slots.leave(this);
    this.#become(state);
  }

  #stop(): void {
    this.#reading?.abort();
    this.#reading = null;
    slots.leave(this);
  }

  /** What is left of a character that was cut off is shown as the replacement that it is. */
  #flush(stream: OutputStream): void {
    this.#write(stream, this.#decoders[stream].decode());
  }

  #write(stream: OutputStream, text: string): void {
    if (this.#answer === null) this.lines.write(stream, text);
    else this.lines.write("stdout", this.#answer.take(stream, text));
  }

  #complete(): void {
    const said = this.#answer?.end() ?? null;
    if (said !== null) this.lines.note(said);
    this.#finish("complete");
  }

  #hush(): void {
    clearTimeout(this.#tell);
    this.#tell = undefined;
  }

  #become(state: OutputState): void {
    if (state !== "reconnecting") this.#hush();
    if (state === this.state) return;
    this.state = state;
    this.#changed();
  }

  /** Tells those who look at most once per drawn frame. */
  #changed(): void {
    if (this.#frame !== 0 || this.#watchers.size === 0) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#version++;
      for (const changed of this.#watchers) changed();
    });
  }
}

function newDecoder(): TextDecoder {
  // A byte order mark inside of output is a character like any other.
  return new TextDecoder("utf-8", { ignoreBOM: true });
}

const stores = new Map<string, OutputStore>();

/** Returns the attempt's store, the same one every time while it is kept. */
export function outputOf(
  attemptId: string,
  commandId: string,
  operation: Operation | null,
): OutputStore {
  const known = stores.get(attemptId);
  if (known !== undefined) {
    stores.delete(attemptId); // the one used last is the last to go
    stores.set(attemptId, known);
    return known;
  }
  const store = new OutputStore(attemptId, commandId, operation);
  stores.set(attemptId, store);
  return store;
}

function trim(): void {
  let kept = 0;
  let units = 0;
  for (const [attemptId, store] of [...stores].reverse()) {
    if (store.hasViewers) continue;
    kept += 1;
    units += store.lines.units;
    if (kept > KEPT || units > KEPT_UNITS) stores.delete(attemptId);
  }
}

/** The server was away: whatever is followed goes on where it was, over new connections. */
export function reconnectOutputs(): void {
  for (const store of stores.values()) store.reconnect();
}

/** Has so many outputs streamed at a time. */
export function limitOutputs(count: number): void {
  slots.resize(count);
}

/** Forgets everything that was read: another person may sign in here. */
export function forgetOutputs(): void {
  for (const [attemptId, store] of stores) if (!store.hasViewers) stores.delete(attemptId);
}
