/** A moment: local time to read, UTC on hover and for screen readers. */
import { VisuallyHidden } from "@mantine/core";
import { useNow } from "./now.ts";
import { ago, countdown, localTime, utcTime } from "./times.ts";

interface TimeProps {
  /** As the API says it: ISO 8601. */
  at: string;
  /** A clock time (default), or how long ago. */
  as?: "clock" | "ago";
}

export function Time({ at, as = "clock" }: TimeProps) {
  const date = new Date(at);
  const exact = utcTime(date);
  return (
    <time dateTime={at} title={as === "ago" ? `${localTime(date, new Date())} · ${exact}` : exact}>
      {as === "ago" ? <Ago date={date} /> : localTime(date, new Date())}
      <VisuallyHidden component="span">, {exact}</VisuallyHidden>
    </time>
  );
}

function Ago({ date }: { date: Date }) {
  return <span>{ago(date, useNow())}</span>;
}

/** The time left until a moment, counting down each second; silent for screen readers. */
export function Countdown({ until }: { until: string }) {
  const left = new Date(until).getTime() - useNow();
  return (
    <span role="timer" aria-live="off" title={utcTime(new Date(until))}>
      {countdown(left)}
    </span>
  );
}
