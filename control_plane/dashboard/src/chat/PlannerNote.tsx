/** Says once, quietly, that no language model is set and how to set one. */
import { ActionIcon, UnstyledButton } from "@mantine/core";
import { IconInfoCircle, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { meQuery } from "../shell/queries.ts";
import classes from "./PlannerNote.module.css";

const STORED = "farhand.planner_note_read";

export function PlannerNote() {
  const [isRead, setRead] = useState(wasRead);
  const [isOpen, setOpen] = useState(false);
  const me = useQuery(meQuery).data;
  if (isRead || me?.offline_planner !== true) return null;
  return (
    <aside className={classes["note"]} aria-label="No language model is set">
      <IconInfoCircle size={16} aria-hidden="true" />
      <div className={classes["words"]}>
        No language model is set: <code>run CMD on MACHINE</code> is understood, and little else.{" "}
        <UnstyledButton
          className={classes["more"]}
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          How to set one
        </UnstyledButton>
        {isOpen && (
          <p className={classes["how"]}>
            Where Farhand runs, set <code>FARHAND_MODEL_BASE_URL</code>,{" "}
            <code>FARHAND_MODEL_API_KEY</code> and <code>FARHAND_MODEL</code> to any service that
            speaks OpenAI's interface, then start it again.
          </p>
        )}
      </div>
      <ActionIcon
        size={28}
        aria-label="Do not show this again"
        onClick={() => {
          setRead(true);
          try {
            localStorage.setItem(STORED, "yes");
          } catch {
            // it is shown again at the next visit
          }
        }}
      >
        <IconX size={16} />
      </ActionIcon>
    </aside>
  );
}

function wasRead(): boolean {
  try {
    return localStorage.getItem(STORED) !== null;
  } catch {
    return false;
  }
}
