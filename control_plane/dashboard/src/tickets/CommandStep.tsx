/** One command of a ticket: how it stands, how long it took, and what it wrote, to unfold. */
import { UnstyledButton } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { useId, useState } from "react";
import { CommandOutput } from "../output/CommandOutput.tsx";
import { sizeWords } from "../output/sizes.ts";
import { useNow } from "../ui/now.ts";
import { commandLook, Status } from "../ui/Status.tsx";
import { Time } from "../ui/Time.tsx";
import { duration } from "../ui/times.ts";
import classes from "./CommandStep.module.css";
import type { TicketWithAll } from "./queries.ts";

type Command = TicketWithAll["commands"][number];

interface CommandStepProps {
  command: Command;
  /** It is queued for a machine that is not here. */
  waits: boolean;
  initiallyOpen: boolean;
}

export function CommandStep({ command, waits, initiallyOpen }: CommandStepProps) {
  const live = command.ended_at === null;
  const bytes = command.stdout_bytes + command.stderr_bytes;
  const [open, setOpen] = useState(initiallyOpen || live);
  const outputId = useId();
  const started = command.started_at !== null;
  const hasOutput = started && (live || bytes > 0);
  return (
    <div className={classes["command"]}>
      <div className={classes["head"]}>
        <h3 className={classes["title"]}>{command.title}</h3>
        <Status look={commandLook(command, waits)} />
      </div>
      <p className={classes["about"]}>
        {command.machine} ·{" "}
        {started && command.started_at !== null ? (
          <>
            started <Time at={command.started_at} />
            {" · "}
            {command.ended_at === null ? (
              <Running since={command.started_at} />
            ) : (
              `took ${duration(Date.parse(command.ended_at) - Date.parse(command.started_at))}`
            )}
          </>
        ) : live ? (
          <>
            since <Time at={command.queued_at} />, until <Time at={command.start_expires_at} />
          </>
        ) : (
          <Time at={command.ended_at ?? command.queued_at} />
        )}
      </p>
      {command.error !== "" && <p className={classes["error"]}>{command.error}</p>}
      {command.result?.notes.map((note) => (
        <p key={note.code} className={classes["about"]}>
          {note.text}
        </p>
      ))}
      {hasOutput && (
        <>
          <UnstyledButton
            className={classes["toggle"]}
            aria-expanded={open}
            aria-controls={outputId}
            onClick={() => setOpen(!open)}
          >
            <IconChevronRight size={14} stroke={2} aria-hidden="true" />
            Output{live ? "" : `, ${sizeWords(bytes)}`}
          </UnstyledButton>
          <div id={outputId}>
            {open && (
              <CommandOutput
                commandId={command.id}
                title={command.title}
                attemptId={command.attempt_id}
                operation={command.operation}
                live={live}
                stdoutBytes={command.stdout_bytes}
                stderrBytes={command.stderr_bytes}
              />
            )}
          </div>
        </>
      )}
      {started && !live && bytes === 0 && <p className={classes["silent"]}>It wrote nothing.</p>}
    </div>
  );
}

function Running({ since }: { since: string }) {
  const now = useNow();
  return (
    <span>{`for ${duration(Math.max(0, Math.floor((now - Date.parse(since)) / 1000) * 1000))}`}</span>
  );
}
