/** How long to wait before the next try: 0.1 s, doubling to 2 s; a restart of a server takes that. */
export class Backoff {
  #next = FIRST_MS;

  /** Returns this try's wait. Up to a quarter is random, so that many pages do not come at once. */
  next(random: () => number = Math.random): number {
    const wait = this.#next;
    this.#next = Math.min(wait * 2, CAP_MS);
    return wait * (1 - random() / 4);
  }

  /** Call when something was received: the next trouble is a new one. */
  reset(): void {
    this.#next = FIRST_MS;
  }
}

const FIRST_MS = 100;
const CAP_MS = 2_000;

/** Resolves after a while, at once when the browser says that the network is back, or on abort. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      globalThis.removeEventListener?.("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    globalThis.addEventListener?.("online", done);
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  });
}
