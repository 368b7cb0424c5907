/** An attempt's output followed to its end, over as many connections as it takes. */
import { ApiError, SignedOut } from "../api/errors.ts";
import { Backoff, pause } from "../live/backoff.ts";
import { FrameDecoder, FrameKind, jsonOf } from "./frames.ts";

export type OutputStream = "stdout" | "stderr";

/** Where the bytes go. Offsets are kept here, so that a later `follow` goes on where this one ended. */
export interface Taker {
  /** Bytes of each stream that were taken or are known to be missing. */
  readonly taken: Record<OutputStream, number>;
  bytes(stream: OutputStream, bytes: Uint8Array): void;
  omitted(stream: OutputStream, length: number): void;
  /** It writes nothing and seems to wait for somebody to type, until it writes again. */
  waitsForInput(takesInput: boolean): void;
  /** The connection is there (again), or away. */
  connected(is: boolean): void;
}

export interface FollowParts {
  /** Opens the stream of frames after these offsets. */
  readonly open: (
    taken: Record<OutputStream, number>,
    signal: AbortSignal,
  ) => Promise<ReadableStream<Uint8Array>>;
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Lets the browser draw and answer the keyboard, when it is time. */
  readonly breathe: () => Promise<void> | undefined;
}

/** A piece that is read without looking at the clock: about a millisecond's work. */
const PIECE_BYTES = 32 * 1024;

/**
 * Reads until the attempt's end is recorded or `signal` aborts; true: that was the end.
 * Throws what trying again cannot change.
 */
export async function follow(
  taker: Taker,
  parts: FollowParts,
  signal: AbortSignal,
): Promise<boolean> {
  const backoff = new Backoff();
  while (!signal.aborted) {
    try {
      if (await readOne(taker, parts, signal, backoff)) return true;
    } catch (error) {
      if (signal.aborted) return false;
      if (error instanceof SignedOut || (error instanceof ApiError && !error.retryable))
        throw error;
    }
    if (signal.aborted) return false;
    taker.connected(false);
    await (parts.pause ?? pause)(backoff.next(), signal);
  }
  return false;
}

/** Reads one connection; true when the attempt's end came with it. */
async function readOne(
  taker: Taker,
  parts: FollowParts,
  signal: AbortSignal,
  backoff: Backoff,
): Promise<boolean> {
  const body = await parts.open(taker.taken, signal);
  const reader = body.getReader();
  const decoder = new FrameDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return false;
      backoff.reset();
      taker.connected(true);
      for (const frame of decoder.feed(value)) {
        switch (frame.kind) {
          case FrameKind.STDOUT:
          case FrameKind.STDERR: {
            const stream = frame.kind === FrameKind.STDOUT ? "stdout" : "stderr";
            for (let at = 0; at < frame.payload.length; at += PIECE_BYTES) {
              const piece = frame.payload.subarray(at, at + PIECE_BYTES);
              taker.taken[stream] += piece.length;
              taker.bytes(stream, piece);
              const rest = parts.breathe();
              if (rest !== undefined) await rest;
              if (signal.aborted) return false;
            }
            break;
          }
          case FrameKind.OMITTED: {
            const gap = jsonOf(frame);
            const stream = gap["stream"] === "stderr" ? "stderr" : "stdout";
            const end = Number(gap["offset"]) + Number(gap["length"]);
            const length = end - taker.taken[stream];
            if (length > 0) {
              taker.taken[stream] = end;
              taker.omitted(stream, length);
            }
            break;
          }
          case FrameKind.HINT: {
            const hint = jsonOf(frame);
            if (hint["hint"] === "waits_for_input")
              taker.waitsForInput(hint["takes_input"] === true);
            break;
          }
          case FrameKind.COMMITTED:
            return true;
          case FrameKind.ERROR: {
            const { code, message } = jsonOf(frame);
            throw new ApiError(code === "not_found" ? 404 : 500, String(code), String(message));
          }
        }
      }
    }
  } finally {
    reader.cancel().catch(() => undefined); // the connection may be broken already
  }
}
