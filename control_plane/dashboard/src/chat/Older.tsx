/** Reads what was said before, as soon as the reader comes near the top. */
import { Button } from "@mantine/core";
import { useEffect, useRef } from "react";
import { ErrorLine } from "../ui/ErrorState.tsx";
import type { Conversation } from "./conversation.ts";
import classes from "./Older.module.css";

const NEAR_PX = 800;

export function Older({ isMore, older }: { isMore: boolean; older: Conversation["older"] }) {
  const mark = useRef<HTMLDivElement>(null);
  const { load, isLoading, error } = older;
  useEffect(() => {
    const element = mark.current;
    if (!isMore || element === null || isLoading || error !== null) return;
    const observer = new IntersectionObserver(
      (seen) => {
        if (seen.some((one) => one.isIntersecting)) load();
      },
      { root: element.closest("[data-scroller]"), rootMargin: `${NEAR_PX}px 0px 0px` },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, [isMore, isLoading, error, load]);
  return (
    <div ref={mark} className={classes["older"]}>
      {error !== null ? (
        <>
          <ErrorLine error={error} />
          <Button size="compact-sm" h={28} variant="default" onClick={load}>
            Read older messages
          </Button>
        </>
      ) : isMore ? (
        <span>Reading older messages…</span>
      ) : (
        <span>The conversation begins here.</span>
      )}
    </div>
  );
}
