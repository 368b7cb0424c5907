/** One clock for everything on the page that counts: the current time, ticking each second. */
import { useSyncExternalStore } from "react";

const TICK_MS = 1000;

const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function tick(): void {
  now = Date.now();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (timer === undefined) {
    now = Date.now();
    timer = setInterval(tick, TICK_MS);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

function snapshot(): number {
  // Nobody listens yet on the first render: the last tick may be hours old.
  if (timer === undefined) now = Math.floor(Date.now() / TICK_MS) * TICK_MS;
  return now;
}

/** Return the time in milliseconds; a component that calls this renders once a second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, snapshot);
}
