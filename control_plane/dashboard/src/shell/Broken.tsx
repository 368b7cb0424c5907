/** A view that failed: what happened, and how to go on without losing the rest of the page. */
import { Button } from "@mantine/core";
import type { ErrorComponentProps } from "@tanstack/react-router";
import { messageOf } from "../api/errors.ts";
import { ErrorState } from "../ui/ErrorState.tsx";
import { Page } from "../ui/Page.tsx";
import { PageHeader } from "../ui/PageHeader.tsx";

export function Broken({ error, reset }: ErrorComponentProps) {
  return (
    <Page>
      <PageHeader title="Something broke" />
      <ErrorState error={shown(error)} onRetry={reset}>
        <Button variant="default" size="sm" onClick={() => location.reload()}>
          Reload the page
        </Button>
      </ErrorState>
    </Page>
  );
}

/** A view's code that cannot be fetched any more belongs to an older version of the page. */
function shown(error: unknown): Error {
  const message = messageOf(error);
  return /dynamically imported module|module script|preload CSS/i.test(message)
    ? new Error("cannot load this view: the server has a newer page, or is away; reload the page")
    : new Error(`cannot show this view: ${message}`);
}
