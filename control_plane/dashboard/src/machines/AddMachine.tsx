/** The dialog's content: which step the new machine is at. */
import { Button } from "@mantine/core";
import { IconCheck, IconHandStop } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { ButtonLink } from "../ui/ButtonLink.tsx";
import { ErrorState } from "../ui/ErrorState.tsx";
import { Loading } from "../ui/Loading.tsx";
import { machineLook, Status } from "../ui/Status.tsx";
import classes from "./AddMachine.module.css";
import { CodeStep } from "./CodeStep.tsx";
import { systemLine, trustSentence } from "./facts.ts";
import { codeQuery, type Machine, machinesQuery } from "./queries.ts";
import { useCode } from "./useCode.ts";
import { WordsQuestion } from "./WordsQuestion.tsx";

export function AddMachine({ onClose }: { onClose: () => void }) {
  const code = useCode();
  const used = useQuery({ ...codeQuery(code.made?.id ?? ""), enabled: code.made !== null }).data;
  const machines = useQuery(machinesQuery);
  const machine = machines.data?.items.find((one) => one.id === used?.machine_id);
  const [turnedAway, setTurnedAway] = useState<string | null>(null);

  if (turnedAway !== null) {
    return <TurnedAway name={turnedAway} onAgain={() => again(null)} onClose={onClose} />;
  }
  if (machine?.status === "pending") {
    return (
      <Step title={`Does ${machine.name} show these words?`}>
        <p className={classes["about"]}>
          {systemLine(machine) || "A computer"} wants to join as <b>{machine.name}</b>.
        </p>
        <WordsQuestion
          machine={machine}
          onSettled={(settled) => settled === "turned away" && setTurnedAway(machine.name)}
        />
      </Step>
    );
  }
  if (machine !== undefined) return <Added machine={machine} onClose={onClose} />;
  if (used?.machine_name != null) {
    // It is not listed: not yet, or not any more because somebody else turned it away.
    return machines.isFetching ? (
      <Loading what="the new machine" rows={1} rowHeight={200} />
    ) : (
      <TurnedAway name={used.machine_name} onAgain={() => again(null)} onClose={onClose} />
    );
  }
  if (code.made === null) {
    return code.error === null ? (
      <Loading what="the line and the code" rows={2} rowHeight={88} />
    ) : (
      <ErrorState error={code.error} onRetry={() => code.renew(null)} />
    );
  }
  return <CodeStep code={code.made} name={code.name} onRenew={code.renew} />;

  function again(name: string | null): void {
    setTurnedAway(null);
    void code.renew(name).catch(() => undefined); // the error is shown from `code`
  }
}

/** A step that has come by itself: the keyboard and screen readers are brought to its heading. */
function Step({ title, children }: { title: string; children: React.ReactNode }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return (
    <section className={classes["step"]}>
      <h3 ref={heading} tabIndex={-1} className={classes["title"]}>
        {title}
      </h3>
      {children}
    </section>
  );
}

function Added({ machine, onClose }: { machine: Machine; onClose: () => void }) {
  const trust = trustSentence(machine);
  return (
    <Step title={`${machine.name} is in`}>
      <div className={classes["added"]}>
        <span className={classes["tick"]} aria-hidden="true">
          <IconCheck size={22} stroke={2.2} />
        </span>
        <div>
          <Status look={machineLook(machine)} plain />
          {machine.presence === "online" ? (
            <p>
              {systemLine(machine)}
              <br />
              {trust.word}: {trust.sentence}
            </p>
          ) : (
            <p>Its daemon connects in a moment; what you ask for until then waits for it.</p>
          )}
        </div>
      </div>
      <div className={classes["actions"]}>
        <ButtonLink to="/chat" search={{ text: `run uname -a on ${machine.name}` }}>
          Ask it to do something
        </ButtonLink>
        <Button variant="default" onClick={onClose}>
          Done
        </Button>
      </div>
    </Step>
  );
}

interface TurnedAwayProps {
  name: string;
  onAgain: () => void;
  onClose: () => void;
}

function TurnedAway({ name, onAgain, onClose }: TurnedAwayProps) {
  return (
    <Step title={`${name} was turned away`}>
      <div className={classes["added"]} data-away="true">
        <span className={classes["tick"]} aria-hidden="true">
          <IconHandStop size={22} stroke={1.8} />
        </span>
        <p>
          It is revoked and nothing ran on it. Check the address in the line you copied, and that
          nobody else had the code, before you try again.
        </p>
      </div>
      <div className={classes["actions"]}>
        <Button onClick={onAgain}>Make a new code</Button>
        <Button variant="default" onClick={onClose}>
          Close
        </Button>
      </div>
    </Step>
  );
}
