/** The top of a view: its name as the page's heading and title, what it is for, what one can do. */
import { type ReactNode, useEffect } from "react";
import classes from "./PageHeader.module.css";

interface PageHeaderProps {
  title: string;
  /** Above the title: the way back. */
  above?: ReactNode;
  children?: ReactNode;
  actions?: ReactNode;
  /** On a narrow screen the actions come last. */
  stacked?: boolean;
}

export function PageHeader({ title, above, children, actions, stacked = false }: PageHeaderProps) {
  useTitle(title);
  return (
    <header className={classes["header"]}>
      {above}
      <div className={classes["row"]} data-stacked={stacked || undefined}>
        <h1 className={classes["title"]}>{title}</h1>
        {children !== undefined && <div className={classes["about"]}>{children}</div>}
        {actions !== undefined && <div className={classes["actions"]}>{actions}</div>}
      </div>
    </header>
  );
}

/** Name the document after what it shows. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Farhand`;
  }, [title]);
}
