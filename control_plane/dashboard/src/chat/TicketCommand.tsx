/** One command in a ticket's card: where it runs, how it stands, what it wrote. */
import { UnstyledButton } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { useId, useState } from "react";
import type { Schemas } from "../api/client.ts";
import { CommandOutput } from "../output/CommandOutput.tsx";
import { sizeWords } from "../output/sizes.ts";
import { useNow } from "../ui/now.ts";
import { commandLook, Status } from "../ui/Status.tsx";
import { Time } from "../ui/Time.tsx";
import { duration } from "../ui/times.ts";
import classes from "./TicketCommand.module.css";

type Command = Schemas["Command"];

interface TicketCommandProps {
  command: Command;
  /** Its title says nothing that the card's does not. */
  isTitled: boolean;
  startsOpen: boolean;
}

export function TicketCommand({ command, isTitled, startsOpen }: TicketCommandProps) {
  // Until a person decides, what began open stays open when the command ends.
  const [wasOpened, setWasOpened] = useState(startsOpen);
  const [choice, setChoice] = useState<boolean | null>(null);
  if (startsOpen && !wasOpened) setWasOpened(true);
  const isOpen = choice ?? wasOpened;
  const outputId = useId();
  const isLive = command.ended_at === null;
  const bytes = command.stdout_bytes + command.stderr_bytes;
  const hasOutput = command.started_at !== null && (isLive || bytes > 0);
  return (
    <div className={classes["command"]}>
      <div className={classes["head"]}>
        {hasOutput && (
          <UnstyledButton
            className={classes["toggle"]}
            aria-expanded={isOpen}
            aria-controls={outputId}
            aria-label={isOpen ? "Hide output" : "Show output"}
            onClick={() => setChoice(!isOpen)}
          >
            <IconChevronRight size={14} stroke={2} aria-hidden="true" />
          </UnstyledButton>
        )}
        <span className={classes["machine"]}>{command.machine}</span>
        {!isTitled && <code className={classes["title"]}>{command.title}</code>}
        <span className={classes["status"]}>
          {!isOpen && !isLive && bytes > 0 && (
            <span className={classes["took"]}>{sizeWords(bytes)}</span>
          )}
          <Status look={commandLook(command, command.waiting)} plain />
          <Took command={command} />
        </span>
      </div>
      {command.waiting && <Waiting command={command} />}
      {command.error !== "" && <p className={classes["error"]}>{command.error}</p>}
      {command.result?.notes.map((note) => (
        <p key={note.code} className={classes["about"]}>
          {note.text}
        </p>
      ))}
      {hasOutput && (
        <div id={outputId} className={classes["output"]}>
          {isOpen && (
            <CommandOutput
              commandId={command.id}
              attemptId={command.attempt_id}
              operation={command.operation}
              title={command.title}
              live={isLive}
              stdoutBytes={command.stdout_bytes}
              stderrBytes={command.stderr_bytes}
              rows={14}
            />
          )}
        </div>
      )}
      {command.started_at !== null && !isLive && bytes === 0 && (
        <p className={classes["about"]}>It wrote nothing.</p>
      )}
    </div>
  );
}

/** Offline is waiting: since when, and until when it is tried. */
function Waiting({ command }: { command: Command }) {
  return (
    <p className={classes["about"]}>
      {command.machine} is offline
      {command.machine_seen_at !== null && (
        <>
          {" "}
          since <Time at={command.machine_seen_at} />
        </>
      )}
      . This starts when it is back, until <Time at={command.start_expires_at} />.
    </p>
  );
}

function Took({ command }: { command: Command }) {
  if (command.started_at === null) return null;
  const began = Date.parse(command.started_at);
  if (command.ended_at === null) return <Running since={began} />;
  return <span className={classes["took"]}>{duration(Date.parse(command.ended_at) - began)}</span>;
}

function Running({ since }: { since: number }) {
  const seconds = Math.max(0, Math.floor((useNow() - since) / 1000));
  return <span className={classes["took"]}>{duration(seconds * 1000)}</span>;
}
