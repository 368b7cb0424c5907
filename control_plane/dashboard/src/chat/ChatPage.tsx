/** The conversation with the agent: what was said, a card for each ticket, and a box to write in. */
import { Button, VisuallyHidden } from "@mantine/core";
import { IconArrowDown } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { ErrorState } from "../ui/ErrorState.tsx";
import { Loading } from "../ui/Loading.tsx";
import { useNow } from "../ui/now.ts";
import { useTitle } from "../ui/PageHeader.tsx";
import classes from "./ChatPage.module.css";
import { Composer } from "./Composer.tsx";
import { useConversation } from "./conversation.ts";
import { storedDraft } from "./draft.ts";
import { Older } from "./Older.tsx";
import { PlannerNote } from "./PlannerNote.tsx";
import { TimelineEntry } from "./TimelineEntry.tsx";
import { timelineOf } from "./timeline.ts";
import { useStickToEnd } from "./useStickToEnd.ts";
import { Welcome } from "./Welcome.tsx";

export function ChatPage() {
  useTitle("Chat");
  const { history, outgoing, error, reload, outbox, older } = useConversation();
  const { text: given } = useSearch({ from: "/chat" });
  const navigate = useNavigate();
  const [text, setText] = useState(() => given ?? storedDraft());
  /** Counts what was put into the box without typing: the caret goes to its end each time. */
  const [put, setPut] = useState(0);
  const box = useRef<HTMLTextAreaElement>(null);
  const minute = Math.floor(useNow() / 10_000);
  // biome-ignore lint/correctness/useExhaustiveDependencies: what depends on time is looked at now and then
  const entries = useMemo(
    () => timelineOf(history?.items ?? [], outgoing, new Date()),
    [history, outgoing, minute],
  );
  const { scroller, content, onScroll, isAtEnd, goToEnd } = useStickToEnd(
    history?.items.at(-1)?.id,
  );
  const shownQuestions = useMemo(
    () => new Set(history?.items.flatMap((item) => item.question_id ?? [])),
    [history],
  );

  const suggest = useCallback((suggestion: string) => {
    setText(suggestion);
    setPut((before) => before + 1);
  }, []);
  useEffect(() => {
    if (given === undefined) return;
    suggest(given);
    // Taken: left in the address, a reload would write it again after it was sent.
    void navigate({ to: "/chat", search: {}, replace: true });
  }, [given, navigate, suggest]);
  useEffect(() => {
    // Not of itself on a phone, where the keyboard would cover the conversation.
    if (put > 0 || !matchMedia("(pointer: coarse)").matches) goOnWriting(box.current);
  }, [put]);

  function send(message: string): void {
    outbox.add(message);
    setText("");
    goToEnd();
  }

  const isEmpty = history !== undefined && entries.length === 0;
  return (
    <div className={classes["chat"]}>
      <VisuallyHidden component="h1">Chat</VisuallyHidden>
      <div className={classes["pane"]}>
        <section
          ref={scroller}
          className={classes["scroller"]}
          data-scroller
          onScroll={onScroll}
          aria-label="Conversation"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
          tabIndex={0}
        >
          <div ref={content} className={classes["column"]}>
            {history === undefined ? (
              error === null ? (
                <Loading what="the conversation" rows={3} rowHeight={64} />
              ) : (
                <ErrorState error={error} onRetry={reload} />
              )
            ) : isEmpty ? (
              <Welcome onChoose={suggest} />
            ) : (
              <>
                <Older isMore={history.next_cursor !== null} older={older} />
                <ol className={classes["entries"]}>
                  {entries.map((entry) => (
                    <TimelineEntry
                      key={entry.key}
                      entry={entry}
                      outbox={outbox}
                      shownQuestions={shownQuestions}
                      onEdit={suggest}
                    />
                  ))}
                </ol>
              </>
            )}
          </div>
        </section>
        {!isAtEnd && (
          <Button
            className={classes["jump"] ?? ""}
            size="compact-sm"
            h={32}
            variant="default"
            leftSection={<IconArrowDown size={14} />}
            onClick={goToEnd}
          >
            Newest
          </Button>
        )}
      </div>
      <div className={classes["below"]}>
        <PlannerNote />
        <Composer boxRef={box} text={text} onText={setText} onSend={send} />
      </div>
    </div>
  );
}

/** Focuses the box with the caret after its text: what is typed next goes on from there. */
function goOnWriting(box: HTMLTextAreaElement | null): void {
  if (box === null) return;
  box.focus({ preventScroll: true });
  box.setSelectionRange(box.value.length, box.value.length);
  box.scrollTop = box.scrollHeight;
}
