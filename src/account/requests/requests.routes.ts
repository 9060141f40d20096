import { requestsOfAll } from "../../api/contract/admin-overall.ts";
import { requestsOfUser } from "../../api/contract/admin-users.ts";
import { type AgentNamesOf, agentIdsIn, withAgentNames } from "../../api/contract/agent-name.ts";
import { readPage } from "../../api/contract/common.ts";
import { createRouter, csvFile, json, type Router, serveBoth } from "../../api/contract/endpoint.ts";
import { ARCHIVED_HEADER } from "../../api/contract/ledger-export.ts";
import { listRequests, type ModelRequest } from "../../api/contract/requests.ts";
import { csvLine, csvLines } from "../ledger/csv.ts";
import type { Requests } from "./requests.service.ts";
import type { RequestRow } from "./requests.store.ts";

interface RequestsDeps {
  requests: Requests;
  agentNames: AgentNamesOf;
  /** Names of a user's API keys by id, revoked ones included. */
  keyNames(user_id: string, ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Requests of before this instant are in the operator's archive; null: none are. */
  archivedBefore(user_id: string): Promise<string | null>;
}

/** GET /api/v1/users/me/requests, and what operators see of it. */
export function requestsRoutes({ requests, agentNames, keyNames, archivedBefore }: RequestsDeps): Router {
  const router = createRouter();
  /** The rows of one user with the names of their agents and keys. */
  const named = async (user_id: string, rows: readonly RequestRow[]): Promise<ModelRequest[]> => {
    const [agents, keys] = await Promise.all([
      agentNames(user_id, agentIdsIn(rows)),
      keyNames(user_id, [...new Set(rows.flatMap(({ api_key_id }) => api_key_id ?? []))]),
    ]);
    return withAgentNames(rows.map(toRecord), agents).map((row) => ({
      ...row,
      api_key_name: keys.get(row.api_key_id ?? "") ?? null,
    }));
  };

  serveBoth(router, { own: listRequests, operators: requestsOfUser }, async (request) => {
    const { user_id } = request.caller;
    const { limit, cursor, format, ...filter } = request.query;
    const archived_before = await archivedBefore(user_id);
    if (format === "csv") {
      const pages = async function* () {
        for await (const rows of requests.all({ ...filter, user_id })) yield await named(user_id, rows);
      };
      const headers = archived_before === null ? {} : { [ARCHIVED_HEADER]: archived_before };
      return csvFile({ name: "requests", head: csvLine(COLUMNS), headers }, pages(), csvOf);
    }
    const { page, next_cursor } = await readPage({ limit, cursor }, (page_of) =>
      requests.list({ ...filter, user_id }, page_of),
    );
    const older = next_cursor === null && archived_before !== null ? { archived_before } : {};
    return json({ requests: await named(user_id, page), next_cursor, ...older });
  });
  router.on(requestsOfAll, async ({ query }) => {
    const { request_id } = query;
    const { page, next_cursor } = await readPage(query, (page_of) => requests.list({ request_id }, page_of));
    const of_users = await Promise.all(
      [...Map.groupBy(page, ({ user_id }) => user_id)].map(async ([user_id, own]) =>
        (await named(user_id, own)).map((row) => ({ ...row, user_id })),
      ),
    );
    const by_id = new Map(of_users.flat().map((row) => [row.id, row]));
    return json({ requests: page.flatMap(({ id }) => by_id.get(id) ?? []), next_cursor });
  });
  return router;
}

function toRecord(row: RequestRow) {
  const { user_id: _, http_status, error_code, error_message: message, param, ...call } = row;
  const status: ModelRequest["status"] =
    http_status === null ? "succeeded" : http_status >= 400 && http_status < 499 ? "rejected" : "failed";
  const error = error_code === null ? null : { code: error_code, message, param };
  const total_tokens = call.input_tokens + call.output_tokens;
  return { ...call, status, http_status: http_status ?? 200, error, total_tokens };
}

const COLUMNS = [
  "id",
  "request_id",
  "created_at",
  "api",
  "status",
  "http_status",
  "error_code",
  "error_message",
  "model",
  "user",
  "api_key_id",
  "api_key_name",
  "agent_id",
  "agent_name",
  "run_id",
  "input_tokens",
  "output_tokens",
  "cost_tokens",
  "duration_ms",
  "first_token_ms",
] as const;

/** A line for each request; texts from outside are defused. */
function csvOf(requests: readonly ModelRequest[]): string {
  const rows = requests.map(({ error, ...request }) => ({
    ...request,
    error_code: error?.code ?? null,
    error_message: error?.message ?? null,
  }));
  return csvLines(COLUMNS, rows);
}
