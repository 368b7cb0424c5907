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
  large?: boolean;
}

export function CopyLine({ label, value, aside, large = false }: CopyLineProps) {
  const id = useId();
  const field = useRef<HTMLTextAreaElement>(null);
  const [said, setSaid] = useState<"" | "Copied" | "Press Ctrl+C to copy">("");

  useEffect(() => {
    if (said === "") return;
    const timer = setTimeout(() => setSaid(""), SAID_FOR_MS);
    return () => clearTimeout(timer);
  }, [said]);

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
    <div className={classes["copy"]} data-large={large || undefined}>
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
