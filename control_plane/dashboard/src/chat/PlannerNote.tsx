/** Says once, quietly, that no language model is set and how to set one. */
import { ActionIcon } from "@mantine/core";
import { IconInfoCircle, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { meQuery } from "../shell/queries.ts";
import classes from "./PlannerNote.module.css";

const STORED = "farhand.planner_note_read";

export function PlannerNote() {
  const [isRead, setRead] = useState(wasRead);
  const me = useQuery(meQuery).data;
  if (isRead || me?.offline_planner !== true) return null;
  return (
    <aside className={classes["note"]} aria-label="No language model is set">
      <IconInfoCircle size={16} aria-hidden="true" />
      <p>
        No language model is set. The built-in planner understands <code>run CMD on MACHINE</code>,{" "}
        <code>stop</code> and <code>status</code>. For a model, set{" "}
        <code>FARHAND_MODEL_BASE_URL</code>, <code>FARHAND_MODEL_API_KEY</code> and{" "}
        <code>FARHAND_MODEL</code> where Farhand runs, and start it again.
      </p>
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
