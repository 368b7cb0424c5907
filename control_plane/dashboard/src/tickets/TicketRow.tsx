/** One ticket in a list: the whole row leads to it, its link is named by its title alone. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { meQuery } from "../shell/queries.ts";
import { Status, stageLook } from "../ui/Status.tsx";
import { Time } from "../ui/Time.tsx";
import type { Ticket } from "./queries.ts";
import classes from "./TicketRow.module.css";

export function TicketRow({ ticket }: { ticket: Ticket }) {
  const me = useQuery(meQuery).data;
  return (
    <div className={classes["row"]}>
      <div className={classes["main"]}>
        <Link
          to="/tickets/$ticketId"
          params={{ ticketId: ticket.id }}
          className={classes["title"]}
          title={ticket.title}
        >
          {ticket.title}
        </Link>
        <p className={classes["about"]}>
          {ticket.machines.length > 0 && <>{ticket.machines.join(", ")} · </>}
          {ticket.requester_member_id !== me?.member.id && <>for {ticket.requester} · </>}
          {ticket.inferred && "inferred · "}
          {ticket.closed_at === null ? (
            <>
              since <Time at={ticket.created_at} />
            </>
          ) : (
            <Time at={ticket.closed_at} />
          )}
        </p>
      </div>
      <div className={classes["side"]}>
        <Status look={stageLook(ticket)} />
      </div>
    </div>
  );
}
