/** The three views as links, each with how many things in it wait for a person. */
import { VisuallyHidden } from "@mantine/core";
import { IconDeviceDesktop, IconMessageCircle, IconStack2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { machinesQuery } from "../machines/queries.ts";
import { ticketsThatNeedPeopleQuery } from "../tickets/queries.ts";
import classes from "./Navigation.module.css";

export function Navigation() {
  const pending = useQuery(machinesQuery).data?.items.filter((m) => m.status === "pending").length;
  const needed = useQuery(ticketsThatNeedPeopleQuery).data?.items.length;
  return (
    <ul className={classes["navigation"]}>
      <Entry to="/chat" icon={<IconMessageCircle size={22} stroke={1.7} />} name="Chat" />
      <Entry
        to="/machines"
        icon={<IconDeviceDesktop size={22} stroke={1.7} />}
        name="Machines"
        waiting={pending}
        waitingFor="to confirm"
      />
      <Entry
        to="/tickets"
        icon={<IconStack2 size={22} stroke={1.7} />}
        name="Tickets"
        waiting={needed}
        waitingFor="waiting for a person"
      />
    </ul>
  );
}

interface EntryProps {
  to: "/chat" | "/machines" | "/tickets";
  icon: ReactNode;
  name: string;
  waiting?: number | undefined;
  waitingFor?: string;
}

function Entry({ to, icon, name, waiting = 0, waitingFor = "" }: EntryProps) {
  // Described, not named, by the number: "Tickets" stays the link's name while it changes.
  const noteId = `waiting-${name}`;
  return (
    <li className={classes["item"]}>
      <Link
        to={to}
        className={classes["entry"]}
        activeProps={{ "data-active": true }}
        aria-describedby={waiting > 0 ? noteId : undefined}
      >
        <span className={classes["icon"]} aria-hidden="true">
          {icon}
        </span>
        <span className={classes["name"]}>{name}</span>
        {waiting > 0 && (
          <span className={classes["count"]} aria-hidden="true">
            {waiting > 99 ? "99+" : waiting}
          </span>
        )}
      </Link>
      {waiting > 0 && (
        <VisuallyHidden id={noteId}>
          {waiting} {waitingFor}
        </VisuallyHidden>
      )}
    </li>
  );
}
