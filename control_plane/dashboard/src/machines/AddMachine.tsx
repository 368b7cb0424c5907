/** The dialog's content: which step the new machine is at. */
import { Button, UnstyledButton } from "@mantine/core";
import { IconCheck, IconHandStop } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { meQuery } from "../shell/queries.ts";
import { ButtonLink } from "../ui/ButtonLink.tsx";
import { ErrorState } from "../ui/ErrorState.tsx";
import { Loading } from "../ui/Loading.tsx";
import { machineLook, Status } from "../ui/Status.tsx";
import { Time } from "../ui/Time.tsx";
import classes from "./AddMachine.module.css";
import { addStep } from "./add_step.ts";
import { CodeStep } from "./CodeStep.tsx";
import { systemLine, trustSentence } from "./facts.ts";
import { codeQuery, type Machine, machinesQuery } from "./queries.ts";
import { useCode } from "./useCode.ts";
import { WordsQuestion } from "./WordsQuestion.tsx";

export function AddMachine({ onClose }: { onClose: () => void }) {
  const code = useCode();
  const used = useQuery({ ...codeQuery(code.made?.id ?? ""), enabled: code.made !== null }).data;
  const machines = useQuery(machinesQuery);
  const me = useQuery(meQuery).data;
  const [followed, setFollowed] = useState<{ id: string; name: string } | null>(null);
  const [putOff, setPutOff] = useState<ReadonlySet<string>>(new Set());
  const step = addStep({
    machines: machines.data?.items ?? [],
    isReading: machines.isFetching,
    memberId: me?.member.id ?? null,
    user:
      used?.machine_id == null ? null : { id: used.machine_id, name: used.machine_name ?? "It" },
    followed,
    putOff,
  });
  if (step.kind === "words" && followed?.id !== step.machine.id) setFollowed(step.machine);

  switch (step.kind) {
    case "turned away":
      return <TurnedAway name={step.name} onAgain={again} onClose={onClose} />;
    case "words":
      return (
        <Step key={step.machine.id} title={`Does ${step.machine.name} show these words?`}>
          <p className={classes["about"]}>
            {systemLine(step.machine) || "A computer"} wants to join as <b>{step.machine.name}</b>,
            asked <Time at={step.machine.created_at} />.
          </p>
          <WordsQuestion machine={step.machine} />
          {step.machine.id !== used?.machine_id && (
            <UnstyledButton
              className={classes["another"]}
              onClick={() => putOffAndGoOn(step.machine.id)}
            >
              Not this one: add another computer
            </UnstyledButton>
          )}
        </Step>
      );
    case "added":
      return <Added machine={step.machine} onClose={onClose} />;
    case "reading":
      return <Loading what="the new machine" rows={1} rowHeight={200} />;
    case "code":
      // A code that was used is no answer, nor is one while a machine may wait for its words.
      if (code.made !== null && used?.machine_id == null && !machines.isPending) {
        return <CodeStep code={code.made} name={code.name} onRenew={code.renew} />;
      }
      return code.error === null ? (
        <Loading what="the line and the code" rows={2} rowHeight={88} />
      ) : (
        <ErrorState error={code.error} onRetry={() => code.renew(null)} />
      );
  }

  function putOffAndGoOn(machineId: string): void {
    setPutOff(new Set([...putOff, machineId]));
    setFollowed(null);
  }

  function again(): void {
    // What was turned away is over; the code in hand, if that machine did not use it, goes on.
    if (followed !== null) putOffAndGoOn(followed.id);
    if (used?.machine_id != null) {
      setPutOff(new Set([...putOff, used.machine_id, followed?.id ?? ""]));
      void code.renew(null).catch(() => undefined); // the error is shown from `code`
    }
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
