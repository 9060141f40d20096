import { infiniteQueryOptions, notifyManager, QueryClient, queryOptions } from "@tanstack/react-query";
import { hasEnded, type RunStatus } from "../run-words.ts";
import { type Answer, type CallOptions, call, type EndpointName } from "./client.ts";
import { ApiError } from "./problem.ts";

/** Queries of the pages. Each key begins with a name, and a change marks the queries under a name as stale. */

export type Agent = Answer<"GET /api/v1/agents/{id}">;
export type Run = Answer<"GET /api/v1/agents/{id}/runs">["runs"][number];
export type RunDetail = Answer<"GET /api/v1/agents/{id}/runs/{run_id}">;
export type Schedule = Answer<"GET /api/v1/agents/{id}/schedules/{schedule_id}">;
export type Trigger = Answer<"GET /api/v1/agents/{id}/triggers/{trigger_id}">;
export type AgentVersion = Answer<"GET /api/v1/agents/{id}/versions">["versions"][number];
export type AgentTemplate = Answer<"GET /api/v1/agent-templates">["templates"][number];
export type FoundRun = Extract<Answer<"GET /api/v1/runs">, object>["runs"][number];
/** What a run asks its user. */
export type Action = Run["required_actions"][number];
/** An action with its decision. */
export type Decided = RunDetail["decisions"][number];
export type Step = RunDetail["steps"][number];
export type Secret = Answer<"GET /api/v1/secrets/{id}">;
export type ApiKey = Answer<"GET /api/v1/api-keys">["api_keys"][number];
export type EndUserBudget = Answer<"GET /api/v1/end-user-budgets">["end_user_budgets"][number];
export type UsageSummary = Exclude<Answer<"GET /api/v1/users/me/usage">, undefined>;
export type Transaction = Answer<"GET /api/v1/users/me/transactions">["transactions"][number];
export type Plan = Answer<"GET /api/v1/billing/plans">["plans"][number];

/** Entries in a page of a list, and the most that the API returns at once. */
const PAGE = 25;
export const MOST = 100;
/** Runs and conversations in the result of a search over everything. */
const FOUND = 6;
/** A menu offers at most this many full pages. */
const MENU_PAGES = 10;
/** How often a run is reloaded that can change without an event. */
const UNSEEN_MS = 5000;
/** How often a list with unfinished runs is reloaded. */
const LIVE_LIST_MS = 2000;
/** How often the newest runs are reloaded when all have ended. */
const IDLE_LIST_MS = 15_000;

// A button is disabled before the next event, so the second click of a double click creates nothing.
notifyManager.setScheduler(queueMicrotask);

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // An answer of the service is final; only requests without an answer are repeated.
      retry: (failures, error) => failures < 2 && error instanceof ApiError && error.problem.status === 0,
    },
    // Without a network the request fails and the form says so.
    mutations: { networkMode: "always" },
  },
});

/** Reloads all queries under these names. */
export function stale(...names: string[]): Promise<unknown> {
  return Promise.all(names.map((name) => queryClient.invalidateQueries({ queryKey: [name] })));
}

export const profileQuery = queryOptions({
  queryKey: ["profile"],
  queryFn: ({ signal }) => call("GET /api/v1/users/me", { signal }),
});

/** The service at a glance, for operators. It changes without an event. */
export const overviewQuery = (window: "24h" | "7d" = "24h") =>
  queryOptions({
    queryKey: ["operator", "overview", window],
    queryFn: ({ signal }) => call("GET /api/v1/admin/overview", { query: { window }, signal }),
    refetchInterval: 30_000,
  });

/** The sign-up settings of the service, and the signed-in user. */
export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => call("GET /api/v1/auth/get-session", { signal }),
});

export const modelsQuery = queryOptions({
  queryKey: ["models"],
  queryFn: async ({ signal }) =>
    (await call("GET /api/v1/models", { signal })).data.filter(({ kind }) => kind === "chat"),
  staleTime: 300_000,
});

