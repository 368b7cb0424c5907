/**
 * Whether a reader has a hand on the scroll bar, in the widest sense: wheel, finger, key or pointer.
 *
 * A scroll position also changes by itself, when a box or what is in it changes its size while it
 * grows. Only a reader's own hand ends following the end of an output that grows; while nothing
 * grows, whatever scrolls (find in page, a screen reader) means it.
 */

/** After the last wheel turn or key press a browser may go on scrolling smoothly. */
const AFTER_MS = 1_000;
const GROWING_MS = 500;

export class ReaderHand {
  #until = Number.NEGATIVE_INFINITY;
  #holds = false;
  #grewAt = Number.NEGATIVE_INFINITY;

  /** A wheel turned, a finger moved, a key was pressed. */
  acted(now: number): void {
    this.#until = now + AFTER_MS;
  }

  /** A pointer went down on the box or its bar. */
  took(): void {
    this.#holds = true;
  }

  /** It went up; browsers do not tell that of a bar, but the next move has no button down. */
  moved(now: number, buttons: number): void {
    if (!this.#holds || buttons !== 0) return;
    this.#holds = false;
    this.acted(now);
  }

  /** Rows were added. */
  grew(now: number): void {
    this.#grewAt = now;
  }

  /** True when a scroll now is to be taken as the reader's. */
  scrolls(now: number): boolean {
    return this.#holds || now < this.#until || now >= this.#grewAt + GROWING_MS;
  }
}
