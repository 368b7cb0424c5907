/**
 * What of the browser's connections this tab may keep open.
 *
 * A browser opens six connections to a server that speaks HTTP/1.1, for all its tabs together. Streams
 * would soon hold them all, and then no tab could even ask for anything. So the tab that a person
 * turned to last has most, the one before has some, and the others ask now and then.
 */
export interface Share {
  /** It follows the events; else it asks now and then. */
  readonly events: boolean;
  /** How many outputs it may stream. */
  readonly outputs: number;
}

/** By how many tabs were turned to since: five connections at most, and one for requests. */
const SHARES: readonly Share[] = [
  { events: true, outputs: 2 },
  { events: true, outputs: 1 },
];
const NOTHING: Share = { events: false, outputs: 0 };

export interface TabsParts {
  /** Names this tab among the others. */
  readonly id: string;
  /** Says something to all other tabs; they `hear` it. */
  readonly tell: (message: unknown) => void;
  readonly onChange: () => void;
}

export class Tabs {
  readonly #parts: TabsParts;
  /** Tabs that a person turned to after this one; null: never to this one (opened in the background). */
  #ahead: Set<string> | null = null;

  constructor(parts: TabsParts) {
    this.#parts = parts;
  }

  get share(): Share {
    return (this.#ahead && SHARES[this.#ahead.size]) ?? NOTHING;
  }

  /** A person looks at this tab now. */
  turnedTo(): void {
    const before = this.share;
    this.#ahead = new Set();
    this.#parts.tell({ id: this.#parts.id, is: "ahead" });
    if (this.share !== before) this.#parts.onChange();
  }

  /** This tab is closed or goes elsewhere. */
  leave(): void {
    this.#parts.tell({ id: this.#parts.id, is: "gone" });
  }

  /** Takes what another tab told; it may be of another version of the page. */
  hear(message: unknown): void {
    if (this.#ahead === null || typeof message !== "object" || message === null) return;
    const { id, is } = message as { id?: unknown; is?: unknown };
    if (typeof id !== "string" || id === this.#parts.id) return;
    const before = this.share;
    if (is === "ahead") this.#ahead.add(id);
    if (is === "gone") this.#ahead.delete(id);
    if (this.share !== before) this.#parts.onChange();
  }
}

/** Watches this browser's tabs; `changed` is called when this one's share is another. */
export function watchTabs(changed: () => void): { readonly share: Share } {
  if (isMultiplexed() || typeof BroadcastChannel === "undefined") {
    return { share: { events: true, outputs: 2 } };
  }
  const channel = new BroadcastChannel("farhand.tabs");
  const bytes = crypto.getRandomValues(new Uint32Array(2));
  let isBegun = false; // what this tab begins with is no change
  const tabs = new Tabs({
    id: bytes.join("-"),
    tell: (message) => channel.postMessage(message),
    onChange: () => {
      if (isBegun) changed();
    },
  });
  channel.onmessage = (event) => tabs.hear(event.data);
  const look = () => {
    if (document.visibilityState === "visible") tabs.turnedTo();
  };
  document.addEventListener("visibilitychange", look);
  addEventListener("focus", look);
  addEventListener("pagehide", () => tabs.leave());
  look();
  isBegun = true;
  return tabs;
}

/** True over HTTP/2 and later, where requests share one connection. */
function isMultiplexed(): boolean {
  const [entry] = performance.getEntriesByType("navigation");
  const { nextHopProtocol } = (entry ?? {}) as Partial<PerformanceNavigationTiming>;
  return nextHopProtocol === "h2" || nextHopProtocol === "h3";
}
