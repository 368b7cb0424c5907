/** Not signed in: why, which command gives a sign-in link, and a box for one copied elsewhere. */
import { Button, Loader, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { tokenOf } from "../session/fragment.ts";
import { type Session, signIn } from "../session/session.ts";
import { CopyLine } from "../ui/CopyLine.tsx";
import { ErrorLine } from "../ui/ErrorState.tsx";
import { useTitle } from "../ui/PageHeader.tsx";
import { Logo } from "./Logo.tsx";
import { isInCheckout, program } from "./program.ts";
import classes from "./SignInPage.module.css";

type SignedOut = Exclude<Session, { state: "signed_in" }>;

export function SignInPage({ session }: { session: SignedOut }) {
  useTitle("Sign in");
  const busy = session.state === "signing_in";
  const reason = session.state === "signed_out" ? session.reason : null;
  return (
    <main className={classes["screen"]}>
      <div className={classes["card"]}>
        <div className={classes["mark"]}>
          <Logo size={44} />
        </div>
        <h1 className={classes["title"]}>{busy ? "Signing in…" : "Sign in to Farhand"}</h1>
        {busy ? (
          <div className={classes["busy"]} role="status">
            <Loader size={20} aria-hidden="true" /> Using your link
          </div>
        ) : (
          <SignInHelp reason={reason} />
        )}
      </div>
    </main>
  );
}

function SignInHelp({ reason }: { reason: string | null }) {
  const name = program();
  const [link, setLink] = useState("");
  const [wrong, setWrong] = useState<Error | null>(null);

  function open(event: FormEvent): void {
    event.preventDefault();
    const token = tokenIn(link);
    if (token === null) {
      setWrong(new Error("this is no sign-in link: it ends with /sign-in# and a token"));
      return;
    }
    setLink("");
    setWrong(null);
    void signIn(token);
  }

  return (
    <>
      {reason !== null && <ErrorLine error={new Error(reason)} />}
      <p className={classes["words"]}>
        On the computer that runs Farhand, ask for a link and open it in this browser. A link works
        once, within 15 minutes.
      </p>
      <CopyLine
        label={
          isInCheckout(name)
            ? "Command to run there, in the checkout's folder"
            : "Command to run there"
        }
        value={`${name} sign-in`}
      />
      <form onSubmit={open} className={classes["paste"]}>
        <TextInput
          label="Or paste the link here"
          placeholder={`${location.origin}/sign-in#…`}
          value={link}
          onChange={(event) => setLink(event.currentTarget.value)}
          error={wrong?.message}
          autoComplete="off"
          spellCheck={false}
        />
        <Button type="submit">Sign in</Button>
      </form>
    </>
  );
}

/** Return the token of a link, also of one that names this server by another address. */
function tokenIn(text: string): string | null {
  try {
    return tokenOf(new URL(text.trim()));
  } catch {
    return null;
  }
}
