/** The enrolment code in hand: made once, never by itself a second time, kept while it is good. */
import { useCallback, useEffect, useRef, useState } from "react";
import { ApiError } from "../api/errors.ts";
import { currentSession, watchSession } from "../session/session.ts";
import { forgetCode, type KeptCode, keepCode, keptCode } from "./kept_code.ts";
import { type CodeMade, makeCode, readCode } from "./queries.ts";

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
      const made = await makeCode(name);
      keepCode(sessionStorage, { made, name });
      setState({ made, name, error: null });
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
    void goodCode().then((kept) => {
      if (kept !== null) setState({ ...kept, error: null });
      else renew(null).catch(() => undefined); // the error is shown from the state
    });
  }, [renew]);

  return { ...state, renew };
}

/** Returns the kept code when a computer can still use it. */
async function goodCode(): Promise<KeptCode | null> {
  const kept = keptCode(sessionStorage, new Date());
  if (kept === null) return null;
  try {
    // One that was used is over: a machine that waits for its words is shown by the machines.
    if ((await readCode(kept.made.id)).used_at === null) return kept;
  } catch (error) {
    // Without an answer it is as good as before; one that this server does not know is none.
    if (!(error instanceof ApiError)) return kept;
  }
  forgetCode(sessionStorage);
  return null;
}

/** Has whoever signs in next in this tab find no code of the one before. Call once. */
export function forgetCodeAtSignOut(): void {
  watchSession(() => {
    if (currentSession().state !== "signed_in") forgetCode(sessionStorage);
  });
}
