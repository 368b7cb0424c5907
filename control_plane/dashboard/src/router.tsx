/** Which address shows which view; each view is loaded when it is first gone to. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";
import { Broken } from "./shell/Broken.tsx";
import { NotFound } from "./shell/NotFound.tsx";
import { Shell } from "./shell/Shell.tsx";
import { STAGES, type Stage } from "./tickets/stages.ts";

const root = createRootRoute({
  component: Shell,
  errorComponent: Broken,
  notFoundComponent: NotFound,
});

const index = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/chat", replace: true });
  },
});

/** Signing in is done before the router starts; what is left of its address is the way in. */
const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  beforeLoad: () => {
    throw redirect({ to: "/chat", replace: true });
  },
});

export interface ChatSearch {
  /** What the message box begins with. */
  text?: string;
}

const chat = createRoute({
  getParentRoute: () => root,
  path: "/chat",
  validateSearch: (search): ChatSearch => optional("text", search["text"]),
  component: lazyRouteComponent(() => import("./chat/ChatPage.tsx"), "ChatPage"),
});

export interface MachinesSearch {
  /** The dialog that adds a machine is open. */
  add?: boolean;
}

const machines = createRoute({
  getParentRoute: () => root,
  path: "/machines",
  validateSearch: (search): MachinesSearch => (search["add"] === true ? { add: true } : {}),
  component: lazyRouteComponent(() => import("./machines/MachinesPage.tsx"), "MachinesPage"),
});

export interface TicketsSearch {
  stage?: Stage;
  q?: string;
}

const tickets = createRoute({
  getParentRoute: () => root,
  path: "/tickets",
  validateSearch: (search): TicketsSearch => ({
    ...(STAGES.includes(search["stage"] as Stage) ? { stage: search["stage"] as Stage } : {}),
    ...optional("q", search["q"]),
  }),
  component: lazyRouteComponent(() => import("./tickets/TicketsPage.tsx"), "TicketsPage"),
});

const ticket = createRoute({
  getParentRoute: () => root,
  path: "/tickets/$ticketId",
  component: lazyRouteComponent(() => import("./tickets/TicketPage.tsx"), "TicketPage"),
});

function optional<Name extends string>(name: Name, value: unknown): { [key in Name]?: string } {
  const given = typeof value === "number" ? String(value) : value;
  return typeof given === "string" && given !== ""
    ? ({ [name]: given } as { [key in Name]?: string })
    : {};
}

export const router = createRouter({
  routeTree: root.addChildren([index, signIn, chat, machines, tickets, ticket]),
  scrollRestoration: true,
  // What a view does not ask for is not in its address: a link from elsewhere may hold anything.
  search: { strict: true },
  defaultPreload: "intent",
  // The code of a view is there in a moment: showing the old one for so long is calmer.
  defaultPendingMs: 400,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
