import assert from "node:assert/strict";
import { test } from "node:test";
import { type Frame, FrameDecoder, FrameKind, jsonOf, NotFrames } from "./frames.ts";

function frame(kind: number, payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(5 + payload.length);
  bytes[0] = kind;
  new DataView(bytes.buffer).setUint32(1, payload.length);
  bytes.set(payload, 5);
  return bytes;
}

const text = (value: string) => new TextEncoder().encode(value);

function joined(...parts: Uint8Array[]): Uint8Array {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

function decoded(...chunks: Uint8Array[]): { kind: number; payload: string }[] {
  const decoder = new FrameDecoder();
  return chunks
    .flatMap((chunk) => decoder.feed(chunk))
    .map((one: Frame) => ({ kind: one.kind, payload: new TextDecoder().decode(one.payload) }));
}

const STORY = joined(
  frame(FrameKind.ACCEPTED, text('{"attempt_id":"a"}')),
  frame(FrameKind.STDOUT, text("out")),
  frame(FrameKind.STDERR, text("")),
  frame(99, text("of a later server")),
  frame(FrameKind.STDERR, text("x".repeat(300))),
  frame(FrameKind.COMMITTED, text("")),
);

test("frames are read wherever the chunks are cut", () => {
  const whole = decoded(STORY);
  assert.deepEqual(
    whole.map((one) => one.kind),
    [1, 2, 3, 99, 3, 7],
  );
  for (let cut = 0; cut <= STORY.length; cut++) {
    assert.deepEqual(decoded(STORY.subarray(0, cut), STORY.subarray(cut)), whole, `cut at ${cut}`);
  }
  assert.deepEqual(decoded(...[...STORY].map((byte) => Uint8Array.of(byte))), whole);
});

test("what was handed out does not change with later chunks", () => {
  const decoder = new FrameDecoder();
  const chunk = frame(FrameKind.STDOUT, text("first"));
  const [first] = decoder.feed(chunk);
  chunk.fill(0);
  decoder.feed(frame(FrameKind.STDOUT, text("later")));
  assert.equal(new TextDecoder().decode(first?.payload), "first");
});

test("a frame over the limit is no frame", () => {
  const html = text("<!doctype html><title>proxy</title>");
  assert.throws(() => new FrameDecoder().feed(html), NotFrames);
});

test("a payload that should be JSON and is not says so", () => {
  assert.throws(() => jsonOf({ kind: FrameKind.EXIT, payload: text("{") }), NotFrames);
  assert.throws(() => jsonOf({ kind: FrameKind.EXIT, payload: text("3") }), NotFrames);
  assert.deepEqual(jsonOf({ kind: FrameKind.EXIT, payload: text('{"a":1}') }), { a: 1 });
});
