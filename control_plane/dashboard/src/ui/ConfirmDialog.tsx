/** Asks before something that cannot be taken back, with its consequence said. */
import { Button, Group, Modal } from "@mantine/core";
import type { ReactNode } from "react";
import { ErrorLine } from "./ErrorState.tsx";
import { useAction } from "./useAction.ts";

/** Mantine gives the focus back to what opened a dialog, where that still is, before this. */
const FOCUS_RETURNED_MS = 60;

interface ConfirmDialogProps {
  opened: boolean;
  onClose: () => void;
  title: string;
  /** What will happen. */
  children: ReactNode;
  confirm: string;
  onConfirm: () => Promise<unknown>;
}

export function ConfirmDialog({
  opened,
  onClose,
  title,
  children,
  confirm,
  onConfirm,
}: ConfirmDialogProps) {
  const action = useAction();

  function close(): void {
    action.reset();
    onClose();
  }

  async function act(): Promise<void> {
    if (!(await action.run(onConfirm))) return;
    close();
    // What opened the dialog may be gone with what it ended: the keyboard goes on in the view.
    setTimeout(() => {
      if (document.activeElement === document.body) {
        document.getElementById("content")?.focus({ preventScroll: true });
      }
    }, FOCUS_RETURNED_MS);
  }

  return (
    <Modal opened={opened} onClose={close} title={title} size={460}>
      {children}
      <ErrorLine error={action.error} />
      <Group justify="flex-end" gap="xs" mt="lg">
        {/* The safe way out has the focus first. */}
        <Button variant="default" onClick={close} data-autofocus>
          Cancel
        </Button>
        <Button color="red" loading={action.busy} onClick={() => void act()}>
          {confirm}
        </Button>
      </Group>
    </Modal>
  );
}
