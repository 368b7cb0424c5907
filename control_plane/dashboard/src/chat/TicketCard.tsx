/** A ticket in the conversation: how it stands, each command with its output, what it asks, Stop. */
import { Button, UnstyledButton } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useId, useRef, useState } from "react";
import { QuestionForm } from "../questions/QuestionForm.tsx";
import { acceptTicket, type TicketWithAll, ticketQuery } from "../tickets/queries.ts";
import { ErrorLine } from "../ui/ErrorState.tsx";
import { Status, stageLook } from "../ui/Status.tsx";
import { useAction } from "../ui/useAction.ts";
import { StopTicket } from "./StopTicket.tsx";
import classes from "./TicketCard.module.css";
import { TicketCommand } from "./TicketCommand.tsx";
import { useNear } from "./useNear.ts";

interface TicketCardProps {
  ticketId: string;
  /** Shown whole also when it is closed. */
  isRecent: boolean;
  /** Questions that stand elsewhere in the conversation. */
  shownQuestions: ReadonlySet<string>;
}

/** Commands of a long ticket that are shown at once: the last ones. */
const COMMANDS_SHOWN = 4;

/** A card further away than this is not read yet: a long conversation has many. */
const NEAR_PX = 1_200;

export function TicketCard({ ticketId, isRecent, shownQuestions }: TicketCardProps) {
  const place = useRef<HTMLElement>(null);
  const isNear = useNear(place, NEAR_PX);
  const ticket = useQuery({ ...ticketQuery(ticketId), enabled: isRecent || isNear });
  if (ticket.data !== undefined) {
    return <Card ticket={ticket.data} isRecent={isRecent} shownQuestions={shownQuestions} />;
  }
  return (
    <article ref={place} className={classes["card"]} aria-busy={!ticket.isError}>
      <div className={classes["head"]}>
        {ticket.isError ? (
          <>
            <ErrorLine error={ticket.error} />
            <Button size="compact-sm" h={28} variant="default" onClick={() => ticket.refetch()}>
              Try again
            </Button>
          </>
        ) : (
          <span className={classes["pending"]}>Reading the ticket…</span>
        )}
      </div>
    </article>
  );
}

interface CardProps {
  ticket: TicketWithAll;
  isRecent: boolean;
  shownQuestions: ReadonlySet<string>;
}

function Card({ ticket, isRecent, shownQuestions }: CardProps) {
  const isClosed = ticket.stage === "closed";
  const startsOpen = !isClosed || isRecent;
  const [wasOpened, setWasOpened] = useState(startsOpen);
  const [choice, setChoice] = useState<boolean | null>(null);
  if (startsOpen && !wasOpened) setWasOpened(true);
  const isOpen = !isClosed || (choice ?? wasOpened);
  const titleId = useId();
  const bodyId = useId();
  const questions = ticket.questions.filter(
    (question) => question.state === "pending" && !shownQuestions.has(question.id),
  );
  return (
    <article className={classes["card"]} aria-labelledby={titleId}>
      <div className={classes["head"]}>
        {isClosed ? (
          <UnstyledButton
            className={classes["toggle"]}
            aria-expanded={isOpen}
            aria-controls={bodyId}
            aria-label={isOpen ? "Fold the ticket" : "Unfold the ticket"}
            onClick={() => setChoice(!isOpen)}
          >
            <IconChevronRight size={16} aria-hidden="true" />
          </UnstyledButton>
        ) : null}
        <Link
          id={titleId}
          className={classes["title"]}
          to="/tickets/$ticketId"
          params={{ ticketId: ticket.id }}
        >
          {ticket.title}
        </Link>
        <span className={classes["side"]}>
          <span role="status">
            <Status look={stageLook(ticket)} />
          </span>
          {!isClosed && <StopTicket ticketId={ticket.id} title={ticket.title} />}
        </span>
      </div>
      <div id={bodyId}>
        {isOpen && (
          <>
            <Commands ticket={ticket} />
            {questions.map((question) => (
              <div key={question.id} className={classes["part"]}>
                <QuestionForm question={question} />
              </div>
            ))}
            {ticket.needs === "review" && <Accept ticket={ticket} />}
          </>
        )}
      </div>
    </article>
  );
}

function Commands({ ticket }: { ticket: TicketWithAll }) {
  const [showsAll, setShowsAll] = useState(false);
  const { commands } = ticket;
  const hidden = showsAll ? 0 : Math.max(0, commands.length - COMMANDS_SHOWN);
  const running = commands.find((command) => command.ended_at === null);
  const opensAlone = commands.length === 1;
  return (
    <>
      {hidden > 0 && (
        <div className={classes["part"]}>
          <Button size="compact-sm" h={28} variant="subtle" onClick={() => setShowsAll(true)}>
            Show {hidden} earlier {hidden === 1 ? "command" : "commands"}
          </Button>
        </div>
      )}
      {commands.slice(hidden).map((command) => (
        <TicketCommand
          key={command.id}
          command={command}
          isTitled={opensAlone && ticket.title.includes(command.title)}
          startsOpen={command === running || opensAlone}
        />
      ))}
    </>
  );
}

function Accept({ ticket }: { ticket: TicketWithAll }) {
  const action = useAction();
  const report = ticket.reports.findLast((one) => one.kind === "ready");
  if (report === undefined || report.accept === "") return null;

  // The event that it is closed has the card read anew.
  const accept = () => action.run(() => acceptTicket(ticket.id));

  return (
    <div className={classes["part"]}>
      <p className={classes["accept"]}>To accept: {report.accept}</p>
      <ErrorLine error={action.error} />
      <Button size="sm" h={32} loading={action.busy} onClick={() => void accept()}>
        Accept
      </Button>
    </div>
  );
}
