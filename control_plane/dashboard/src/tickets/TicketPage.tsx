/** One ticket: what it asks now, what came of it, each step with its output, and why it exists. */
import { Button } from "@mantine/core";
import { IconArrowLeft, IconHandStop } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { ApiError } from "../api/errors.ts";
import { keys } from "../api/keys.ts";
import { QuestionForm } from "../questions/QuestionForm.tsx";
import { ButtonLink } from "../ui/ButtonLink.tsx";
import { ConfirmDialog } from "../ui/ConfirmDialog.tsx";
import { ErrorState } from "../ui/ErrorState.tsx";
import { Loading } from "../ui/Loading.tsx";
import { Page } from "../ui/Page.tsx";
import { PageHeader } from "../ui/PageHeader.tsx";
import { Status, stageLook } from "../ui/Status.tsx";
import { Time } from "../ui/Time.tsx";
import { LatestReport } from "./LatestReport.tsx";
import { stopTicket, type TicketWithAll, ticketQuery } from "./queries.ts";
import { Steps } from "./Steps.tsx";
import classes from "./TicketPage.module.css";
import { WhyChain } from "./WhyChain.tsx";

export function TicketPage() {
  const { ticketId } = useParams({ from: "/tickets/$ticketId" });
  const ticket = useQuery(ticketQuery(ticketId));
  return (
    <Page>
      {ticket.data !== undefined ? (
        // A new ticket is a new page: nothing of the one before (what was unfolded) is kept.
        <Shown key={ticketId} ticket={ticket.data} />
      ) : (
        <>
          <PageHeader title="Ticket" above={<Back />} />
          {ticket.isError ? (
            <ErrorState
              error={ticket.error}
              {...(ticket.error instanceof ApiError && ticket.error.status === 404
                ? {}
                : { onRetry: () => ticket.refetch() })}
            >
              <ButtonLink to="/tickets" variant="default" size="sm">
                All tickets
              </ButtonLink>
            </ErrorState>
          ) : (
            <Loading what="ticket" rows={3} rowHeight={120} />
          )}
        </>
      )}
    </Page>
  );
}

function Back() {
  return (
    <Link to="/tickets" className={classes["back"]}>
      <IconArrowLeft size={16} aria-hidden="true" /> All tickets
    </Link>
  );
}

function Shown({ ticket }: { ticket: TicketWithAll }) {
  const open = ticket.questions.filter((question) => question.state === "pending");
  return (
    <>
      <PageHeader
        title={ticket.title}
        stacked
        above={<Back />}
        actions={
          <>
            <ButtonLink to="/chat" variant="default">
              Open the chat
            </ButtonLink>
            {ticket.stage !== "closed" && <Stop ticket={ticket} />}
          </>
        }
      >
        <div className={classes["standing"]}>
          <span role="status">
            <Status look={stageLook(ticket)} />
          </span>
          <span>
            {ticket.machines.length > 0 && <>on {ticket.machines.join(", ")} · </>}
            asked by {ticket.requester}, <Time at={ticket.created_at} />
            {ticket.closed_at !== null && (
              <>
                {" "}
                · closed <Time at={ticket.closed_at} />
              </>
            )}
          </span>
        </div>
      </PageHeader>
      <div className={classes["columns"]}>
        <div className={classes["story"]}>
          {open.length > 0 && (
            <section className={classes["questions"]} aria-label="It asks">
              {open.map((question) => (
                <QuestionForm key={question.id} question={question} />
              ))}
            </section>
          )}
          <LatestReport ticket={ticket} />
          <section aria-labelledby="steps">
            <h2 id="steps" className={classes["heading"]}>
              Steps
            </h2>
            <Steps ticket={ticket} />
          </section>
        </div>
        <aside className={classes["why"]} aria-labelledby="why">
          <h2 id="why" className={classes["heading"]}>
            Why it exists
          </h2>
          <WhyChain why={ticket.why} />
        </aside>
      </div>
    </>
  );
}

function Stop({ ticket }: { ticket: TicketWithAll }) {
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);

  async function stop(): Promise<void> {
    queries.setQueryData(keys.ticket(ticket.id), await stopTicket(ticket.id));
    await queries.invalidateQueries({ queryKey: keys.tickets });
  }

  return (
    <>
      <Button
        variant="outline"
        color="red"
        leftSection={<IconHandStop size={18} stroke={1.7} />}
        onClick={() => setAsking(true)}
      >
        Stop
      </Button>
      <ConfirmDialog
        opened={asking}
        onClose={() => setAsking(false)}
        title="Stop this ticket?"
        confirm="Stop ticket"
        onConfirm={stop}
      >
        <p>{consequence(ticket)}</p>
        <p>A stopped ticket stays stopped; ask again to start anew. What it did is kept.</p>
      </ConfirmDialog>
    </>
  );
}

function consequence(ticket: TicketWithAll): string {
  const open = ticket.commands.filter((command) => command.ended_at === null).length;
  if (open === 0) return "Nothing more is done for it.";
  const commands = open === 1 ? "Its open command ends" : `Its ${open} open commands end`;
  return `${commands} as soon as the machine hears of it, and nothing more is done for it.`;
}
