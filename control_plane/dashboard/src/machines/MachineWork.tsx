/** What a machine does now and what waits for it; as tall with work as without. */
import { UnstyledButton } from "@mantine/core";
import { IconChevronDown } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useId, useState } from "react";
import { Time } from "../ui/Time.tsx";
import classes from "./MachineWork.module.css";
import { type Command, type Machine, openCommandsQuery } from "./queries.ts";

export function MachineWork({ machine }: { machine: Machine }) {
  const busy = machine.running + machine.queued > 0;
  const open = useQuery({ ...openCommandsQuery(machine.id), enabled: busy });
  const commands = busy ? inOrder(open.data?.items ?? []) : [];
  const [expanded, setExpanded] = useState(false);
  const listId = useId();
  const [first, ...rest] = commands;
  const shown = expanded ? commands : commands.slice(0, 1);
  return (
    <section className={classes["work"]} aria-label={`Work of ${machine.name}`}>
      <div className={classes["summary"]}>
        <span>
          <b>{machine.running}</b> running
          <span className={classes["of"]}> of {machine.concurrency}</span>
        </span>
        <span>
          <b>{machine.queued}</b> queued
        </span>
        {rest.length > 0 && (
          <UnstyledButton
            className={classes["more"]}
            aria-expanded={expanded}
            aria-controls={listId}
            onClick={() => setExpanded(!expanded)}
          >
            {expanded ? "Show one" : `Show all ${commands.length}`}
            <IconChevronDown size={14} aria-hidden="true" />
          </UnstyledButton>
        )}
      </div>
      {first === undefined ? (
        <p className={classes["nothing"]}>{idleWords(machine)}</p>
      ) : (
        <ul id={listId} className={classes["list"]}>
          {shown.map((command) => (
            <li key={command.id}>
              <CommandLine command={command} machine={machine} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function CommandLine({ command, machine }: { command: Command; machine: Machine }) {
  return (
    <>
      {command.ticket_id === null ? (
        <span className={classes["title"]}>{command.title}</span>
      ) : (
        <Link
          to="/tickets/$ticketId"
          params={{ ticketId: command.ticket_id }}
          className={classes["title"]}
        >
          {command.title}
        </Link>
      )}
      <span className={classes["since"]}>
        {command.started_at !== null ? (
          <>
            {command.state === "stopping" ? "stopping" : "running"} since{" "}
            <Time at={command.started_at} />
          </>
        ) : machine.status === "paused" ? (
          <>
            waiting for {machine.name} to be resumed, until <Time at={command.start_expires_at} />
          </>
        ) : machine.presence === "online" ? (
          <>
            queued since <Time at={command.queued_at} />
          </>
        ) : (
          <>
            waiting for {machine.name} since <Time at={command.queued_at} />, until{" "}
            <Time at={command.start_expires_at} />
          </>
        )}
      </span>
    </>
  );
}

/** What runs comes first, then what waits, each in the order in which it was asked for. */
function inOrder(commands: Command[]): Command[] {
  return commands.toSorted(
    (a, b) =>
      Number(a.started_at === null) - Number(b.started_at === null) ||
      Date.parse(a.queued_at) - Date.parse(b.queued_at),
  );
}

function idleWords(machine: Machine): string {
  if (machine.running + machine.queued > 0) return "…"; // the list is on its way
  if (machine.status === "paused") return "Paused: what you ask for now waits until it is resumed.";
  if (machine.status === "quarantined") {
    return "Two computers used its identity: revoke it, then add it again.";
  }
  return machine.presence === "online"
    ? "Ready for work."
    : "What you ask for now waits until it is back.";
}
