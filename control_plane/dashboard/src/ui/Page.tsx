/** The column of a view that lists things: at most 1100 px, with the page's margins. */
import type { ReactNode } from "react";
import classes from "./Page.module.css";

export function Page({ children }: { children: ReactNode }) {
  return <div className={classes["page"]}>{children}</div>;
}
