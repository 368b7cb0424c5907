/** A question answered where it stands: its options as buttons, or words of one's own. */
import { Button, TextInput } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useId, useState } from "react";
import { keys } from "../api/keys.ts";
import { ErrorLine } from "../ui/ErrorState.tsx";
import { Prose } from "../ui/Prose.tsx";
import { Time } from "../ui/Time.tsx";
import { answerQuestion, type Question } from "./answers.ts";
import classes from "./QuestionForm.module.css";

export function QuestionForm({ question }: { question: Question }) {
  const [settled, setSettled] = useState<Question | null>(null);
  const shown = settled ?? question;
  const textId = useId();
  return (
    <section
      className={classes["question"]}
      data-open={shown.state === "pending" || undefined}
      aria-labelledby={textId}
    >
      <div id={textId} className={classes["text"]}>
        <Prose text={shown.text} />
      </div>
      {shown.state === "pending" ? (
        <Answering question={shown} onSettled={setSettled} />
      ) : (
        <p className={classes["settled"]} role="status">
          {shown.state === "answered" && <IconCheck size={16} aria-hidden="true" />}
          <span>{outcomeOf(shown)}</span>
          {shown.settled_at !== null && (
            <span className={classes["when"]}>
              <Time at={shown.settled_at} />
            </span>
          )}
        </p>
      )}
    </section>
  );
}

interface AnsweringProps {
  question: Question;
  onSettled: (question: Question) => void;
}

function Answering({ question, onSettled }: AnsweringProps) {
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const [sending, setSending] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);

  async function answer(words: string): Promise<void> {
    setSending(words);
    setError(null);
    try {
      onSettled(await answerQuestion(question.id, words));
    } catch (failure) {
      setError(failure);
      // Somebody else may have answered: what is shown is read again.
      void queries.invalidateQueries({ queryKey: keys.chat });
    } finally {
      setSending(null);
    }
  }

  function submit(event: FormEvent): void {
    event.preventDefault();
    if (text.trim() !== "") void answer(text.trim());
  }

  return (
    <>
      {question.options.length > 0 && (
        <div className={classes["options"]}>
          {question.options.map((option) => (
            <Button
              key={option}
              size="sm"
              variant={option === question.default_option ? "filled" : "default"}
              className={classes["option"] ?? ""}
              loading={sending === option}
              disabled={sending !== null && sending !== option}
              onClick={() => void answer(option)}
            >
              {option}
            </Button>
          ))}
        </div>
      )}
      <form className={classes["own"]} onSubmit={submit}>
        <TextInput
          className={classes["field"] ?? ""}
          aria-label={question.options.length > 0 ? "Another answer" : "Answer"}
          placeholder={question.options.length > 0 ? "Or say it in your own words" : "Your answer"}
          value={text}
          maxLength={20_000}
          disabled={sending !== null}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <Button
          type="submit"
          size="sm"
          h={36}
          variant="default"
          disabled={text.trim() === ""}
          loading={sending !== null && sending === text.trim()}
        >
          Answer
        </Button>
      </form>
      <ErrorLine error={error} />
      {question.if_unanswered !== "" && (
        <p className={classes["else"]}>If nobody answers: {question.if_unanswered}</p>
      )}
    </>
  );
}

function outcomeOf(question: Question): string {
  switch (question.state) {
    case "answered":
      return `Answered: ${question.answer ?? ""}`;
    case "denied":
      return "Left undecided";
    case "expired":
      return "Nobody answered in time";
    default:
      return "No longer asked";
  }
}
