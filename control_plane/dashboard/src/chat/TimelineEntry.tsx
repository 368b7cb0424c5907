/** One thing in the conversation. */
import { Button } from "@mantine/core";
import { IconCornerUpRight } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { memo, useCallback, useState } from "react";
import { useLiveEvents } from "../live/live.ts";
import { QuestionForm } from "../questions/QuestionForm.tsx";
import { ticketQuery } from "../tickets/queries.ts";
import { ErrorLine } from "../ui/ErrorState.tsx";
import { Prose } from "../ui/Prose.tsx";
import { Time } from "../ui/Time.tsx";
import { dayWords } from "./day_words.ts";
import type { ChatItem } from "./history.ts";
import type { Outbox, Outgoing } from "./outgoing.ts";
import { TicketCard } from "./TicketCard.tsx";
import classes from "./TimelineEntry.module.css";
import type { Entry } from "./timeline.ts";

interface TimelineEntryProps {
  entry: Entry;
  outbox: Outbox;
  shownQuestions: ReadonlySet<string>;
  /** Puts a text back into the box. */
  onEdit: (text: string) => void;
}

export function TimelineEntry({ entry, outbox, shownQuestions, onEdit }: TimelineEntryProps) {
  switch (entry.kind) {
    case "day":
      return (
        <li className={classes["day"]}>
          <span>{dayWords(new Date(entry.at), new Date())}</span>
        </li>
      );
    case "message":
      return (
        <li className={classes["mine"]}>
          <Bubble text={entry.item.text} sender={entry.item.sender} />
          <MessageFoot item={entry.item} keptBy={entry.keptBy} />
        </li>
      );
    case "outgoing":
      return (
        <li className={classes["mine"]}>
          <Bubble text={entry.message.text} sender={null} />
          <OutgoingFoot message={entry.message} outbox={outbox} onEdit={onEdit} />
        </li>
      );
    case "ticket":
      return (
        <li>
          <TicketCard
            ticketId={entry.ticketId}
            isRecent={entry.isRecent}
            shownQuestions={shownQuestions}
          />
        </li>
      );
    case "reply":
      return (
        <li className={classes["reply"]}>
          {entry.about !== null && <About ticketId={entry.about} />}
          <Prose text={entry.item.text} />
          <span className={classes["foot"]}>
            <Time at={entry.item.at} />
          </span>
        </li>
      );
    case "question":
      return (
        <li>
          {entry.about !== null && <About ticketId={entry.about} />}
          {entry.item.question === null ? (
            <Prose text={entry.item.text} />
          ) : (
            <QuestionForm question={entry.item.question} />
          )}
        </li>
      );
    case "thinking":
      return <Thinking />;
  }
}

/** A longer message is shown by its beginning: a pasted log is not what one comes back for. */
const BUBBLE_CHARACTERS = 2_000;

const Bubble = memo(function Bubble({ text, sender }: { text: string; sender: string | null }) {
  const [isWhole, setWhole] = useState(text.length <= BUBBLE_CHARACTERS * 1.5);
  return (
    <div className={classes["bubble"]} title={sender ?? undefined}>
      {isWhole ? text : `${text.slice(0, BUBBLE_CHARACTERS)}…`}
      {!isWhole && (
        <Button
          size="compact-sm"
          h={28}
          variant="default"
          className={classes["whole"] ?? ""}
          onClick={() => setWhole(true)}
        >
          Show all {text.length.toLocaleString()} characters
        </Button>
      )}
    </div>
  );
});

function MessageFoot({ item, keptBy }: { item: ChatItem; keptBy: readonly string[] }) {
  return (
    <span className={classes["foot"]}>
      {item.verdict === "ignore" && "Nothing is done about this. "}
      {item.verdict === "unavailable" && "The model was not available to judge this. "}
      {keptBy.map((ticketId) => (
        <About key={ticketId} ticketId={ticketId} />
      ))}
      <Time at={item.at} />
    </span>
  );
}

interface OutgoingFootProps {
  message: Outgoing;
  outbox: Outbox;
  onEdit: (text: string) => void;
}

function OutgoingFoot({ message, outbox, onEdit }: OutgoingFootProps) {
  if (message.state !== "failed") {
    return (
      <span className={classes["foot"]} role="status">
        {message.state === "waiting" ? "Waiting for the server…" : <Time at={message.at} />}
      </span>
    );
  }
  return (
    <div className={classes["failed"]}>
      <ErrorLine error={new Error(message.error ?? "cannot send the message")} />
      <div className={classes["actions"]}>
        <Button
          size="compact-sm"
          h={28}
          variant="default"
          onClick={() => {
            outbox.remove(message.id);
            onEdit(message.text);
          }}
        >
          Edit
        </Button>
        <Button size="compact-sm" h={28} onClick={() => outbox.retry(message.id)}>
          Try again
        </Button>
      </div>
    </div>
  );
}

/** The ticket that something is about, by its title. */
function About({ ticketId }: { ticketId: string }) {
  const ticket = useQuery(ticketQuery(ticketId)).data;
  return (
    <Link className={classes["about"]} to="/tickets/$ticketId" params={{ ticketId }}>
      <IconCornerUpRight size={14} aria-hidden="true" /> {ticket?.title ?? "a ticket"}
    </Link>
  );
}

function Thinking() {
  const [isAway, setAway] = useState(false);
  useLiveEvents(
    useCallback((event) => {
      if (event.kind === "model_unavailable") setAway(true);
      if (event.kind === "eval_closed") setAway(false);
    }, []),
  );
  return (
    <li className={classes["thinking"]} role="status">
      <span className={classes["dots"]} aria-hidden="true">
        <i />
        <i />
        <i />
      </span>
      <span>{isAway ? "The model does not answer; trying again" : "Reading your message"}</span>
    </li>
  );
}
