/** What the page reads about tickets; events have it read anew. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, got, type Schemas } from "../api/client.ts";
import { keys } from "../api/keys.ts";
import type { Stage } from "./stages.ts";

export type Ticket = Schemas["Ticket"];
export type TicketWithAll = Schemas["TicketWithAll"];

const PAGE = 50;

export function ticketsQuery(stage: Stage | undefined) {
  return infiniteQueryOptions({
    queryKey: [...keys.tickets, "list", stage ?? "all"],
    queryFn: ({ pageParam, signal }) =>
      got(
        api.GET("/v1/tickets", {
          signal,
          params: {
            query: {
              limit: PAGE,
              ...(stage === undefined ? {} : { stage }),
              ...(pageParam === null ? {} : { cursor: pageParam }),
            },
          },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    placeholderData: keepPreviousData,
  });
}

/** For the number beside "Tickets". */
export const ticketsThatNeedPeopleQuery = queryOptions({
  queryKey: [...keys.tickets, "need-people"],
  queryFn: ({ signal }) =>
    got(
      api.GET("/v1/tickets", {
        signal,
        params: { query: { stage: "needs_person", limit: 100 } },
      }),
    ),
});

export function ticketQuery(ticketId: string) {
  return queryOptions({
    queryKey: keys.ticket(ticketId),
    queryFn: ({ signal }) =>
      got(
        api.GET("/v1/tickets/{ticket_id}", { signal, params: { path: { ticket_id: ticketId } } }),
      ),
  });
}

export function stopTicket(ticketId: string): Promise<TicketWithAll> {
  return got(
    api.POST("/v1/tickets/{ticket_id}/stop", {
      params: { path: { ticket_id: ticketId } },
      body: { reason: "" },
    }),
  );
}

export function acceptTicket(ticketId: string): Promise<TicketWithAll> {
  return got(
    api.POST("/v1/tickets/{ticket_id}/accept", { params: { path: { ticket_id: ticketId } } }),
  );
}
