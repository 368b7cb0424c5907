/** Adding a machine: a line to copy, a code to type, six words to compare, and it is in. */
import { Modal } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { AddMachine } from "./AddMachine.tsx";

interface AddMachineDialogProps {
  opened: boolean;
  onClose: () => void;
}

export function AddMachineDialog({ opened, onClose }: AddMachineDialogProps) {
  const small = useMediaQuery("(max-width: 560px)");
  return (
    // A click beside the dialog must not throw away a code that is being typed elsewhere.
    <Modal
      opened={opened}
      onClose={onClose}
      title="Add a machine"
      size={600}
      fullScreen={small ?? false}
      closeOnClickOutside={false}
    >
      <AddMachine onClose={onClose} />
    </Modal>
  );
}
