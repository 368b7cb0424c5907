/** Asks for one text of a machine, its name or its labels, and stores it. */
import { Button, Group, Modal, Textarea, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { keys } from "../api/keys.ts";
import { ErrorLine } from "../ui/ErrorState.tsx";
import { useAction } from "../ui/useAction.ts";

interface ChangeDialogProps {
  title: string;
  label: string;
  /** What the text may hold. */
  description: string;
  /** What it is now. */
  initial: string;
  multiline?: boolean;
  onSave: (text: string) => Promise<unknown>;
  onClose: () => void;
}

/** Rendered only while it is open, so that it always begins with what is stored. */
export function ChangeDialog({
  title,
  label,
  description,
  initial,
  multiline = false,
  onSave,
  onClose,
}: ChangeDialogProps) {
  const queries = useQueryClient();
  const [text, setText] = useState(initial);
  const action = useAction();

  async function save(event: FormEvent): Promise<void> {
    event.preventDefault();
    const saved = await action.run(async () => {
      await onSave(text);
      await queries.invalidateQueries({ queryKey: keys.machines });
    });
    if (saved) onClose();
  }

  const field = { label, description, value: text, "data-autofocus": true, spellCheck: false };
  return (
    <Modal opened onClose={onClose} title={title} size={460}>
      <form onSubmit={(event) => void save(event)}>
        {multiline ? (
          <Textarea {...field} rows={6} onChange={(event) => setText(event.target.value)} />
        ) : (
          <TextInput {...field} maxLength={64} onChange={(event) => setText(event.target.value)} />
        )}
        <ErrorLine error={action.error} />
        <Group justify="flex-end" gap="xs" mt="lg">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={action.busy} disabled={!multiline && text.trim() === ""}>
            Save
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
