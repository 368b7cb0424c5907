/** What a command wrote and writes, as a log: drawn a screenful at a time, however long it is. */
import { ActionIcon, Button, Tooltip } from "@mantine/core";
import { IconArrowDown, IconCheck, IconCopy, IconPlayerPlay } from "@tabler/icons-react";
import { useEffect, useState, useSyncExternalStore } from "react";
import classes from "./CommandOutput.module.css";
import { copyText } from "./copy.ts";
import type { Operation } from "./file_answer.ts";
import { OutputRow } from "./OutputRow.tsx";
import { type OutputStore, outputOf } from "./output_store.ts";
import { sizeWords } from "./sizes.ts";
import { useRows } from "./useRows.ts";

interface CommandOutputProps {
  commandId: string;
  attemptId: string;
  /** What it does with files: its answer is shown in words. Null: it runs a program. */
  operation: Operation | null;
  /** Names the region: "Output of TITLE". */
  title: string;
  /** False once the command has ended. */
  live: boolean;
  /** How much the server has; more than was read is read when it comes late. */
  stdoutBytes?: number;
  stderrBytes?: number;
  /** Rows shown without scrolling inside. */
  rows?: number;
}

export function CommandOutput(props: CommandOutputProps) {
  const store = useOutput(props);
  const { ref, onScroll, onKeyDown, window, follows, followEnd } = useRows(
    store.lines,
    props.rows ?? 18,
  );
  const count = store.lines.rowCount;
  return (
    <div className={classes["output"]}>
      <div className={classes["frame"]} style={{ height: window.height }}>
        <div
          ref={ref}
          className={classes["scroller"]}
          role="log"
          // Ten megabytes read aloud would be no help; the state is told beside it.
          aria-live="off"
          aria-label={`Output of ${props.title}`}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
          tabIndex={0}
          onScroll={onScroll}
          onKeyDown={onKeyDown}
        >
          <div
            className={classes["whole"]}
            style={{ height: window.physical, minWidth: `${window.columns}ch` }}
          >
            <div className={classes["rows"]} style={{ transform: `translateY(${window.top}px)` }}>
              {Array.from({ length: window.last - window.first }, (_, at) => {
                const index = window.first + at;
                return (
                  <OutputRow key={index} row={store.lines.row(index)} styles={store.lines.styles} />
                );
              })}
            </div>
          </div>
          {count === 0 && <p className={classes["nothing"]}>{nothingYet(store, props.live)}</p>}
        </div>
        {!follows && (
          <Button
            className={classes["jump"] ?? ""}
            size="compact-sm"
            h={28}
            variant="default"
            leftSection={<IconArrowDown size={14} />}
            onClick={followEnd}
          >
            Jump to end
          </Button>
        )}
      </div>
      {store.hint !== null && (
        <p className={classes["hint"]} role="status">
          {store.hint}
        </p>
      )}
      <Footer store={store} />
    </div>
  );
}

function Footer({ store }: { store: OutputStore }) {
  const bytes = store.taken.stdout + (store.operation === null ? store.taken.stderr : 0);
  return (
    <div className={classes["footer"]}>
      <span className={classes["state"]} role="status">
        {stateWords(store)}
      </span>
      {store.state === "paused" && (
        <Button
          size="compact-xs"
          h={24}
          variant="subtle"
          leftSection={<IconPlayerPlay size={14} />}
          onClick={() => store.read()}
        >
          Follow
        </Button>
      )}
      {store.state === "failed" && (
        <Button size="compact-xs" h={24} variant="subtle" onClick={() => store.read()}>
          Try again
        </Button>
      )}
      <span className={classes["size"]}>
        {store.operation === null && store.taken.stderr > 0 && (
          <span className={classes["legend"]}>
            <i aria-hidden="true" /> stderr
          </span>
        )}
        {bytes > 0 && sizeWords(bytes)}
      </span>
      <Copy store={store} />
    </div>
  );
}

function Copy({ store }: { store: OutputStore }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 2_000);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const label = isCopied ? "Copied" : "Copy output";
  return (
    <Tooltip label={label}>
      <ActionIcon
        size={28}
        aria-label={label}
        disabled={store.lines.rowCount === 0}
        onClick={() => void copyText(store.lines.allText()).then(setCopied)}
      >
        {isCopied ? <IconCheck size={16} /> : <IconCopy size={16} />}
      </ActionIcon>
    </Tooltip>
  );
}

function useOutput(props: CommandOutputProps): OutputStore {
  const { attemptId, commandId, live, stdoutBytes = 0, stderrBytes = 0 } = props;
  const store = outputOf(attemptId, commandId, props.operation);
  useSyncExternalStore(store.watch, () => store.version);
  useEffect(() => {
    store.isEndless = live;
  }, [store, live]);
  useEffect(() => store.view(), [store]);
  useEffect(() => store.expect(stdoutBytes, stderrBytes), [store, stdoutBytes, stderrBytes]);
  return store;
}

function nothingYet(store: OutputStore, live: boolean): string {
  if (store.state === "complete") return "It wrote nothing.";
  if (store.state === "failed") return "";
  return live ? "Nothing written yet." : "Reading…";
}

function stateWords(store: OutputStore): string {
  switch (store.state) {
    case "following":
      return store.isEndless ? "Live" : "Reading…";
    case "waiting":
      return "Waiting for other outputs…";
    case "reconnecting":
      return "reconnecting…";
    case "paused":
      return "Paused: two outputs are followed at a time";
    case "failed":
      return store.error ?? "";
    default:
      return "";
  }
}
