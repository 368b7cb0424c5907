/** What an event's number says about what came before it. */
export type Arrival = "next" | "gap" | "again";

/**
 * Where a page stands in the instance's events, which are numbered without holes.
 *
 * Nothing is lost: a hole is noticed. Nothing is doubled: what came before is not new.
 */
export class Position {
  #last: number | null = null;

  /** The number to come back with; null: from now on. */
  get last(): number | null {
    return this.#last;
  }

  take(seq: number): Arrival {
    const last = this.#last;
    if (last !== null && seq <= last) return "again";
    this.#last = seq;
    return last === null || seq === last + 1 ? "next" : "gap";
  }

  /** The server does not know our number (another database behind the same address). */
  forget(): void {
    this.#last = null;
  }
}
