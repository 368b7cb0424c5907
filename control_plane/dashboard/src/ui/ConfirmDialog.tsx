/** Asks before something that cannot be taken back, with its consequence said. */
import { Button, Group, Modal } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { ErrorLine } from "./ErrorState.tsx";

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
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);

  function close(): void {
    setError(null);
    onClose();
  }

  async function act(): Promise<void> {
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      close();
      // What opened the dialog may be gone with what it ended: the keyboard goes on in the view.
      setTimeout(() => {
        if (document.activeElement === document.body) {
          document.getElementById("content")?.focus({ preventScroll: true });
        }
      }, FOCUS_RETURNED_MS);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  }

  return (
    <Modal opened={opened} onClose={close} title={title} size={460}>
      {children}
      <ErrorLine error={error} />
      <Group justify="flex-end" gap="xs" mt="lg">
        {/* The safe way out has the focus first. */}
        <Button variant="default" onClick={close} data-autofocus>
          Cancel
        </Button>
        <Button color="red" loading={busy} onClick={() => void act()}>
          {confirm}
        </Button>
      </Group>
    </Modal>
  );
}
