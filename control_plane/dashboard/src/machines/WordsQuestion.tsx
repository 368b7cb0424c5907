/** Do the six words match? Yes lets the machine in, no turns it away. */
import { Button } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "../api/keys.ts";
import { ErrorLine } from "../ui/ErrorState.tsx";
import { useAction } from "../ui/useAction.ts";
import { confirmMachine, type Machine, revokeMachine } from "./queries.ts";
import { SixWords } from "./SixWords.tsx";
import classes from "./WordsQuestion.module.css";

interface WordsQuestionProps {
  machine: Machine;
  onSettled?: (settled: "confirmed" | "turned away") => void;
}

export function WordsQuestion({ machine, onSettled }: WordsQuestionProps) {
  const queries = useQueryClient();
  const action = useAction();
  const [given, setGiven] = useState<"yes" | "no" | null>(null);
  const busy = action.busy ? given : null;

  async function settle(answer: "yes" | "no"): Promise<void> {
    setGiven(answer);
    await action.run(async () => {
      await (answer === "yes" ? confirmMachine(machine) : revokeMachine(machine.id));
      onSettled?.(answer === "yes" ? "confirmed" : "turned away");
      await queries.invalidateQueries({ queryKey: keys.machines });
    });
  }

  return (
    <div>
      <SixWords words={machine.words} />
      <p className={classes["advice"]}>
        Compare them with the six words in that computer's terminal. If any differs, somebody may
        stand in between: “They differ” turns it away.
      </p>
      <ErrorLine error={action.error} />
      <div className={classes["actions"]}>
        <Button
          loading={busy === "yes"}
          disabled={busy === "no"}
          onClick={() => void settle("yes")}
        >
          Words match
        </Button>
        <Button
          variant="default"
          loading={busy === "no"}
          disabled={busy === "yes"}
          onClick={() => void settle("no")}
        >
          They differ
        </Button>
      </div>
    </div>
  );
}
