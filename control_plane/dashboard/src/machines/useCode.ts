/** An enrolment code for as long as the dialog is open; each is made once and never by itself. */
import { useCallback, useEffect, useRef, useState } from "react";
import { type CodeMade, makeCode } from "./queries.ts";

export interface CodeInHand {
  made: CodeMade | null;
  /** What the machine will be called; null: what it calls itself. */
  name: string | null;
  error: unknown;
  /** Makes another; the one before stays valid until it runs out. Rejects when it cannot. */
  renew: (name: string | null) => Promise<void>;
}

export function useCode(): CodeInHand {
  const [state, setState] = useState<Omit<CodeInHand, "renew">>({
    made: null,
    name: null,
    error: null,
  });

  const renew = useCallback(async (name: string | null) => {
    try {
      setState({ made: await makeCode(name), name, error: null });
    } catch (error) {
      setState((before) => ({ ...before, error }));
      throw error;
    }
  }, []);

  // Not a query: those are read anew after a gap in the event stream, and each reading makes a code.
  const asked = useRef(false);
  useEffect(() => {
    if (asked.current) return;
    asked.current = true;
    renew(null).catch(() => undefined); // the error is shown from the state
  }, [renew]);

  return { ...state, renew };
}
