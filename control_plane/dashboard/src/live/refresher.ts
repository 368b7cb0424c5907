/**
 * Reads queries anew, gathered over a moment and one at a time per key.
 *
 * A busy ticket tells of something every few milliseconds. Cancelling a request for each would
 * starve the page; ignoring events while one runs would leave it stale. So a key that is being read
 * is read once more afterwards.
 */
import type { QueryKey } from "../api/keys.ts";

/** Events of one transaction come together; people do not notice this much. */
const GATHER_MS = 50;

export class Refresher {
  readonly #refresh: (key: QueryKey | null) => Promise<unknown>;
  readonly #due = new Map<string, QueryKey | null>();
  readonly #busy = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `refresh` reads everything below a key (null: everything) and resolves when that is done. */
  constructor(refresh: (key: QueryKey | null) => Promise<unknown>) {
    this.#refresh = refresh;
  }

  /** Has a key read anew soon; null: everything. */
  add(key: QueryKey | null): void {
    this.#due.set(JSON.stringify(key), key);
    this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS);
  }

  #flush(): void {
    this.#timer = undefined;
    for (const [name, key] of this.#due) {
      if (this.#busy.has(name)) continue;
      this.#due.delete(name);
      this.#busy.add(name);
      const done = () => {
        this.#busy.delete(name);
        if (this.#due.has(name)) this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS);
      };
      this.#refresh(key).then(done, done);
    }
  }
}
