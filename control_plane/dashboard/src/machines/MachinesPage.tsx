/** All machines: those to confirm first, then each with its presence, trust and work. */
import { Button, CloseButton } from "@mantine/core";
import { IconDeviceDesktopPlus, IconHandStop, IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { Empty } from "../ui/Empty.tsx";
import { ErrorState } from "../ui/ErrorState.tsx";
import { Loading } from "../ui/Loading.tsx";
import { Page } from "../ui/Page.tsx";
import { PageHeader } from "../ui/PageHeader.tsx";
import { AddMachineDialog } from "./AddMachineDialog.tsx";
import { MachineCard } from "./MachineCard.tsx";
import classes from "./MachinesPage.module.css";
import { PendingMachine } from "./PendingMachine.tsx";
import { type Machine, machinesQuery } from "./queries.ts";

export function MachinesPage() {
  const machines = useQuery(machinesQuery);
  const { add = false } = useSearch({ from: "/machines" });
  const navigate = useNavigate();
  const [turnedAway, setTurnedAway] = useState<string | null>(null);

  const openDialog = () => void navigate({ to: "/machines", search: { add: true } });
  const closeDialog = () => void navigate({ to: "/machines", search: {}, replace: true });

  return (
    <Page>
      <PageHeader
        title="Machines"
        actions={
          <Button leftSection={<IconPlus size={18} />} onClick={openDialog}>
            Add a machine
          </Button>
        }
      >
        {machines.data !== undefined && machines.data.items.length > 0
          ? summary(machines.data.items)
          : "The computers that Farhand has hands on."}
      </PageHeader>
      {/* Always there, so that what comes into it is read out. */}
      <div role="status">
        {turnedAway !== null && (
          <div className={classes["away"]}>
            <IconHandStop size={18} stroke={1.7} aria-hidden="true" />
            <p>
              <b>{turnedAway}</b> was turned away: it is revoked, and nothing ran on it. Check the
              address in the line you copied, and that nobody else had the code.
            </p>
            <CloseButton
              aria-label="Close this message"
              size="sm"
              onClick={() => setTurnedAway(null)}
            />
          </div>
        )}
      </div>
      {machines.isPending ? (
        <Loading what="machines" rows={2} rowHeight={280} columns />
      ) : machines.isError && machines.data === undefined ? (
        <ErrorState error={machines.error} onRetry={() => machines.refetch()} />
      ) : (
        <MachineList machines={machines.data?.items ?? []} onTurnedAway={setTurnedAway} />
      )}
      <AddMachineDialog opened={add} onClose={closeDialog} />
    </Page>
  );
}

interface MachineListProps {
  machines: Machine[];
  onTurnedAway: (name: string) => void;
}

function MachineList({ machines, onTurnedAway }: MachineListProps) {
  const pending = machines.filter((machine) => machine.status === "pending");
  const others = machines.filter((machine) => machine.status !== "pending");
  if (machines.length === 0) {
    return (
      <Empty icon={<IconDeviceDesktopPlus size={28} stroke={1.6} />} title="No machine yet">
        Add one: you copy a line, run it in a terminal of that computer, and compare six words.
      </Empty>
    );
  }
  return (
    <>
      {pending.length > 0 && (
        <section className={classes["pending"]} aria-label="To confirm">
          {pending.map((machine) => (
            <PendingMachine
              key={machine.id}
              machine={machine}
              onTurnedAway={() => onTurnedAway(machine.name)}
            />
          ))}
        </section>
      )}
      <div className={classes["grid"]}>
        {others.map((machine) => (
          <MachineCard key={machine.id} machine={machine} />
        ))}
      </div>
    </>
  );
}

function summary(machines: Machine[]): string {
  const active = machines.filter((machine) => machine.status !== "pending");
  const online = active.filter((machine) => machine.presence === "online").length;
  const running = active.reduce((sum, machine) => sum + machine.running, 0);
  const queued = active.reduce((sum, machine) => sum + machine.queued, 0);
  return [`${online} of ${active.length} online`, `${running} running`, `${queued} queued`].join(
    " · ",
  );
}