/** What a program can name as `model`: models, `auto` and the user's agents. */
const CALLABLE = ["chat", "auto", "agent"];
export const callableModelsQuery = queryOptions({
  queryKey: ["agents", "as models"],
  queryFn: async ({ signal }) =>
    (await call("GET /api/v1/models", { signal })).data.filter(({ kind }) => CALLABLE.includes(kind)),
});

export type Model = Answer<"GET /api/v1/models">["data"][number];
/** The models that have a price, as the API sorts them. */
export const pricesQuery = queryOptions({
  queryKey: ["models", "prices"],
  queryFn: async ({ signal }) =>
    (await call("GET /api/v1/models", { signal })).data.filter(({ kind }) => kind === "chat" || kind === "embedding"),
  staleTime: 300_000,
});

export const usageQuery = (days: number) =>
  queryOptions({
    queryKey: ["usage", days],
    queryFn: ({ signal }) => call("GET /api/v1/users/me/usage", { query: { days }, signal }),
  });

export type UsageBreakdown = Exclude<Answer<"GET /api/v1/users/me/usage/breakdown">, undefined>;
/** The usage of some days by one or two dimensions. `query` is the API's, with pairs such as `metadata[name]`. */
export const usageBreakdownQuery = (query: Record<string, unknown>) =>
  queryOptions({
    queryKey: ["usage", "breakdown", query],
    queryFn: ({ signal }) => call("GET /api/v1/users/me/usage/breakdown", { query: query as never, signal }),
  });

/** Agents whose name contains a text. */
export const foundAgentsQuery = (name: string) =>
  queryOptions({
    queryKey: ["agents", "found", name],
    queryFn: ({ signal }) =>
      call("GET /api/v1/agents", { query: { limit: PAGE, ...(name === "" ? {} : { name }) }, signal }),
  });
/** Agents that run next by schedule. */
export const nextRunsQuery = (limit: number) =>
  queryOptions({
    queryKey: ["agents", "next runs", limit],
    queryFn: async ({ signal }) =>
      (await call("GET /api/v1/agents", { query: { limit, sort: "next_run_at" }, signal })).agents,
  });
/** The agents whose last run failed or had errors, or with a schedule that fails or is paused, and whether there are more. */
export const troubledAgentsQuery = queryOptions({
  queryKey: ["agents", "troubled"],
  queryFn: async ({ signal }) => {
    const query = { limit: MOST, needs_attention: "true" } as const;
    const { agents, next_cursor } = await call("GET /api/v1/agents", { query, signal });
    return { agents, more: next_cursor !== null };
  },
});
export const anyAgentQuery = queryOptions({
  queryKey: ["agents", "any"],
  queryFn: async ({ signal }) => (await call("GET /api/v1/agents", { query: { limit: 1 }, signal })).agents.length > 0,
});
/** All names of secrets, for menus. `complete` is false if there are more than a menu can offer. */
export const secretNamesQuery = queryOptions({
  queryKey: ["secrets", "names"],
  queryFn: async ({ signal }) => {
    const names: string[] = [];
    let pages = 0;
    let complete = false;
    for await (const { rows, next_cursor } of pagesOf((query) => fetchSecrets(query, signal))) {
      names.push(...rows.map(({ name }) => name));
      complete = next_cursor === null;
      pages += 1;
      if (pages === MENU_PAGES) break;
    }
    return { names, complete };
  },
});

/** The agents whose tools use this secret. */
export const agentsWithSecretQuery = (name: string) =>
  queryOptions({
    queryKey: ["agents", "with secret", name],
    queryFn: async ({ signal }) => {
      const found: { id: string; name: string }[] = [];
      for await (const { rows } of pagesOf((query) => fetchAgents(query, signal))) {
        const using = rows.filter(({ secrets_used }) => secrets_used.some((used) => isSameName(used, name)));
        found.push(...using.map((agent) => ({ id: agent.id, name: agent.name })));
      }
      return found;
    },
    staleTime: 0,
  });
