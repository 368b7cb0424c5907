/** Something a person asked for by a button: whether it is under way, and what went wrong. */
import { useState } from "react";

export interface Action {
  readonly busy: boolean;
  /** Of the last one; null while none failed. */
  readonly error: unknown;
  /** Does it and tells whether it succeeded; never throws. */
  run(act: () => Promise<unknown>): Promise<boolean>;
  /** Forgets the error. */
  reset(): void;
}

export function useAction(): Action {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);

  async function run(act: () => Promise<unknown>): Promise<boolean> {
    setBusy(true);
    setError(null);
    try {
      await act();
      return true;
    } catch (failure) {
      setError(failure);
      return false;
    } finally {
      setBusy(false);
    }
  }

  return { busy, error, run, reset: () => setError(null) };
}
