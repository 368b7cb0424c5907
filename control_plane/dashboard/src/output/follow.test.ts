import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError, Unreachable } from "../api/errors.ts";
import { follow, type OutputStream, type Taker } from "./follow.ts";
import { FrameKind } from "./frames.ts";

function frame(kind: number, payload: string | Uint8Array = ""): Uint8Array {
  const data = typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
  const bytes = new Uint8Array(5 + data.length);
  bytes[0] = kind;
  new DataView(bytes.buffer).setUint32(1, data.length);
  bytes.set(data, 5);
  return bytes;
}

const END = [frame(FrameKind.EXIT, "{}"), frame(FrameKind.COMMITTED)];

class FakeTaker implements Taker {
  readonly taken: Record<OutputStream, number> = { stdout: 0, stderr: 0 };
  readonly heard: string[] = [];
  bytes(stream: OutputStream, bytes: Uint8Array): void {
    this.heard.push(`${stream} ${new TextDecoder().decode(bytes)}`);
  }
  omitted(stream: OutputStream, length: number): void {
    this.heard.push(`${stream} omitted ${length}`);
  }
  waitsForInput(takesInput: boolean): void {
    this.heard.push(takesInput ? "waits" : "waits, has none");
  }
  connected(): void {}
}

/** Serves one attempt: each connection is a function of the offsets that it was asked for. */
function following(connections: ((taken: Record<OutputStream, number>) => Uint8Array[] | Error)[]) {
  const taker = new FakeTaker();
  const asked: string[] = [];
  const stopped = new AbortController();
  const done = follow(
    taker,
    {
      open: async (taken) => {
        asked.push(`${taken.stdout} ${taken.stderr}`);
        const answer = connections.shift()?.(taken) ?? new Unreachable();
        if (answer instanceof Error) throw answer;
        return new ReadableStream<Uint8Array>({
          start: (controller) => {
            for (const chunk of answer) controller.enqueue(chunk);
            controller.close();
          },
        });
      },
      pause: async () => undefined,
      breathe: () => undefined,
    },
    stopped.signal,
  );
  return { taker, asked, done, stopped };
}

test("an output is read to its recorded end", async () => {
  const { taker, done } = following([
    () => [
      frame(FrameKind.STDOUT, "out"),
      frame(FrameKind.STATE, "{}"),
      frame(FrameKind.STDERR, "err"),
      frame(99, "of a later server"),
      ...END,
    ],
  ]);
  assert.equal(await done, true);
  assert.deepEqual(taker.heard, ["stdout out", "stderr err"]);
});

test("a hint that it waits for input is passed on, and other hints are left out", async () => {
  const { taker, done } = following([
    () => [
      frame(FrameKind.STDOUT, "name? "),
      frame(FrameKind.HINT, '{"hint": "waits_for_input", "takes_input": false}'),
      frame(FrameKind.HINT, '{"hint": "of a later server"}'),
      ...END,
    ],
  ]);
  assert.equal(await done, true);
  assert.deepEqual(taker.heard, ["stdout name? ", "waits, has none"]);
});

test("after a lost connection it goes on where it was, by bytes of each stream", async () => {
  const { taker, asked, done } = following([
    () => [frame(FrameKind.STDOUT, "abc"), frame(FrameKind.STDERR, "x")],
    () => new Unreachable(),
    () => [frame(FrameKind.STDOUT, "def"), ...END],
  ]);
  assert.equal(await done, true);
  assert.deepEqual(asked, ["0 0", "3 1", "3 1"]);
  assert.deepEqual(taker.heard, ["stdout abc", "stderr x", "stdout def"]);
});

test("a frame that was cut off is read again as a whole", async () => {
  const whole = frame(FrameKind.STDOUT, "abcdef");
  const { taker, asked, done } = following([
    () => [frame(FrameKind.STDOUT, "12"), whole.subarray(0, 8)],
    () => [whole, ...END],
  ]);
  assert.equal(await done, true);
  assert.deepEqual(asked, ["0 0", "2 0"]);
  assert.deepEqual(taker.heard, ["stdout 12", "stdout abcdef"]);
});

test("bytes that were not kept count as taken, and are said once", async () => {
  const gap = frame(
    FrameKind.OMITTED,
    JSON.stringify({ stream: "stdout", offset: 2, length: 100 }),
  );
  const { taker, asked, done } = following([
    () => [frame(FrameKind.STDOUT, "ab"), gap],
    () => [gap, frame(FrameKind.STDOUT, "yz"), ...END],
  ]);
  assert.equal(await done, true);
  assert.deepEqual(asked, ["0 0", "102 0"]);
  assert.deepEqual(taker.heard, ["stdout ab", "stdout omitted 100", "stdout yz"]);
});

test("an error that trying again cannot change is thrown", async () => {
  const { done } = following([() => new ApiError(403, "not_allowed", "cannot follow")]);
  await assert.rejects(done, /cannot follow/);
});

test("an error frame says what happened", async () => {
  const told = JSON.stringify({ code: "not_found", message: "the attempt is not kept any more" });
  const { done } = following([() => [frame(FrameKind.ERROR, told)]]);
  await assert.rejects(done, /not kept any more/);
});

test("stopped, it says that this was not the end", async () => {
  const { stopped, done } = following([() => [frame(FrameKind.STDOUT, "abc")]]);
  stopped.abort();
  assert.equal(await done, false);
});