/** Names of secrets differ in more than case. */
const isSameName = (one: string, other: string) => one.localeCompare(other, undefined, { sensitivity: "accent" }) === 0;

export const agentQuery = (id: string) =>
  queryOptions({
    queryKey: ["agents", id],
    queryFn: ({ signal }) => call("GET /api/v1/agents/{id}", { params: { id }, signal }),
  });

/** All schedules of an agent: the API allows fewer than a page has. */
export const schedulesQuery = (id: string) =>
  queryOptions({
    queryKey: ["agents", id, "schedules"],
    queryFn: async ({ signal }) => {
      const options = { params: { id }, query: { limit: MOST }, signal };
      return (await call("GET /api/v1/agents/{id}/schedules", options)).schedules;
    },
  });

/** All triggers of an agent: the API allows fewer than a page has. */
export const triggersQuery = (id: string) =>
  queryOptions({
    queryKey: ["agents", id, "triggers"],
    queryFn: async ({ signal }) => {
      const options = { params: { id }, query: { limit: MOST }, signal };
      return (await call("GET /api/v1/agents/{id}/triggers", options)).triggers;
    },
  });

export const triggerDeliveriesQuery = ({ agent_id, id }: Trigger) =>
  listFrom(
    ["agents", agent_id, "deliveries", id],
    "GET /api/v1/agents/{id}/triggers/{trigger_id}/deliveries",
    "deliveries",
    { params: { id: agent_id, trigger_id: id } },
  );

export const templatesQuery = queryOptions({
  queryKey: ["templates"],
  queryFn: async ({ signal }) => (await call("GET /api/v1/agent-templates", { signal })).templates,
  staleTime: 300_000,
});

/** The instructions and messages that a run began with. */
export const runPromptQuery = (id: string, run_id: string) =>
  queryOptions({
    queryKey: ["run prompt", id, run_id],
    queryFn: async ({ signal }) => {
      const params = { id, run_id };
      return (await call("GET /api/v1/agents/{id}/runs/{run_id}/prompt", { params, signal })).messages;
    },
    staleTime: Number.POSITIVE_INFINITY,
  });

export const runQuery = (id: string, run_id: string) =>
  queryOptions({
    queryKey: ["runs", id, run_id],
    queryFn: ({ signal }) => call("GET /api/v1/agents/{id}/runs/{run_id}", { params: { id, run_id }, signal }),
    // No event says that a run waits for a decision, or that its result was delivered.
    refetchInterval: ({ state: { data } }) => {
      if (data === undefined) return false;
      const may_change = hasEnded(data.status)
        ? data.deliveries.some(({ status }) => status === "pending")
        : data.steps.every(({ status }) => status !== "running");
      return may_change ? UNSEEN_MS : false;
    },
  });

interface PageQuery {
  limit: number;
  cursor?: string;
}
interface Page<Row> {
  rows: Row[];
  next_cursor: string | null;
}

/** All pages of a list, one after the other. */
export async function* pagesOf<Row>(fetchPage: (page: PageQuery) => Promise<Page<Row>>): AsyncGenerator<Page<Row>> {
  for (let cursor: string | null = null; ; ) {
    const page: Page<Row> = await fetchPage({ limit: MOST, ...(cursor === null ? {} : { cursor }) });
    yield page;
    cursor = page.next_cursor;
    if (cursor === null) return;
  }
}

async function fetchAgents(query: PageQuery & { name?: string }, signal: AbortSignal) {
  const { agents, next_cursor } = await call("GET /api/v1/agents", { query, signal });
  return { rows: agents, next_cursor };
}

async function fetchSecrets(query: PageQuery, signal: AbortSignal) {
  const { secrets, next_cursor } = await call("GET /api/v1/secrets", { query, signal });
  return { rows: secrets, next_cursor };
}

