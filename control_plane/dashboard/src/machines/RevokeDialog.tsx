/** Revoking a machine, with what that means said first. */
import { useQueryClient } from "@tanstack/react-query";
import { keys } from "../api/keys.ts";
import { ConfirmDialog } from "../ui/ConfirmDialog.tsx";
import { type Machine, revokeMachine } from "./queries.ts";

interface RevokeDialogProps {
  machine: Machine;
  opened: boolean;
  onClose: () => void;
}

export function RevokeDialog({ machine, opened, onClose }: RevokeDialogProps) {
  const queries = useQueryClient();

  async function revoke(): Promise<void> {
    await revokeMachine(machine.id);
    await queries.invalidateQueries({ queryKey: keys.machines });
  }

  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title={`Revoke ${machine.name}?`}
      confirm={`Revoke ${machine.name}`}
      onConfirm={revoke}
    >
      <p>{consequence(machine)}</p>
      <p>This is for good: to use it again, add it again.</p>
    </ConfirmDialog>
  );
}

function consequence(machine: Machine): string {
  const losses = [
    machine.running > 0 && `${counted(machine.running)} running there counts as lost`,
    machine.queued > 0 && `${counted(machine.queued)} queued for it will never run`,
  ].filter((part) => part !== false);
  const first = `${machine.name} is cut off within two seconds and its certificate opens nothing.`;
  return losses.length === 0 ? first : `${first} Whatever is open ends: ${losses.join(", ")}.`;
}

function counted(count: number): string {
  return count === 1 ? "1 command" : `${count} commands`;
}
