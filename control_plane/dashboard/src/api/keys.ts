/** The names of the page's queries: `src/live` reads them anew when an event says so. */

export type QueryKey = readonly string[];

export const keys = {
  me: ["me"],
  chat: ["chat"],
  /** All listings of tickets; a listing appends its filters. */
  tickets: ["tickets"],
  anyTicket: ["ticket"],
  ticket: (id: string) => ["ticket", id] as const,
  /** All listings of machines, and single ones appended by id. */
  machines: ["machines"],
  /** All listings of commands; a listing appends the machine. */
  commands: ["commands"],
  questions: ["questions"],
  /** Enrolment codes, each appended by id. */
  codes: ["codes"],
} as const;
