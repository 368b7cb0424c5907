/** The stages of a ticket in the order in which a person should see them, and what they are called. */

export const STAGES = ["needs_person", "working", "queued", "idle", "closed"] as const;

export type Stage = (typeof STAGES)[number];

export const STAGE_WORDS: Record<Stage, string> = {
  needs_person: "Needs you",
  working: "Working",
  queued: "Waiting",
  idle: "Idle",
  closed: "Closed",
};
