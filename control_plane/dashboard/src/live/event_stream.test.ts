import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError, SignedOut, Unreachable } from "../api/errors.ts";
import { EventStream, type LiveEvent } from "./event_stream.ts";

/** One connection that a test writes to and ends. */
class Connection {
  readonly after: number | null;
  readonly body: ReadableStream<Uint8Array<ArrayBuffer>>;
  #controller!: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>;

  constructor(after: number | null) {
    this.after = after;
    this.body = new ReadableStream({
      start: (controller) => {
        this.#controller = controller;
      },
    });
  }

  send(bytes: Uint8Array<ArrayBuffer>): void {
    this.#controller.enqueue(bytes);
  }

  say(text: string): void {
    this.send(new TextEncoder().encode(text));
  }

  tell(...seqs: number[]): void {
    for (const seq of seqs) {
      const data = { seq, kind: "reply_sent", subject_id: null, thread_id: null, ticket_id: null };
      this.say(`id: ${seq}\ndata: ${JSON.stringify({ ...data, payload: {}, at: "" })}\n\n`);
    }
  }

  end(): void {
    this.#controller.close();
  }

  break(): void {
    this.#controller.error(new TypeError("network error"));
  }
}

function an(answers: (after: number | null) => Promise<Connection>) {
  const heard: LiveEvent[] = [];
  const seen = { gaps: 0, backs: 0, tries: 0 };
  const connections: Connection[] = [];
  const stream = new EventStream({
    open: async (after) => {
      seen.tries += 1;
      const connection = await answers(after);
      connections.push(connection);
      return connection.body;
    },
    onEvent: (event) => heard.push(event),
    onGap: () => {
      seen.gaps += 1;
    },
    onBack: () => {
      seen.backs += 1;
    },
    onChange: () => undefined,
    pause: () => new Promise((resolve) => setImmediate(resolve)),
  });
  return { stream, heard, seen, connections };
}

async function until(what: () => boolean): Promise<void> {
  const deadline = performance.now() + 5_000;
  while (!what()) {
    assert.ok(performance.now() < deadline, `waited too long for ${what}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const seqs = (heard: LiveEvent[]) => heard.map((event) => event.seq);

test("it comes back with the last number it saw, and hears nothing twice", async () => {
  const { stream, heard, seen, connections } = an(async (after) => new Connection(after));
  stream.start();
  await until(() => connections.length === 1);
  assert.equal(connections[0]?.after, null);
  connections[0]?.tell(4, 5);
  await until(() => heard.length === 2);
  connections[0]?.break();
  await until(() => connections.length === 2);
  assert.equal(connections[1]?.after, 5);
  connections[1]?.tell(5, 6);
  await until(() => heard.length === 3);
  assert.deepEqual(seqs(heard), [4, 5, 6]);
  assert.equal(seen.backs, 1);
  stream.stop();
});

test("every connection has everything read again, once it is open", async () => {
  const { stream, seen, connections } = an(async (after) => new Connection(after));
  stream.start();
  await until(() => connections.length === 1);
  assert.equal(seen.gaps, 0);
  connections[0]?.say(": farhand events\n\n");
  await until(() => seen.gaps === 1);
  connections[0]?.say(": still here\n\n");
  connections[0]?.end();
  await until(() => connections.length === 2);
  connections[1]?.say(": farhand events\n\n");
  await until(() => seen.gaps === 2);
  stream.stop();
});

test("a hole in the numbers has everything read again", async () => {
  const { stream, heard, seen, connections } = an(async (after) => new Connection(after));
  stream.start();
  await until(() => connections.length === 1);
  connections[0]?.tell(1, 2, 5);
  await until(() => heard.length === 3);
  assert.equal(seen.gaps, 2);
  stream.stop();
});

test("events cut in the middle, and what is no event, change nothing", async () => {
  const { stream, heard, connections } = an(async (after) => new Connection(after));
  stream.start();
  await until(() => connections.length === 1);
  const whole = 'id: 1\ndata: {"seq":1,"kind":"reply_sent","payload":{"text":"é😀"}}\n\n';
  const bytes = new TextEncoder().encode(`data: {\n\ndata: 3\n\n${whole}`);
  for (const byte of bytes) connections[0]?.send(Uint8Array.of(byte)); // also inside of characters
  await until(() => heard.length === 1);
  assert.deepEqual(heard[0]?.payload, { text: "é😀" });
  stream.stop();
});

test("while the server is away it tries again, and says so only after a while", async () => {
  let away = 4;
  const { stream, seen, connections } = an(async (after) => {
    if (away-- > 0) throw new Unreachable();
    return new Connection(after);
  });
  stream.start();
  await until(() => connections.length === 1);
  assert.equal(seen.tries, 5);
  assert.equal(stream.isReconnecting, false);
  stream.stop();
});

test("a session that is over is not knocked with again", async () => {
  const { stream, seen } = an(async () => {
    throw new SignedOut("not_authenticated", "cannot answer");
  });
  stream.start();
  await until(() => seen.tries === 1);
  await new Promise((resolve) => setTimeout(resolve, 20)); // would have tried again by now
  assert.equal(seen.tries, 1);
});

test("a number that the server does not know is forgotten", async () => {
  const afters: (number | null)[] = [];
  const { stream, heard, connections } = an(async (after) => {
    afters.push(after);
    if (afters.length === 2) throw new ApiError(422, "invalid_input", "cannot resume");
    return new Connection(after);
  });
  stream.start();
  await until(() => connections.length === 1);
  connections[0]?.tell(7);
  await until(() => heard.length === 1);
  connections[0]?.end();
  await until(() => connections.length === 2);
  assert.deepEqual(afters, [null, 7, null]);
  stream.stop();
});

test("stopped and started again, it goes on from where it was", async () => {
  const { stream, heard, connections } = an(async (after) => new Connection(after));
  stream.start();
  await until(() => connections.length === 1);
  connections[0]?.tell(3);
  await until(() => heard.length === 1);
  stream.stop();
  assert.equal(stream.isOpen, false);
  stream.start();
  await until(() => connections.length === 2);
  assert.equal(connections[1]?.after, 3);
  stream.stop();
});
