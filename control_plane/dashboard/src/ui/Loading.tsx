/** The shape of what is coming: as tall as it will be, quiet, and only after a moment. */
import { VisuallyHidden } from "@mantine/core";
import classes from "./states.module.css";

interface LoadingProps {
  /** What is loading, for screen readers. */
  what: string;
  rows?: number;
  rowHeight?: number;
  columns?: boolean;
}

export function Loading({ what, rows = 3, rowHeight = 72, columns = false }: LoadingProps) {
  return (
    <div className={columns ? classes["loadingColumns"] : classes["loading"]}>
      <VisuallyHidden role="status">Loading {what}</VisuallyHidden>
      {Array.from({ length: rows }, (_, index) => (
        <div
          // biome-ignore lint/suspicious/noArrayIndexKey: the bars are alike and never move
          key={index}
          aria-hidden="true"
          className={classes["bar"]}
          style={{ height: rowHeight }}
        />
      ))}
    </div>
  );
}
