/** What its people can do with a machine: pause it, name it, label it, end it. */
import { ActionIcon, Button, Menu } from "@mantine/core";
import { IconBan, IconDots, IconPencil, IconTag } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "../api/keys.ts";
import { ErrorLine } from "../ui/ErrorState.tsx";
import { useAction } from "../ui/useAction.ts";
import { ChangeDialog } from "./ChangeDialog.tsx";
import { labelChanges, labelLines } from "./labels.ts";
import {
  labelMachine,
  type Machine,
  pauseMachine,
  renameMachine,
  resumeMachine,
} from "./queries.ts";
import { RevokeDialog } from "./RevokeDialog.tsx";

export function MachineActions({ machine }: { machine: Machine }) {
  const [open, setOpen] = useState<"name" | "labels" | "revoke" | null>(null);
  const close = () => setOpen(null);
  return (
    <>
      <PauseButton machine={machine} />
      <Menu position="bottom-end" withInitialFocusPlaceholder={false}>
        <Menu.Target>
          <ActionIcon variant="default" size={36} aria-label={`More for ${machine.name}`}>
            <IconDots size={18} aria-hidden="true" />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<IconPencil size={16} />} onClick={() => setOpen("name")}>
            Rename
          </Menu.Item>
          <Menu.Item leftSection={<IconTag size={16} />} onClick={() => setOpen("labels")}>
            Labels
          </Menu.Item>
          <Menu.Item
            leftSection={<IconBan size={16} />}
            color="red"
            onClick={() => setOpen("revoke")}
          >
            Revoke
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {open === "name" && (
        <ChangeDialog
          title={`Rename ${machine.name}`}
          label="Name"
          description="What you call it when you ask for something there."
          initial={machine.name}
          onSave={(name) => renameMachine(machine.id, name)}
          onClose={close}
        />
      )}
      {open === "labels" && (
        <ChangeDialog
          title={`Labels of ${machine.name}`}
          label="Labels"
          description="One on a line, such as build or team=infra: a request finds the machine by them. Those in its own file stay; they are changed there."
          initial={labelLines(machine.labels).join("\n")}
          multiline
          onSave={(text) => labelMachine(machine.id, labelChanges(machine.labels, text))}
          onClose={close}
        />
      )}
      <RevokeDialog machine={machine} opened={open === "revoke"} onClose={close} />
    </>
  );
}

/** Pausing ends nothing and is taken back by the same button, so it asks nobody. */
function PauseButton({ machine }: { machine: Machine }) {
  const queries = useQueryClient();
  const action = useAction();
  const paused = machine.status === "paused";
  if (!paused && machine.status !== "active") return null;

  async function turn(): Promise<void> {
    await (paused ? resumeMachine(machine.id) : pauseMachine(machine.id));
    await queries.invalidateQueries({ queryKey: keys.machines });
  }

  return (
    <>
      <ErrorLine error={action.error} />
      <Button
        variant={paused ? "filled" : "default"}
        size="sm"
        loading={action.busy}
        onClick={() => void action.run(turn)}
        aria-label={`${paused ? "Resume" : "Pause"} ${machine.name}`}
      >
        {paused ? "Resume" : "Pause"}
      </Button>
    </>
  );
}
