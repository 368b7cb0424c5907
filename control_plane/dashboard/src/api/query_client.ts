/** Makes the page's store of what it has read from the server. */
import { QueryClient } from "@tanstack/react-query";
import { RequestError } from "./errors.ts";

export function createQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        // Events say when something is stale; time does not.
        staleTime: Number.POSITIVE_INFINITY,
        gcTime: 10 * 60_000,
        // The page may be served by this very machine: the browser's idea of "online" is no measure.
        networkMode: "always",
        refetchOnWindowFocus: false,
        refetchOnReconnect: false,
        // When the server comes back, the event stream has everything read anew.
        retry: (tries, error) => tries < 2 && error instanceof RequestError && error.retryable,
        retryDelay: (tries) => 200 * 2 ** tries,
      },
      mutations: { networkMode: "always", retry: false },
    },
  });
}
