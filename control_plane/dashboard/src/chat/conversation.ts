/** The one conversation of the page: read, kept fresh, written to. */
import { type QueryClient, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { api, got } from "../api/client.ts";
import { keys } from "../api/keys.ts";
import { currentSession, watchSession } from "../session/session.ts";
import { type History, withNewest, withOlder } from "./history.ts";
import { Outbox, type Outgoing } from "./outgoing.ts";

const CONVERSATION = "main";
const PAGE = 50;
const QUERY_KEY = [...keys.chat, CONVERSATION];

let outbox: Outbox | null = null;

/** The messages on their way live as long as the page, whichever view is shown. */
function theOutbox(): Outbox {
  if (outbox !== null) return outbox;
  const made = new Outbox({
    post: ({ id, text }) =>
      got(
        api.POST("/v1/chat", {
          body: { text, conversation: CONVERSATION, client_message_id: id },
        }),
      ),
    storage: sessionStorage,
  });
  watchSession(() => {
    if (currentSession().state === "signed_out") made.clear();
  });
  made.resume();
  outbox = made;
  return made;
}

export interface Conversation {
  /** Undefined until it was read once. */
  readonly history: History | undefined;
  readonly outgoing: readonly Outgoing[];
  readonly error: unknown;
  readonly reload: () => Promise<unknown>;
  readonly outbox: Outbox;
  readonly older: {
    readonly load: () => void;
    readonly isLoading: boolean;
    readonly error: unknown;
  };
}

export function useConversation(): Conversation {
  const queries = useQueryClient();
  const sending = theOutbox();
  const query = useQuery({
    queryKey: QUERY_KEY,
    queryFn: async ({ signal }) => {
      const newest = await readPage(null, signal);
      // What was known is taken now, not before: older items may have come meanwhile.
      return withNewest(queries.getQueryData<History>(QUERY_KEY), newest);
    },
  });
  const outgoing = useSyncExternalStore(sending.watch, sending.current);
  const history = query.data;
  useEffect(() => {
    if (history === undefined) return;
    sending.settle(new Set(history.items.flatMap((item) => item.client_message_id ?? [])));
  }, [history, sending]);
  return {
    history,
    outgoing,
    error: history === undefined ? query.error : null,
    reload: query.refetch,
    outbox: sending,
    older: useOlder(queries, history),
  };
}

function useOlder(queries: QueryClient, history: History | undefined): Conversation["older"] {
  const [isLoading, setLoading] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const cursor = history?.next_cursor ?? null;
  return useMemo(
    () => ({
      isLoading,
      error,
      load: () => {
        if (isLoading || cursor === null) return;
        setLoading(true);
        setError(null);
        readPage(cursor)
          .then((older) => {
            queries.setQueryData<History>(QUERY_KEY, (known) =>
              known === undefined ? known : withOlder(known, older, cursor),
            );
          })
          .catch(setError)
          .finally(() => setLoading(false));
      },
    }),
    [queries, cursor, isLoading, error],
  );
}

function readPage(cursor: string | null, signal?: AbortSignal): Promise<History> {
  return got(
    api.GET("/v1/chat", {
      ...(signal === undefined ? {} : { signal }),
      params: {
        query: {
          conversation: CONVERSATION,
          limit: PAGE,
          ...(cursor === null ? {} : { cursor }),
        },
      },
    }),
  );
}