/** A list with pages. `fetchPage` loads one page. */
function listOf<Row>(
  queryKey: unknown[],
  fetchPage: (page: PageQuery, signal: AbortSignal) => Promise<Page<Row>>,
  limit = PAGE,
) {
  return infiniteQueryOptions({
    queryKey,
    queryFn: ({ signal, pageParam }) =>
      fetchPage({ limit, ...(pageParam === null ? {} : { cursor: pageParam }) }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page: Page<Row>) => page.next_cursor,
  });
}

export type List<Row> = ReturnType<typeof listOf<Row>>;

/** The answer of an endpoint that has pages, without its CSV. */
type Listed<E extends EndpointName> = Extract<Answer<E>, { next_cursor: string | null }>;
/** The name of the field with the rows, such as `api_keys`. */
type RowsField<E extends EndpointName> = {
  [Field in keyof Listed<E>]: Listed<E>[Field] extends readonly object[] ? Field : never;
}[keyof Listed<E>];
type RowOf<E extends EndpointName, Field extends RowsField<E>> = Listed<E>[Field] extends readonly (infer Row)[]
  ? Row
  : never;

interface ListOptions<E extends EndpointName> extends Pick<CallOptions<E>, "params" | "query"> {
  limit?: number;
}

/** A list of the API with pages. `field`: the one with the rows. */
export function listFrom<E extends EndpointName, Field extends RowsField<E>>(
  queryKey: unknown[],
  endpoint: E,
  field: Field,
  { params, query, limit }: ListOptions<E> = {},
) {
  type Pages = Record<Field, RowOf<E, Field>[]> & { next_cursor: string | null };
  const fetchPage = async (page: PageQuery, signal: AbortSignal) => {
    // The compiler cannot follow the types of the contract through an endpoint that is a parameter.
    const options: unknown = { params, query: { ...query, ...page }, signal };
    const answer: unknown = await call(endpoint, options as CallOptions<E>);
    const { [field]: rows, next_cursor } = answer as Pages;
    return { rows, next_cursor };
  };
  return listOf(queryKey, fetchPage, limit);
}

/** The list, reloaded at intervals while a row has an unfinished run. */
const liveList = <Row>(list: List<Row>, statusOf: (row: Row) => RunStatus | undefined): List<Row> => ({
  ...list,
  refetchInterval: ({ state }) => {
    const statuses = state.data?.pages.flatMap(({ rows }) => rows.map(statusOf)) ?? [];
    return statuses.some((status) => status !== undefined && !hasEnded(status)) ? LIVE_LIST_MS : false;
  },
});

/** The agents whose name contains a text, as a list. */
export const agentsQuery = (name: string) =>
  liveList(
    listOf(["agents", "list", name], (page, signal) => fetchAgents(name === "" ? page : { ...page, name }, signal)),
    ({ last_run }) => last_run?.status,
  );

type RunFilters = Pick<
  NonNullable<CallOptions<"GET /api/v1/agents/{id}/runs">["query"]>,
  "status" | "has_errors" | "trigger" | "from" | "to"
>;
export const runsQuery = (id: string, filters: RunFilters): List<Run> =>
  liveList(
    listFrom(["runs", id, "list", filters], "GET /api/v1/agents/{id}/runs", "runs", { params: { id }, query: filters }),
    ({ status }) => status,
  );

/** The newest runs of an agent. */
export const newestRunsOfAgentQuery = (id: string) =>
  queryOptions({
    queryKey: ["runs", id, "newest"],
    queryFn: async ({ signal }) =>
      (await call("GET /api/v1/agents/{id}/runs", { params: { id }, query: { limit: MOST }, signal })).runs,
  });

/** A filter has the name of the API's parameter. */
export type AllRunsFilters = Record<string, string | undefined>;
const fetchRuns = async (filters: AllRunsFilters, page: PageQuery, signal: AbortSignal) => {
  const { runs, next_cursor } = await call("GET /api/v1/runs", { query: { ...filters, ...page }, signal });
  return { rows: runs, next_cursor };
};

