/** A machine that has enrolled and waits for a person to compare the words. */
import { useId } from "react";
import { machineLook, Status } from "../ui/Status.tsx";
import { Time } from "../ui/Time.tsx";
import { systemLine } from "./facts.ts";
import classes from "./PendingMachine.module.css";
import type { Machine } from "./queries.ts";
import { WordsQuestion } from "./WordsQuestion.tsx";

interface PendingMachineProps {
  machine: Machine;
  /** "They differ" was said, and its key is revoked. */
  onTurnedAway: () => void;
}

export function PendingMachine({ machine, onTurnedAway }: PendingMachineProps) {
  const nameId = useId();
  return (
    <article className={classes["card"]} aria-labelledby={nameId}>
      <div className={classes["head"]}>
        <h2 id={nameId} className={classes["name"]}>
          {machine.name}
        </h2>
        <Status look={machineLook(machine)} plain />
        <p className={classes["system"]}>
          {systemLine(machine)}
          <br />
          asked to join <Time at={machine.created_at} />
        </p>
      </div>
      <WordsQuestion
        machine={machine}
        onSettled={(settled) => settled === "turned away" && onTurnedAway()}
      />
    </article>
  );
}
