/** The page kept up to date: one event stream per page, closed while nobody looks or too many do. */
import type { QueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { openStream } from "../api/client.ts";
import { forgetOutputs, limitOutputs, reconnectOutputs } from "../output/output_store.ts";
import { currentSession, watchSession } from "../session/session.ts";
import { affectedBy } from "./affected.ts";
import { EventStream, type LiveEvent } from "./event_stream.ts";
import { Refresher } from "./refresher.ts";
import { watchTabs } from "./tabs.ts";

/** A tab in the background needs no connection; a short look elsewhere should not cost one. */
const HIDDEN_MS = 60_000;
/** So often a tab asks that is seen beside others and has no connection of its own. */
const ASK_MS = 10_000;

const changes = new Set<() => void>();
const listeners = new Set<(event: LiveEvent) => void>();
let stream: EventStream | null = null;

/** Keeps `queries` fresh while this page is signed in. Call once, at the start of the page. */
export function startLive(queries: QueryClient): void {
  const refresher = new Refresher((key) =>
    queries.invalidateQueries(key === null ? {} : { queryKey: key }),
  );
  const live = new EventStream({
    open: (after, signal) =>
      openStream("/v1/events", signal, after === null ? {} : { "Last-Event-ID": String(after) }),
    onEvent: (event) => {
      const affected = affectedBy(event);
      if (affected === null) refresher.add(null);
      else for (const key of affected) refresher.add(key);
      for (const hear of listeners) hear(event);
    },
    onGap: () => refresher.add(null),
    onBack: reconnectOutputs,
    onChange: () => {
      for (const changed of changes) changed();
    },
  });
  stream = live;

  let hidden: ReturnType<typeof setTimeout> | undefined;
  let asking: ReturnType<typeof setInterval> | undefined;
  const follow = () => {
    clearTimeout(hidden);
    clearInterval(asking);
    limitOutputs(tabs.share.outputs);
    if (currentSession().state !== "signed_in") {
      live.stop();
      queries.clear();
      forgetOutputs();
    } else if (!tabs.share.events) {
      live.stop();
      asking = setInterval(() => {
        if (document.visibilityState === "visible") refresher.add(null);
      }, ASK_MS);
    } else if (document.visibilityState === "visible") {
      live.start();
    } else {
      hidden = setTimeout(() => live.stop(), HIDDEN_MS);
    }
  };
  const tabs = watchTabs(follow);
  watchSession(follow);
  document.addEventListener("visibilitychange", follow);
  follow();
}

/** True while the server has been away for more than a moment. */
export function useReconnecting(): boolean {
  return useSyncExternalStore(
    (changed) => {
      changes.add(changed);
      return () => changes.delete(changed);
    },
    () => stream?.isReconnecting ?? false,
  );
}

/** Calls back with each event while the component is shown; pass a stable function. */
export function useLiveEvents(hear: (event: LiveEvent) => void): void {
  useEffect(() => {
    listeners.add(hear);
    return () => {
      listeners.delete(hear);
    };
  }, [hear]);
}
