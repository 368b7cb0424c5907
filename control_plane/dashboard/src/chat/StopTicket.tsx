/** Stops a ticket, after saying what that ends. */
import { Button } from "@mantine/core";
import { IconHandStop } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "../api/keys.ts";
import { stopTicket } from "../tickets/queries.ts";
import { ConfirmDialog } from "../ui/ConfirmDialog.tsx";

interface StopTicketProps {
  ticketId: string;
  title: string;
}

export function StopTicket({ ticketId, title }: StopTicketProps) {
  const queries = useQueryClient();
  const [asks, setAsks] = useState(false);
  return (
    <>
      <Button
        size="compact-sm"
        h={28}
        variant="default"
        leftSection={<IconHandStop size={14} />}
        onClick={() => setAsks(true)}
      >
        Stop
      </Button>
      <ConfirmDialog
        opened={asks}
        onClose={() => setAsks(false)}
        title={`Stop “${title}”?`}
        confirm="Stop ticket"
        onConfirm={async () => {
          queries.setQueryData(keys.ticket(ticketId), await stopTicket(ticketId));
        }}
      >
        What it runs is ended, what it waits for is called off. What was done stays done.
      </ConfirmDialog>
    </>
  );
}
