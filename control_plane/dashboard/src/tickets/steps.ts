/** A ticket's story in the order in which it happened, from the facts that the API tells. */
import type { TicketWithAll } from "./queries.ts";

type Trigger = TicketWithAll["why"]["triggers"][number];
type Report = TicketWithAll["reports"][number];
type Question = TicketWithAll["settled_questions"][number];
type Command = TicketWithAll["commands"][number];

export type Step =
  | { kind: "asked"; id: string; at: string; trigger: Trigger }
  | { kind: "report"; id: string; at: string; report: Report }
  | { kind: "command"; id: string; at: string; command: Command }
  | { kind: "answered"; id: string; at: string; question: Question; answer: string }
  | { kind: "closed"; id: string; at: string; outcome: string };

type Told = Pick<
  TicketWithAll,
  "id" | "reports" | "commands" | "settled_questions" | "outcome" | "closed_at"
> & {
  why: Pick<TicketWithAll["why"], "triggers">;
};

/** Return the steps, oldest first; a later state of the ticket keeps the order of those before. */
export function stepsOf(ticket: Told): Step[] {
  const steps: Step[] = [
    ...ticket.why.triggers.map(
      (trigger): Step => ({ kind: "asked", id: trigger.id, at: trigger.received_at, trigger }),
    ),
    ...ticket.commands.map(
      (command): Step => ({ kind: "command", id: command.id, at: command.queued_at, command }),
    ),
    ...ticket.reports.map(
      (report): Step => ({ kind: "report", id: report.id, at: report.created_at, report }),
    ),
    ...ticket.settled_questions.flatMap((question): Step[] => {
      const { answer, settled_at: at } = question;
      if (answer === null || at === null) return [];
      return [{ kind: "answered", id: `${question.id} answered`, at, question, answer }];
    }),
  ];
  // Compared as times: fractions of a second may be left out of the text.
  steps.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  if (ticket.closed_at !== null) {
    const outcome = ticket.outcome ?? "done";
    steps.push({ kind: "closed", id: `${ticket.id} closed`, at: ticket.closed_at, outcome });
  }
  return steps;
}
