/** The message box: Enter sends, Shift+Enter begins a line; what is written survives a reload. */
import { ActionIcon, Textarea } from "@mantine/core";
import { IconArrowUp } from "@tabler/icons-react";
import { type KeyboardEvent, type RefObject, useEffect, useId, useState } from "react";
import classes from "./Composer.module.css";
import { refusalOf, storeDraft } from "./draft.ts";

interface ComposerProps {
  boxRef: RefObject<HTMLTextAreaElement | null>;
  text: string;
  onText: (text: string) => void;
  onSend: (text: string) => void;
}

export function Composer({ boxRef, text, onText, onSend }: ComposerProps) {
  const hintId = useId();
  const [isTouch] = useState(() => matchMedia("(pointer: coarse)").matches);
  const refusal = refusalOf(text);
  const canSend = text.trim() !== "" && refusal === null;
  useEffect(() => storeDraft(text), [text]);

  function send(): void {
    if (!canSend) return;
    onSend(text.trim());
    boxRef.current?.focus();
  }

  function onKeyDown(event: KeyboardEvent): void {
    if (event.key !== "Enter" || event.shiftKey || event.altKey) return;
    // Enter that chooses a word of an input method is not for us; a phone has a button to send.
    if (event.nativeEvent.isComposing || isTouch) return;
    event.preventDefault();
    send();
  }

  return (
    <form
      className={classes["composer"]}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <div className={classes["box"]} data-wrong={refusal !== null || undefined}>
        <Textarea
          ref={boxRef}
          className={classes["field"] ?? ""}
          classNames={{ input: classes["input"] ?? "" }}
          variant="unstyled"
          aria-label="Message"
          aria-describedby={hintId}
          aria-invalid={refusal !== null}
          placeholder="Ask for something to be done"
          autosize
          minRows={1}
          maxRows={10}
          value={text}
          onChange={(event) => onText(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        <ActionIcon
          type="submit"
          className={classes["send"] ?? ""}
          variant="filled"
          color="tide"
          size={36}
          aria-label="Send"
          disabled={!canSend}
        >
          <IconArrowUp size={20} />
        </ActionIcon>
      </div>
      <p id={hintId} className={classes["hint"]} role={refusal === null ? undefined : "alert"}>
        {refusal ?? (isTouch ? "" : "Enter sends, Shift+Enter begins a new line")}
      </p>
    </form>
  );
}
