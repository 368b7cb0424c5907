/**
 * Which outputs may be streamed: a few at a time.
 *
 * A browser opens six connections to a server that speaks HTTP/1.1, for all its tabs together: how
 * many are this one's, `live/tabs.ts` says.
 */

export interface SlotUser {
  /** True while what it reads has no foreseeable end. */
  readonly isEndless: boolean;
  /** Its turn: it reads now, and calls `leave` when done. */
  begin(): void;
  /** Somebody wants to see something else: it stops reading. */
  giveWay(): void;
}

export class Slots {
  #count: number;
  readonly #users: SlotUser[] = [];
  readonly #waiting: SlotUser[] = [];

  constructor(count: number) {
    this.#count = count;
  }

  /**
   * Gives the user a turn: at once, or after one that will end soon. When all are endless, the one
   * that has had its place for longest gives way to the newcomer, which is what a person looks at.
   */
  enter(user: SlotUser): void {
    if (this.#users.includes(user) || this.#waiting.includes(user)) return;
    if (this.#users.length >= this.#count) {
      const oldest = this.#users[0];
      if (oldest === undefined || !this.#users.every((one) => one.isEndless)) {
        this.#waiting.push(user);
        return;
      }
      this.#users.shift();
      oldest.giveWay();
    }
    this.#users.push(user);
    user.begin();
  }

  /** Has more or fewer at a time; those for whom there is no place any more get it back later. */
  resize(count: number): void {
    this.#count = count;
    while (this.#users.length > count) {
      const oldest = this.#users.shift() as SlotUser;
      this.#waiting.unshift(oldest);
      oldest.giveWay();
    }
    while (this.#users.length < count) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.enter(next);
    }
  }

  /** Takes the user out, whether it had its turn or not. */
  leave(user: SlotUser): void {
    remove(this.#waiting, user);
    if (!remove(this.#users, user)) return;
    const next = this.#waiting.shift();
    if (next !== undefined) this.enter(next);
  }
}

function remove(users: SlotUser[], user: SlotUser): boolean {
  const at = users.indexOf(user);
  if (at >= 0) users.splice(at, 1);
  return at >= 0;
}
