/** How a time is said: local, short, and never changing its width more than it must. */

const DAY_MS = 24 * 3600 * 1000;

function sameDay(a: Date, b: Date): boolean {
  return a.toDateString() === b.toDateString();
}

function clock(at: Date, locale: string | undefined): string {
  return at.toLocaleTimeString(locale, { hour: "numeric", minute: "2-digit" });
}

/** Return "14:02" today, "yesterday 14:02", "28 Nov, 14:02" this year, else with the year. */
export function localTime(at: Date, now: Date, locale?: string): string {
  const time = clock(at, locale);
  if (sameDay(at, now)) return time;
  if (sameDay(at, new Date(now.getTime() - DAY_MS))) return `yesterday ${time}`;
  if (sameDay(at, new Date(now.getTime() + DAY_MS))) return `tomorrow ${time}`;
  const date = at.toLocaleDateString(locale, {
    day: "numeric",
    month: "short",
    ...(at.getFullYear() === now.getFullYear() ? {} : { year: "numeric" }),
  });
  return `${date}, ${time}`;
}

/** Return "2026-11-30 13:02:07 UTC". */
export function utcTime(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** Return "9:41" below an hour, "3 h 05 min" below a day, "6 d 4 h" above; "0:00" once over. */
export function countdown(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 3600) return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`;
  const min = Math.floor(s / 60);
  if (min < 24 * 60) return `${Math.floor(min / 60)} h ${String(min % 60).padStart(2, "0")} min`;
  const h = Math.floor(min / 60);
  return `${Math.floor(h / 24)} d ${h % 24} h`;
}

/** Return how long ago, coarse: "just now", "20 s ago", "4 min ago", "3 h ago", "6 d ago". */
export function ago(at: Date, nowMs: number): string {
  const s = Math.floor((nowMs - at.getTime()) / 1000);
  if (s < 10) return "just now";
  if (s < 60) return `${Math.floor(s / 10) * 10} s ago`;
  const min = Math.floor(s / 60);
  if (min < 60) return `${min} min ago`;
  const h = Math.floor(min / 60);
  return h < 48 ? `${h} h ago` : `${Math.floor(h / 24)} d ago`;
}

/** Return how long something took: "under 0.1 s", "0.2 s", "14 s", "2 min 05 s", "1 h 12 min". */
export function duration(ms: number): string {
  if (ms < 50) return "under 0.1 s";
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return `${min} min ${String(s % 60).padStart(2, "0")} s`;
  return `${Math.floor(min / 60)} h ${String(min % 60).padStart(2, "0")} min`;
}
