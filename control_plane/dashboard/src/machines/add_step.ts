/** Which step of adding a machine the dialog is at: what the server says, not what the dialog did. */

interface Known {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly owner_member_id: string;
}

interface Named {
  readonly id: string;
  readonly name: string;
}

export type AddStep<M extends Known> =
  | { readonly kind: "code" }
  | { readonly kind: "reading" }
  | { readonly kind: "words"; readonly machine: M }
  | { readonly kind: "added"; readonly machine: M }
  | { readonly kind: "turned away"; readonly name: string };

export interface AddFacts<M extends Known> {
  readonly machines: readonly M[];
  /** They are being read: what is missing may be there in a moment. */
  readonly isReading: boolean;
  /** Who the person is; null until it is known. */
  readonly memberId: string | null;
  /** The machine that used the code in hand. */
  readonly user: Named | null;
  /** The machine whose words are shown already: the dialog stays with it. */
  readonly followed: Named | null;
  /** Machines that the person put off to add another. */
  readonly putOff: ReadonlySet<string>;
}

/**
 * Returns the step.
 *
 * A machine that waits for this person's word comes before a code, also one that used an earlier
 * code: whoever reloads the page, or opens the dialog again, goes on where they were.
 */
export function addStep<M extends Known>(facts: AddFacts<M>): AddStep<M> {
  const { machines, isReading, memberId, putOff } = facts;
  const target = facts.followed ?? facts.user;
  if (target !== null && !putOff.has(target.id)) {
    const machine = machines.find((one) => one.id === target.id);
    if (machine?.status === "pending") return { kind: "words", machine };
    if (machine !== undefined) return { kind: "added", machine };
    // It is not listed: not yet, or not any more because it was turned away, here or elsewhere.
    return isReading && facts.followed === null
      ? { kind: "reading" }
      : { kind: "turned away", name: target.name };
  }
  const waiting = machines.find(
    (one) => one.status === "pending" && one.owner_member_id === memberId && !putOff.has(one.id),
  );
  return waiting === undefined ? { kind: "code" } : { kind: "words", machine: waiting };
}
