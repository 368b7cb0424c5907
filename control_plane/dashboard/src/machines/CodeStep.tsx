/** What to do on the other computer: run one line, type one code. */
import { Button, TextInput, UnstyledButton } from "@mantine/core";
import { IconInfoCircle, IconRefresh } from "@tabler/icons-react";
import { type FormEvent, useState } from "react";
import { CopyLine } from "../ui/CopyLine.tsx";
import { ErrorLine } from "../ui/ErrorState.tsx";
import { useNow } from "../ui/now.ts";
import { Countdown } from "../ui/Time.tsx";
import { useAction } from "../ui/useAction.ts";
import classes from "./CodeStep.module.css";
import { addressLacks } from "./loopback.ts";
import type { CodeMade } from "./queries.ts";

interface CodeStepProps {
  code: CodeMade;
  name: string | null;
  onRenew: (name: string | null) => Promise<void>;
}

export function CodeStep({ code, name, onRenew }: CodeStepProps) {
  const over = useNow() >= new Date(code.expires_at).getTime();
  const { busy, error, run } = useAction();

  const renew = (wanted: string | null) => run(() => onRenew(wanted));

  return (
    <>
      <ol className={classes["steps"]}>
        <li>
          <p className={classes["what"]}>Run this in a terminal of that computer.</p>
          <CopyLine label="Command to run there" value={code.install_line} takesFocus />
          <p className={classes["note"]}>Linux, macOS, or Windows in WSL; Python 3.11 or newer.</p>
          <AddressNote url={code.url} />
        </li>
        <li>
          <p className={classes["what"]}>When it asks, paste this code there.</p>
          <div className={over ? classes["over"] : undefined}>
            <CopyLine
              label="Code"
              value={code.code}
              aside={
                over ? (
                  <span className={classes["ranOut"]}>ran out</span>
                ) : (
                  <span>
                    works once, for <Countdown until={code.expires_at} />
                  </span>
                )
              }
            />
          </div>
          <ErrorLine error={error} />
          <div className={classes["more"]}>
            {over ? (
              <Button
                leftSection={<IconRefresh size={16} />}
                loading={busy}
                onClick={() => void renew(name)}
              >
                Make a new code
              </Button>
            ) : (
              <Naming name={name} busy={busy} onName={renew} onRenew={() => void renew(name)} />
            )}
          </div>
        </li>
        <li>
          <p className={classes["what"]}>Compare six words: they appear here by themselves.</p>
        </li>
      </ol>
      <div className={classes["waiting"]} role="status" data-over={over || undefined}>
        <span className={classes["pulse"]} aria-hidden="true" />
        {over ? "The code ran out before a computer used it." : "Waiting for that computer…"}
      </div>
    </>
  );
}

/** What the address in the line cannot do for another computer, before somebody finds out there. */
function AddressNote({ url }: { url: string }) {
  const lacks = addressLacks(url);
  if (lacks === null) return null;
  return (
    <p className={classes["hint"]}>
      <IconInfoCircle size={18} stroke={1.7} aria-hidden="true" />
      <span>
        {lacks === "reach" ? (
          <>
            {new URL(url).hostname} is this computer only. A control plane that other computers
            shall reach needs <code>FARHAND_BIND</code> and a TLS proxy before its HTTP: plain http
            is not encrypted. Then open the page by that proxy's address.
          </>
        ) : (
          <>
            This address is plain http, which is not encrypted: whoever is on the way can read and
            change the line and the code. Put a TLS proxy before it and open the page by that.
          </>
        )}
      </span>
    </p>
  );
}

interface NamingProps {
  name: string | null;
  busy: boolean;
  onName: (name: string | null) => Promise<boolean>;
  onRenew: () => void;
}

/** A name belongs to a code: choosing one makes another code, and says so. */
function Naming({ name, busy, onName, onRenew }: NamingProps) {
  const [editing, setEditing] = useState(false);
  const [wanted, setWanted] = useState(name ?? "");
  const [chosen, setChosen] = useState(false);

  async function choose(event: FormEvent): Promise<void> {
    event.preventDefault();
    if (await onName(wanted.trim() === "" ? null : wanted.trim())) {
      setEditing(false);
      setChosen(true);
    }
  }

  if (editing) {
    return (
      <form className={classes["naming"]} onSubmit={(event) => void choose(event)}>
        <TextInput
          label="Name (optional)"
          description="Choosing a name makes a new code."
          placeholder="its own host name"
          value={wanted}
          maxLength={64}
          autoFocus
          autoComplete="off"
          onChange={(event) => setWanted(event.currentTarget.value)}
        />
        <Button type="submit" variant="default" loading={busy}>
          Use this name
        </Button>
      </form>
    );
  }
  return (
    <>
      <span>
        It will be called {name === null ? "by its host name" : <b>{name}</b>}.{" "}
        <UnstyledButton
          className={classes["link"]}
          autoFocus={chosen}
          onClick={() => setEditing(true)}
        >
          Choose {name === null ? "a" : "another"} name
        </UnstyledButton>
      </span>
      <UnstyledButton className={classes["link"]} disabled={busy} onClick={onRenew}>
        New code
      </UnstyledButton>
    </>
  );
}
