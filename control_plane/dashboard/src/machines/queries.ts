/** What the page reads about machines and does with them; events have it read anew. */
import { queryOptions } from "@tanstack/react-query";
import { api, got, type Schemas } from "../api/client.ts";
import { keys } from "../api/keys.ts";

export type Machine = Schemas["Machine"];
export type CodeMade = Schemas["CodeMade"];
export type Command = Schemas["Command"];

export const machinesQuery = queryOptions({
  queryKey: [...keys.machines, "list"],
  queryFn: ({ signal }) => got(api.GET("/v1/machines", { signal })),
});

/** The commands of a machine that have not ended, in the order in which they were asked for. */
export function openCommandsQuery(machineId: string) {
  return queryOptions({
    queryKey: [...keys.commands, "open", machineId],
    queryFn: ({ signal }) =>
      got(
        api.GET("/v1/commands", {
          signal,
          params: { query: { machine_id: machineId, open: true, limit: 200 } },
        }),
      ),
  });
}

/** Whether a code was used, and by which machine. */
export function codeQuery(codeId: string) {
  return queryOptions({
    queryKey: [...keys.codes, codeId],
    queryFn: ({ signal }) => readCode(codeId, signal),
  });
}

export function readCode(codeId: string, signal?: AbortSignal): Promise<Schemas["Code"]> {
  return got(
    api.GET("/v1/machines/codes/{code_id}", {
      ...(signal === undefined ? {} : { signal }),
      params: { path: { code_id: codeId } },
    }),
  );
}

export function makeCode(name: string | null): Promise<CodeMade> {
  return got(api.POST("/v1/machines/codes", { body: name === null ? {} : { name } }));
}

export function confirmMachine(machine: Machine): Promise<Machine> {
  return got(
    api.POST("/v1/machines/{machine}/confirm", {
      params: { path: { machine: machine.id } },
      body: { words: machine.words },
    }),
  );
}

export function revokeMachine(machineId: string): Promise<Machine> {
  return got(
    api.POST("/v1/machines/{machine}/revoke", { params: { path: { machine: machineId } } }),
  );
}

export function renameMachine(machineId: string, name: string): Promise<Machine> {
  const params = { path: { machine: machineId } };
  return got(api.POST("/v1/machines/{machine}/rename", { params, body: { name } }));
}

export function labelMachine(
  machineId: string,
  changes: { add: string[]; remove: string[] },
): Promise<Machine> {
  const params = { path: { machine: machineId } };
  return got(api.POST("/v1/machines/{machine}/labels", { params, body: changes }));
}

/** Nothing more starts there; what runs goes on, what is queued waits. */
export function pauseMachine(machineId: string): Promise<Machine> {
  const params = { path: { machine: machineId } };
  return got(api.POST("/v1/machines/{machine}/pause", { params }));
}

export function resumeMachine(machineId: string): Promise<Machine> {
  const params = { path: { machine: machineId } };
  return got(api.POST("/v1/machines/{machine}/resume", { params }));
}
