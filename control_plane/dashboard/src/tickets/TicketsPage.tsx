/** All tickets by stage: those that need a person first and alone, then what runs, then the rest. */
import { Button, TextInput } from "@mantine/core";
import { IconChecks, IconSearch, IconStack2 } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ButtonLink } from "../ui/ButtonLink.tsx";
import { Empty } from "../ui/Empty.tsx";
import { ErrorLine, ErrorState } from "../ui/ErrorState.tsx";
import { Loading } from "../ui/Loading.tsx";
import { Page } from "../ui/Page.tsx";
import { PageHeader } from "../ui/PageHeader.tsx";
import { type Ticket, ticketsQuery } from "./queries.ts";
import { STAGE_WORDS, STAGES, type Stage } from "./stages.ts";
import { TicketRow } from "./TicketRow.tsx";
import classes from "./TicketsPage.module.css";

export function TicketsPage() {
  const { stage, q = "" } = useSearch({ from: "/tickets" });
  const navigate = useNavigate();
  const list = useInfiniteQuery(ticketsQuery(stage));
  // A page may repeat what moved since the one before it was read.
  const loaded = [
    ...new Map(
      (list.data?.pages ?? []).flatMap((page) => page.items).map((ticket) => [ticket.id, ticket]),
    ).values(),
  ];
  const found = loaded.filter((ticket) => matches(ticket, q));

  return (
    <Page>
      <PageHeader title="Tickets">Each is one piece of authorised work.</PageHeader>
      <div className={classes["tools"]}>
        <nav className={classes["filter"]} aria-label="Filter by stage">
          <Filter stage={undefined} word="All" current={stage} q={q} />
          {STAGES.map((one) => (
            <Filter key={one} stage={one} word={STAGE_WORDS[one]} current={stage} q={q} />
          ))}
        </nav>
        <TextInput
          className={classes["search"]}
          type="search"
          aria-label="Search tickets"
          placeholder="Search"
          leftSection={<IconSearch size={16} />}
          value={q}
          onChange={(event) => {
            const wanted = event.currentTarget.value;
            void navigate({
              to: "/tickets",
              replace: true,
              search: (before) => ({
                ...before,
                q: wanted === "" ? undefined : wanted,
              }),
            });
          }}
        />
      </div>
      {list.isPending ? (
        <Loading what="tickets" rows={5} rowHeight={66} />
      ) : list.isError && list.data === undefined ? (
        <ErrorState error={list.error} onRetry={() => list.refetch()} />
      ) : found.length === 0 ? (
        <NothingFound stage={stage} q={q} more={list.hasNextPage} />
      ) : (
        STAGES.map((one) => (
          <Group
            key={one}
            stage={one}
            tickets={found.filter((ticket) => ticket.stage === one)}
            more={list.hasNextPage}
          />
        ))
      )}
      {list.hasNextPage && (
        <div className={classes["more"]}>
          <Button
            variant="default"
            loading={list.isFetchingNextPage}
            onClick={() => void list.fetchNextPage()}
          >
            Show more
          </Button>
          {q !== "" && <span>Searched the {loaded.length} tickets shown so far.</span>}
        </div>
      )}
      {list.isFetchNextPageError && <ErrorLine error={list.error} />}
    </Page>
  );
}

interface FilterProps {
  stage: Stage | undefined;
  word: string;
  current: Stage | undefined;
  q: string;
}

function Filter({ stage, word, current, q }: FilterProps) {
  return (
    <Link
      to="/tickets"
      search={{ ...(stage === undefined ? {} : { stage }), ...(q === "" ? {} : { q }) }}
      className={classes["chip"]}
      aria-current={stage === current ? "true" : undefined}
      resetScroll={false}
    >
      {word}
    </Link>
  );
}

interface GroupProps {
  stage: Stage;
  tickets: Ticket[];
  more: boolean;
}

function Group({ stage, tickets, more }: GroupProps) {
  if (tickets.length === 0) return null;
  const headingId = `stage-${stage}`;
  // Closed tickets come last: only their number is cut by the page.
  const count = more && stage === "closed" ? `${tickets.length}+` : String(tickets.length);
  return (
    <section className={classes["group"]} data-stage={stage} aria-labelledby={headingId}>
      <h2 id={headingId} className={classes["heading"]}>
        {STAGE_WORDS[stage]} <span className={classes["count"]}>{count}</span>
      </h2>
      <ul className={classes["rows"]}>
        {tickets.map((ticket) => (
          <li key={ticket.id}>
            <TicketRow ticket={ticket} />
          </li>
        ))}
      </ul>
    </section>
  );
}

interface NothingFoundProps {
  stage: Stage | undefined;
  q: string;
  more: boolean;
}

function NothingFound({ stage, q, more }: NothingFoundProps) {
  if (q !== "") {
    return (
      <Empty
        icon={<IconSearch size={28} stroke={1.6} />}
        title={`Nothing here matches “${q}”`}
        action={
          <ButtonLink to="/tickets" search={stage === undefined ? {} : { stage }} variant="default">
            Clear the search
          </ButtonLink>
        }
      >
        {more
          ? "Only the tickets loaded so far were searched."
          : "Titles, machines and who asked were searched."}
      </Empty>
    );
  }
  if (stage === "needs_person") {
    return (
      <Empty icon={<IconChecks size={28} stroke={1.6} />} title="Nothing needs you">
        Whatever needs a person comes first here, and as a number beside Tickets.
      </Empty>
    );
  }
  return (
    <Empty
      icon={<IconStack2 size={28} stroke={1.6} />}
      title={
        stage === undefined ? "No tickets yet" : `Nothing is ${STAGE_WORDS[stage].toLowerCase()}`
      }
      action={stage === undefined && <ButtonLink to="/chat">Ask for something</ButtonLink>}
    >
      {stage === undefined
        ? "Ask in the chat: a request that is work becomes a ticket, with everything that was done."
        : undefined}
    </Empty>
  );
}

function matches(ticket: Ticket, q: string): boolean {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const text = [ticket.title, ticket.requester, ...ticket.machines].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}