/** Runs of all agents, in large pages. They are not reloaded, because a person may have scrolled through many pages. */
export const allRunsQuery = (filters: AllRunsFilters) => ({
  ...listOf(["runs", "all", filters], (page, signal) => fetchRuns(filters, page, signal), MOST),
  refetchOnWindowFocus: false,
});

/** The newest runs that failed or had errors. */
export const erroneousRunsQuery = queryOptions({
  queryKey: ["runs", "erroneous"],
  queryFn: async ({ signal }) => (await fetchRuns({ has_errors: "true" }, { limit: MOST }, signal)).rows,
});

/** The runs of some time, the newest ones, and whether there are more. */
export const runsOfTimeQuery = (time: { from: string | undefined; to: string | undefined }, limit: number) =>
  queryOptions({
    queryKey: ["runs", "of time", time, limit],
    queryFn: async ({ signal }) => fetchRuns(time, { limit }, signal),
  });

/** The newest runs with these words. */
export const foundRunsQuery = (q: string) =>
  queryOptions({
    queryKey: ["runs", "found", q],
    queryFn: async ({ signal }) => (await fetchRuns({ q }, { limit: FOUND }, signal)).rows,
  });

/** The newest of these runs, reloaded at intervals: more often while one is unfinished. */
export const newestRunsQuery = (filters: AllRunsFilters) =>
  queryOptions({
    queryKey: ["runs", "newest", filters],
    queryFn: async ({ signal }) => (await fetchRuns(filters, { limit: PAGE }, signal)).rows,
    refetchInterval: ({ state: { data = [] } }) =>
      data.every(({ status }) => hasEnded(status)) ? IDLE_LIST_MS : LIVE_LIST_MS,
  });

/** A run of any agent, also of a deleted one. */
export const anyRunQuery = (run_id: string) =>
  queryOptions({
    queryKey: ["runs", "any", run_id],
    queryFn: ({ signal }) => call("GET /api/v1/runs/{run_id}", { params: { run_id }, signal }),
    refetchInterval: ({ state: { data } }) => (data !== undefined && !hasEnded(data.status) ? LIVE_LIST_MS : false),
  });

/** How often the runs that wait are reloaded. */
const WAITING_MS = 30_000;
/** The runs that wait for their user, newest first. */
export const waitingRunsQuery = queryOptions({
  queryKey: ["runs", "waiting"],
  queryFn: async ({ signal }) => {
    const query = { status: "requires_action", limit: MOST } as const;
    const { runs, next_cursor } = await call("GET /api/v1/runs", { query, signal });
    return { runs, more: next_cursor !== null };
  },
  refetchInterval: WAITING_MS,
});

export const versionsQuery = (id: string) =>
  listFrom(["versions", id], "GET /api/v1/agents/{id}/versions", "versions", { params: { id } });

export const occurrencesQuery = (id: string) =>
  listFrom(["occurrences", id], "GET /api/v1/agents/{id}/occurrences", "occurrences", { params: { id } });

export const threadsQuery = (id: string) =>
  listFrom(["threads", id], "GET /api/v1/agents/{id}/threads", "threads", { params: { id } });

type Thread = Answer<"GET /api/v1/agents/{id}/threads/{thread_id}">;
export type ListedThread = Answer<"GET /api/v1/agents/{id}/threads">["threads"][number];
/** A conversation without its messages. */
export const threadRecordQuery = (id: string, thread_id: string) =>
  queryOptions({
    queryKey: ["threads", "record", id, thread_id],
    queryFn: async ({ signal }): Promise<ListedThread> => {
      const options = { params: { id, thread_id }, query: { limit: 1 }, signal };
      return call("GET /api/v1/agents/{id}/threads/{thread_id}", options);
    },
  });
/** The newest conversations with these words in their title. */
export const foundThreadsQuery = (q: string) =>
  queryOptions({
    queryKey: ["threads", "found", q],
    queryFn: async ({ signal }) => (await call("GET /api/v1/threads", { query: { q, limit: FOUND }, signal })).threads,
  });
