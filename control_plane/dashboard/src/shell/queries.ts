/** Who this page is. */
import { queryOptions } from "@tanstack/react-query";
import { api, got } from "../api/client.ts";
import { keys } from "../api/keys.ts";

export const meQuery = queryOptions({
  queryKey: keys.me,
  queryFn: ({ signal }) => got(api.GET("/v1/me", { signal })),
});
