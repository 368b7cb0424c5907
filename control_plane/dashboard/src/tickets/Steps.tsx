/** The story of a ticket along a line: asked, each command with its output, reports, the end. */
import {
  IconCheck,
  IconFlag,
  IconHandStop,
  IconMessageCircle,
  IconNotes,
  IconTerminal2,
} from "@tabler/icons-react";
import type { ReactNode } from "react";
import { Prose } from "../ui/Prose.tsx";
import { reportLook, Status, stageLook } from "../ui/Status.tsx";
import { Time } from "../ui/Time.tsx";
import { CommandStep } from "./CommandStep.tsx";
import { latestReport } from "./LatestReport.tsx";
import type { TicketWithAll } from "./queries.ts";
import classes from "./Steps.module.css";
import { type Step, stepsOf } from "./steps.ts";

const ICON = { size: 18, stroke: 1.7 } as const;

export function Steps({ ticket }: { ticket: TicketWithAll }) {
  const steps = stepsOf(ticket);
  const lastCommand = steps.findLast((step) => step.kind === "command")?.id;
  return (
    <ol className={classes["steps"]}>
      {steps.map((step) => (
        <OneStep key={step.id} step={step} ticket={ticket} isLast={step.id === lastCommand} />
      ))}
    </ol>
  );
}

function OneStep({ step, ticket, isLast }: { step: Step; ticket: TicketWithAll; isLast: boolean }) {
  switch (step.kind) {
    case "asked":
      return (
        <Mark
          icon={<IconMessageCircle {...ICON} />}
          name={`${step.trigger.sender} asked`}
          at={step.at}
        >
          <Prose text={step.trigger.text} />
        </Mark>
      );
    case "command":
      return (
        <li className={classes["step"]}>
          <span className={classes["icon"]} aria-hidden="true">
            <IconTerminal2 {...ICON} />
          </span>
          <CommandStep
            command={step.command}
            waits={ticket.waiting_for.includes(step.command.machine)}
            initiallyOpen={isLast}
          />
        </li>
      );
    case "report":
      return (
        <Mark
          icon={<IconNotes {...ICON} />}
          name={<Status look={reportLook(step.report, ticket)} plain />}
          at={step.at}
        >
          {!isAbove(step.report, ticket) && <Prose text={step.report.text} />}
        </Mark>
      );
    case "answered":
      return (
        <Mark icon={<IconMessageCircle {...ICON} />} name="Answered" at={step.at}>
          <p className={classes["quoted"]}>{step.question.text}</p>
          <Prose text={step.answer} />
        </Mark>
      );
    case "closed":
      return (
        <Mark
          icon={
            step.outcome === "done" ? (
              ticket.failed_commands > 0 ? (
                <IconFlag {...ICON} />
              ) : (
                <IconCheck {...ICON} />
              )
            ) : step.outcome === "stopped" ? (
              <IconHandStop {...ICON} />
            ) : (
              <IconFlag {...ICON} />
            )
          }
          name={
            step.outcome === "done"
              ? closedWords(ticket)
              : step.outcome === "stopped"
                ? "Stopped by a person"
                : "Closed: its mandate ran out"
          }
          at={step.at}
        />
      );
  }
}

/** A ticket with a failed command is over all the same; how it went is said above and beside. */
function closedWords(ticket: TicketWithAll): string {
  if (ticket.failed_commands === 0) return "Closed: done";
  return `Closed: ${stageLook(ticket).word}`;
}

/** Tell whether a report stands above the steps already: the latest one, and open questions. */
function isAbove(report: TicketWithAll["reports"][number], ticket: TicketWithAll): boolean {
  if (report === latestReport(ticket)) return true;
  return ticket.questions.some(
    (question) => question.state === "pending" && question.text === report.text,
  );
}

interface MarkProps {
  icon: ReactNode;
  name: ReactNode;
  at: string;
  children?: ReactNode;
}

function Mark({ icon, name, at, children }: MarkProps) {
  return (
    <li className={classes["step"]}>
      <span className={classes["icon"]} aria-hidden="true">
        {icon}
      </span>
      <div className={classes["head"]}>
        <span className={classes["name"]}>{name}</span>
        <span className={classes["when"]}>
          <Time at={at} />
        </span>
      </div>
      {children !== undefined && <div className={classes["text"]}>{children}</div>}
    </li>
  );
}
