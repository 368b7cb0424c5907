/**
 * The frames of an attempt's output, as `exec_frames.py` writes them.
 *
 * Frame: `[u8 kind][u32 length, big-endian][length bytes]`. Offsets are not in the frames: bytes of a
 * stream follow one another, and OMITTED says where some are missing.
 */

export const FrameKind = {
  ACCEPTED: 1, // JSON {command_id, attempt_id, machine}
  STDOUT: 2, // bytes as the command wrote them
  STDERR: 3,
  OMITTED: 4, // JSON {stream, offset, length}
  STATE: 5, // JSON {state, …}
  EXIT: 6, // JSON {result, committed}
  COMMITTED: 7, // empty: nothing follows
  ERROR: 8, // JSON {code, message}; nothing follows
  HINT: 12, // JSON {hint, …}
} as const;

export interface Frame {
  readonly kind: number;
  readonly payload: Uint8Array;
}

/** Far over what a replica sends in one piece: more is not a stream of ours. */
export const PAYLOAD_MAX_BYTES = 4 * 1024 * 1024;
const HEADER_BYTES = 5;

export class NotFrames extends Error {}

/** Turns chunks of any size into frames; kinds of a newer server are for the caller to skip. */
export class FrameDecoder {
  readonly #header = new Uint8Array(HEADER_BYTES);
  #headerBytes = 0;
  #payload: Uint8Array = EMPTY;
  #payloadBytes = 0;

  /** Returns the frames that `chunk` completes; throws NotFrames when one is over the limit. */
  feed(chunk: Uint8Array): Frame[] {
    const frames: Frame[] = [];
    let at = 0;
    while (at < chunk.length) {
      if (this.#headerBytes < HEADER_BYTES) {
        const part = chunk.subarray(at, at + HEADER_BYTES - this.#headerBytes);
        this.#header.set(part, this.#headerBytes);
        this.#headerBytes += part.length;
        at += part.length;
        if (this.#headerBytes < HEADER_BYTES) break;
        this.#payload = new Uint8Array(this.#announced());
        this.#payloadBytes = 0;
      }
      const part = chunk.subarray(at, at + this.#payload.length - this.#payloadBytes);
      this.#payload.set(part, this.#payloadBytes);
      this.#payloadBytes += part.length;
      at += part.length;
      if (this.#payloadBytes === this.#payload.length) {
        frames.push({ kind: this.#header[0] as number, payload: this.#payload });
        this.#headerBytes = 0;
        this.#payload = EMPTY;
      }
    }
    return frames;
  }

  #announced(): number {
    const bytes = new DataView(this.#header.buffer).getUint32(1);
    if (bytes > PAYLOAD_MAX_BYTES) {
      throw new NotFrames(
        `cannot read a frame of ${bytes} bytes: the limit is ${PAYLOAD_MAX_BYTES}`,
      );
    }
    return bytes;
  }
}

/** Returns a payload's JSON object; throws NotFrames when it is none. */
export function jsonOf(frame: Frame): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(frame.payload));
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // told below
  }
  throw new NotFrames(`cannot read a frame of kind ${frame.kind}: it is not JSON`);
}

const EMPTY = new Uint8Array();
