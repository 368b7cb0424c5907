/** One line to copy: shown whole, selected by a click, copied by its button, which says so. */
import { ActionIcon } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useEffect, useId, useRef, useState } from "react";
import classes from "./CopyLine.module.css";

const SAID_FOR_MS = 2000;

interface CopyLineProps {
  label: string;
  value: string;
  /** Beside the label, at its right. */
  aside?: React.ReactNode;
  /** The copy button takes the focus when the line appears. */
  takesFocus?: boolean;
}

export function CopyLine({ label, value, aside, takesFocus = false }: CopyLineProps) {
  const id = useId();
  const field = useRef<HTMLTextAreaElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const [said, setSaid] = useState<"" | "Copied" | "Press Ctrl+C to copy">("");

  useEffect(() => {
    if (said === "") return;
    const timer = setTimeout(() => setSaid(""), SAID_FOR_MS);
    return () => clearTimeout(timer);
  }, [said]);

  useEffect(() => {
    if (takesFocus) button.current?.focus();
  }, [takesFocus]);

  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(value);
      setSaid("Copied");
    } catch {
      // Over plain http from another computer a browser gives no clipboard: the old way, or by hand.
      field.current?.focus();
      field.current?.select();
      setSaid(document.execCommand?.("copy") ? "Copied" : "Press Ctrl+C to copy");
    }
  }

  return (
    <div className={classes["copy"]}>
      <div className={classes["top"]}>
        <label htmlFor={id}>{label}</label>
        {aside}
      </div>
      <div className={classes["line"]}>
        <textarea
          id={id}
          ref={field}
          className={classes["value"]}
          value={value}
          rows={1}
          readOnly
          spellCheck={false}
          onFocus={(event) => event.currentTarget.select()}
        />
        <ActionIcon
          ref={button}
          className={classes["button"]}
          variant="default"
          size={40}
          aria-label={`Copy: ${label}`}
          onClick={() => void copy()}
        >
          {said === "Copied" ? <IconCheck size={18} /> : <IconCopy size={18} />}
        </ActionIcon>
      </div>
      <div className={classes["said"]} role="status">
        {said}
      </div>
    </div>
  );
}
