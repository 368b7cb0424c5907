/** What came of a ticket so far, in the worker's words, and what a person can do about it. */
import { Button } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { keys } from "../api/keys.ts";
import { ButtonLink } from "../ui/ButtonLink.tsx";
import { ErrorLine } from "../ui/ErrorState.tsx";
import { Prose } from "../ui/Prose.tsx";
import { reportLook, Status } from "../ui/Status.tsx";
import { Time } from "../ui/Time.tsx";
import { useAction } from "../ui/useAction.ts";
import classes from "./LatestReport.module.css";
import { acceptTicket, type TicketWithAll } from "./queries.ts";

export function LatestReport({ ticket }: { ticket: TicketWithAll }) {
  const report = latestReport(ticket);
  if (report === undefined) return null;
  const look = reportLook(report, ticket);
  const stuck = ticket.stage === "needs_person" && report.kind !== "ready";
  return (
    <section className={classes["report"]} data-tone={look.tone} aria-label="Result">
      <div className={classes["top"]}>
        <Status look={look} plain />
        <span className={classes["when"]}>
          <Time at={report.created_at} />
        </span>
      </div>
      <Prose text={report.text} />
      {ticket.needs === "review" && report.accept !== "" && (
        <Accept ticket={ticket} what={report.accept} />
      )}
      {stuck && (
        <div className={classes["actions"]}>
          <ButtonLink to="/chat" variant="default" size="sm">
            Reply in the chat
          </ButtonLink>
        </div>
      )}
    </section>
  );
}

/** Return the report that says how the work stands: neither progress nor a question. */
export function latestReport(
  ticket: Pick<TicketWithAll, "reports">,
): TicketWithAll["reports"][number] | undefined {
  return ticket.reports.findLast(({ kind }) => kind !== "progress" && kind !== "question");
}

function Accept({ ticket, what }: { ticket: TicketWithAll; what: string }) {
  const queries = useQueryClient();
  const action = useAction();

  async function accept(): Promise<void> {
    queries.setQueryData(keys.ticket(ticket.id), await acceptTicket(ticket.id));
    await queries.invalidateQueries({ queryKey: keys.tickets });
  }

  return (
    <div className={classes["accept"]}>
      <p className={classes["what"]}>To accept: {what}</p>
      <ErrorLine error={action.error} />
      <div className={classes["actions"]}>
        <Button size="sm" loading={action.busy} onClick={() => void action.run(accept)}>
          Accept
        </Button>
        <ButtonLink to="/chat" variant="default" size="sm">
          Ask for a change
        </ButtonLink>
      </div>
    </div>
  );
}