/** A message with the cost of its whole turn. */
export type ThreadMessage = Thread["messages"][number] & { turn_cost_tokens: number | null };
/** The messages of a conversation. The first page is the newest; the pages after it go back to the beginning. */
export const threadQuery = (id: string, thread_id: string) =>
  listOf<ThreadMessage>(["thread", id, thread_id], async (page, signal) => {
    const options = { params: { id, thread_id }, query: page, signal };
    const { turns, messages, next_cursor } = await call("GET /api/v1/agents/{id}/threads/{thread_id}", options);
    const costs = new Map(turns.map(({ run_id, cost_tokens }) => [run_id, cost_tokens]));
    const rows = messages.map((message) => ({ ...message, turn_cost_tokens: costs.get(message.run_id) ?? null }));
    return { rows, next_cursor };
  });

export const secretsQuery = listOf(["secrets", "list"], fetchSecrets);

/** Secrets that a site returned, among the newest ones. */
export const returnedSecretsQuery = queryOptions({
  queryKey: ["secrets", "returned"],
  queryFn: async ({ signal }) =>
    (await fetchSecrets({ limit: MOST }, signal)).rows.filter(({ reflected_at }) => reflected_at !== null),
});

export const secretUsesQuery = (id: string) =>
  listFrom(["secret-uses", id], "GET /api/v1/secrets/{id}/uses", "uses", { params: { id } });

export const keysQuery = listFrom(["keys", "list"], "GET /api/v1/api-keys", "api_keys");

export const noticesQuery = (query: Pick<NonNullable<CallOptions<"GET /api/v1/notices">["query"]>, "event">) =>
  listFrom(["notices", query], "GET /api/v1/notices", "notices", { query });

/** When the newest notice was created; null: there is none. */
export const newestNoticeQuery = queryOptions({
  queryKey: ["notices", "newest"],
  queryFn: async ({ signal }) =>
    (await call("GET /api/v1/notices", { query: { limit: 1 }, signal })).notices[0]?.created_at ?? null,
  staleTime: 60_000,
});

export const endpointsQuery = listFrom(["endpoints"], "GET /api/v1/webhook-endpoints", "webhook_endpoints");

export const bucketsQuery = (query: { include?: "closed" }) =>
  listFrom(["buckets", query], "GET /api/v1/users/me/buckets", "buckets", { query });

export const endUserBudgetsQuery = listFrom(["end-user-budgets"], "GET /api/v1/end-user-budgets", "end_user_budgets");

/** The plans, and the payment mode of the service. */
export const plansQuery = queryOptions({
  queryKey: ["plans"],
  queryFn: ({ signal }) => call("GET /api/v1/billing/plans", { signal }),
  staleTime: 300_000,
});
/** The request id of a run's charges; null: no charge. */
export const runChargesQuery = (run_id: string) =>
  queryOptions({
    queryKey: ["transactions", "request of", run_id],
    queryFn: async ({ signal }) => {
      const { transactions } = await call("GET /api/v1/users/me/transactions", {
        query: { run_id, limit: 1 },
        signal,
      });
      return transactions[0]?.request_id ?? null;
    },
  });
export const explanationQuery = (request_id: string) =>
  queryOptions({
    queryKey: ["explanation", request_id],
    queryFn: ({ signal }) => call("GET /api/v1/billing/explain/{request_id}", { params: { request_id }, signal }),
  });
export const subscriptionQuery = queryOptions({
  queryKey: ["subscription"],
  queryFn: ({ signal }) => call("GET /api/v1/billing/subscription", { signal }),
});
export const autoTopupQuery = queryOptions({
  queryKey: ["auto-topup"],
  queryFn: ({ signal }) => call("GET /api/v1/billing/auto-topup", { signal }),
});
export const overageQuery = queryOptions({
  queryKey: ["overage"],
  queryFn: ({ signal }) => call("GET /api/v1/billing/overage", { signal }),
});
