/** Nothing here yet: says so, and what to do next. */
import type { ReactNode } from "react";
import classes from "./states.module.css";

interface EmptyProps {
  icon: ReactNode;
  title: string;
  children?: ReactNode;
  /** What to press next. */
  action?: ReactNode;
}

export function Empty({ icon, title, children, action }: EmptyProps) {
  return (
    <div className={classes["empty"]}>
      <div className={classes["emblem"]} aria-hidden="true">
        {icon}
      </div>
      <p className={classes["title"]}>{title}</p>
      {children !== undefined && <div className={classes["words"]}>{children}</div>}
      {action !== undefined && <div className={classes["action"]}>{action}</div>}
    </div>
  );
}
