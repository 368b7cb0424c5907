/** Something could not be had: the reason as the server words it, and a way to try again. */
import { Button } from "@mantine/core";
import { IconAlertTriangle, IconRefresh } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import { errorText } from "./errors.ts";
import classes from "./states.module.css";

interface ErrorStateProps {
  error: unknown;
  onRetry?: () => unknown;
  /** Other ways on, after "Try again". */
  children?: ReactNode;
}

export function ErrorState({ error, onRetry, children }: ErrorStateProps) {
  const [trying, setTrying] = useState(false);

  async function retry(): Promise<void> {
    setTrying(true);
    try {
      await onRetry?.();
    } finally {
      setTrying(false);
    }
  }

  return (
    <div className={classes["failed"]} role="alert">
      <IconAlertTriangle size={20} className={classes["failedIcon"]} aria-hidden="true" />
      <div className={classes["failedBody"]}>
        <p>{errorText(error)}</p>
        {(onRetry !== undefined || children !== undefined) && (
          <div className={classes["failedActions"]}>
            {onRetry !== undefined && (
              <Button
                variant="default"
                size="sm"
                leftSection={<IconRefresh size={16} />}
                loading={trying}
                onClick={() => void retry()}
              >
                Try again
              </Button>
            )}
            {children}
          </div>
        )}
      </div>
    </div>
  );
}

/** One line of trouble beside what was tried: announced, and no taller than its text. */
export function ErrorLine({ error }: { error: unknown }) {
  if (error === null || error === undefined) return null;
  return (
    <p className={classes["errorLine"]} role="alert">
      <IconAlertTriangle size={16} aria-hidden="true" />
      <span>{errorText(error)}</span>
    </p>
  );
}
