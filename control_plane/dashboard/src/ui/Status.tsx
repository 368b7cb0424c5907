/** A state as icon, word and colour together: none of them says it alone. */
import {
  IconAlertTriangle,
  IconCheck,
  IconCircle,
  IconCircleDotted,
  IconClock,
  IconHandStop,
  IconLoader2,
  IconPlayerPause,
  IconPlugConnected,
  IconQuestionMark,
  IconX,
} from "@tabler/icons-react";
import type { ComponentType, ReactNode } from "react";
import { failureWords, hasFailed } from "./failures.ts";
import classes from "./Status.module.css";

export type Tone = "quiet" | "active" | "people" | "good" | "bad";

export interface StatusLook {
  tone: Tone;
  word: string;
  icon: ComponentType<{ size?: number | string; stroke?: number | string; className?: string }>;
}

interface StatusProps {
  look: StatusLook;
  /** Said after the word: "waiting for laptop". */
  children?: ReactNode;
  /** Without a ground of its own, for lines of text. */
  plain?: boolean;
}

export function Status({ look, children, plain = false }: StatusProps) {
  const Icon = look.icon;
  return (
    <span className={classes["status"]} data-tone={look.tone} data-plain={plain || undefined}>
      <span className={classes["icon"]} aria-hidden="true">
        <Icon size={14} stroke={2} className={look.icon === IconLoader2 ? classes["spin"] : ""} />
      </span>
      <span className={classes["word"]}>
        {look.word}
        {children}
      </span>
    </span>
  );
}

const NEEDS: Record<string, string> = {
  answer: "Needs your answer",
  review: "Needs your review",
  delivery: "Could not be delivered",
  blocked: "Blocked",
  failed: "Failed",
};

type CommandFacts = Parameters<typeof commandLook>[0];

/** How a ticket stands, in words a person would use. */
export function stageLook(ticket: {
  stage: string;
  needs?: string | null;
  outcome?: string | null;
  waiting_for?: string[];
  command_count: number;
  failed_commands: number;
  /** Where they are known: the only one says how it ended. */
  commands?: readonly CommandFacts[];
}): StatusLook {
  switch (ticket.stage) {
    case "needs_person": {
      const word = NEEDS[ticket.needs ?? ""] ?? "Needs you";
      const bad = ticket.needs === "failed" || ticket.needs === "delivery";
      return bad
        ? { tone: "bad", word, icon: IconAlertTriangle }
        : {
            tone: "people",
            word,
            icon: ticket.needs === "answer" ? IconQuestionMark : IconHandStop,
          };
    }
    case "working":
      return { tone: "active", word: "Working", icon: IconLoader2 };
    case "queued": {
      const names = ticket.waiting_for ?? [];
      const word = names.length > 0 ? `Waiting for ${names.join(", ")}` : "Queued";
      return { tone: "quiet", word, icon: IconClock };
    }
    case "idle":
      return { tone: "quiet", word: "Idle", icon: IconCircleDotted };
    case "closed":
      if (ticket.outcome === "done") {
        const { command_count, failed_commands, commands } = ticket;
        const word = failureWords(command_count, failed_commands, onlyWord(commands));
        if (word !== null) return { tone: "bad", word, icon: IconAlertTriangle };
        return { tone: "good", word: "Done", icon: IconCheck };
      }
      if (ticket.outcome === "stopped")
        return { tone: "quiet", word: "Stopped", icon: IconHandStop };
      return { tone: "quiet", word: "Expired", icon: IconClock };
    default:
      return { tone: "quiet", word: ticket.stage.replaceAll("_", " "), icon: IconCircle };
  }
}

/** How a machine stands: its status, and for an active one whether it is here. */
export function machineLook(machine: { status: string; presence: string }): StatusLook {
  switch (machine.status) {
    case "pending":
      return { tone: "people", word: "Waits for your confirmation", icon: IconHandStop };
    case "paused":
      return { tone: "quiet", word: "Paused", icon: IconPlayerPause };
    case "quarantined":
      return { tone: "bad", word: "Quarantined", icon: IconAlertTriangle };
    case "revoked":
      return { tone: "quiet", word: "Revoked", icon: IconX };
    default:
      return machine.presence === "online"
        ? { tone: "good", word: "Online", icon: IconPlugConnected }
        : { tone: "quiet", word: "Offline", icon: IconCircleDotted };
  }
}

function onlyWord(commands: readonly CommandFacts[] | undefined): string | undefined {
  const [only] = commands ?? [];
  return only === undefined ? undefined : commandLook(only, false).word;
}

/** What a report says of the work, in a word; a result is none of success while a command failed. */
export function reportLook(
  report: { kind: string; command_ids: readonly string[] },
  ticket: { commands: readonly (CommandFacts & { id: string })[] },
): StatusLook {
  switch (report.kind) {
    case "ready": {
      const named = ticket.commands.filter(({ id }) => report.command_ids.includes(id));
      const commands = named.length > 0 ? named : ticket.commands;
      const failed = commands.filter(hasFailed).length;
      const word = failureWords(commands.length, failed, onlyWord(commands));
      if (word !== null) return { tone: "bad", word: `Result: ${word}`, icon: IconAlertTriangle };
      return { tone: "good", word: "Result", icon: IconCheck };
    }
    case "blocked":
      return { tone: "people", word: "Blocked", icon: IconHandStop };
    case "failed":
      return { tone: "bad", word: "Failed", icon: IconAlertTriangle };
    case "question":
      return { tone: "people", word: "Question", icon: IconQuestionMark };
    default:
      return { tone: "quiet", word: "Progress", icon: IconCircleDotted };
  }
}

/** How a command stands; `waits`: its machine is not here. */
export function commandLook(
  command: {
    state: string;
    exit_status: number | null;
    reason: string | null;
    machine: string;
  },
  waits: boolean,
): StatusLook {
  switch (command.state) {
    case "queued":
      return waits
        ? { tone: "quiet", word: `Waiting for ${command.machine}`, icon: IconClock }
        : { tone: "quiet", word: "Queued", icon: IconClock };
    case "offered":
    case "journalled":
      return { tone: "active", word: "Starting", icon: IconLoader2 };
    case "awaiting_owner":
      return { tone: "people", word: `Needs a yes on ${command.machine}`, icon: IconHandStop };
    case "started":
      return { tone: "active", word: "Running", icon: IconLoader2 };
    case "stopping":
      return { tone: "active", word: "Stopping", icon: IconLoader2 };
    case "exited":
      return ended(command);
    case "spawn_error":
      return { tone: "bad", word: "Could not start", icon: IconAlertTriangle };
    case "refused":
      return { tone: "bad", word: "Refused", icon: IconX };
    case "expired":
      return { tone: "quiet", word: "Expired before it started", icon: IconClock };
    case "superseded":
      return { tone: "quiet", word: "Replaced by a newer one", icon: IconX };
    case "cancelled_before_start":
      return { tone: "quiet", word: "Stopped before it started", icon: IconHandStop };
    case "indeterminate":
      return { tone: "bad", word: "Outcome unknown", icon: IconQuestionMark };
    case "lost":
      return { tone: "bad", word: "Lost", icon: IconAlertTriangle };
    default:
      return { tone: "quiet", word: command.state.replaceAll("_", " "), icon: IconCircle };
  }
}

function ended(command: { exit_status: number | null; reason: string | null }): StatusLook {
  switch (command.reason) {
    case "timeout":
      return { tone: "bad", word: "Timed out", icon: IconClock };
    case "cancel":
      return { tone: "quiet", word: "Stopped", icon: IconHandStop };
    case "shutdown":
      return { tone: "quiet", word: "Stopped with its machine", icon: IconHandStop };
    case "oom":
      return { tone: "bad", word: "Out of memory", icon: IconAlertTriangle };
    default:
      return command.exit_status === 0
        ? { tone: "good", word: "Exit 0", icon: IconCheck }
        : { tone: "bad", word: `Exit ${command.exit_status ?? "?"}`, icon: IconX };
  }
}
