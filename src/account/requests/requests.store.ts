import type { ModelApi } from "../../api/contract/model-apis.ts";
import type { FailedCall } from "../../api/http/failed-calls.ts";
import type { Reader, Sql, Tx } from "../../platform/db/db.ts";
import { createConditions, deleteBeyondNewest } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { jsonbText } from "../../platform/lib/json.ts";

export interface FailedRow extends Omit<FailedCall, "hold_id"> {
  id: string;
  created_at: Instant;
}

/** A request in the list: a settled call, or a failed one. */
export interface RequestRow {
  user_id: string;
  id: string;
  request_id: string;
  api: ModelApi | null;
  /** Null: it succeeded. */
  http_status: number | null;
  error_code: string | null;
  error_message: string | null;
  param: string | null;
  model: string | null;
  agent_id: string | null;
  run_id: string | null;
  api_key_id: string | null;
  user: string | null;
  input_tokens: number;
  output_tokens: number;
  cost_tokens: number;
  duration_ms: number | null;
  first_token_ms: number | null;
  created_at: Instant;
}

export interface RequestFilter {
  user_id?: string | undefined;
  request_id?: string | undefined;
  api_key_id?: string | undefined;
  user?: string | undefined;
  model?: string | undefined;
  agent_id?: string | undefined;
  /** succeeded, failed, rejected, or an HTTP status. */
  status?: string | undefined;
  min_ms?: number | undefined;
  from?: Instant | undefined;
  to?: Instant | undefined;
}

/** Of a settled call (c) and of a failed request (f). A call that was charged and failed has both, with one id. */
const COLUMNS = `coalesce(c.user_id, f.user_id) as user_id, coalesce(c.hold_id, f.id) as id,
  coalesce(c.request_id, f.request_id) as request_id, coalesce(c.api, f.api) as api,
  f.http_status, f.error_code, f.error_message, f.param, coalesce(c.model, f.model) as model, c.agent_id, c.run_id,
  coalesce(c.api_key_id, f.api_key_id) as api_key_id, coalesce(c.labels ->> 'user', f.end_user) as "user",
  coalesce(c.input_tokens, 0) as input_tokens, coalesce(c.output_tokens, 0) as output_tokens,
  coalesce(c.cost, 0) as cost_tokens, coalesce(f.duration_ms, c.duration_ms) as duration_ms, c.first_token_ms,
  coalesce(c.created_at, f.created_at) as created_at`;

/** Settled calls, and failed requests without a charge. Each reads its table from the newest row on, by its primary key. */
const SOURCES = {
  settled: {
    from: "usage_event c left join failed_request f on f.user_id = c.user_id and f.id = c.hold_id",
    id: "c.hold_id",
    of: { user_id: "c.user_id", request_id: "c.request_id", api_key_id: "c.api_key_id", user: "c.labels ->> 'user'" },
    also: { model: "c.model", agent_id: "c.agent_id", duration_ms: "c.duration_ms", created_at: "c.created_at" },
  },
  failed: {
    from: "failed_request f left join usage_event c on c.user_id = f.user_id and c.hold_id = f.id",
    id: "f.id",
    of: { user_id: "f.user_id", request_id: "f.request_id", api_key_id: "f.api_key_id", user: "f.end_user" },
    also: {
      model: "coalesce(c.model, f.model)",
      agent_id: "c.agent_id",
      duration_ms: "f.duration_ms",
      created_at: "f.created_at",
    },
  },
} as const;

const STATUS = { rejected: "f.http_status between 400 and 498", failed: "f.http_status not between 400 and 498" };

/** Requests of before `before_id`, newest first. */
export function listRequests(
  sql: Reader,
  filter: RequestFilter,
  { limit, before_id }: { limit: number; before_id: string | null },
): Promise<RequestRow[]> {
  const values: unknown[] = [limit];
  const { status } = filter;
  const select = (source: keyof typeof SOURCES, first?: string) => {
    const { from, id, of, also } = SOURCES[source];
    const { add, only, text } = createConditions(values, first);
    for (const [name, column] of Object.entries(of)) only(`${column} =`, filter[name as keyof typeof of]);
    only(`${also.model} =`, filter.model);
    only(`${also.agent_id} =`, filter.agent_id);
    only(`${also.duration_ms} >=`, filter.min_ms);
    only(`${also.created_at} >=`, filter.from);
    only(`${also.created_at} <`, filter.to);
    only(`${id} <`, before_id);
    if (source === "failed" && status !== undefined) {
      if (status === "failed" || status === "rejected") add(STATUS[status]);
      else only("f.http_status =", Number(status));
    }
    return `(select ${COLUMNS} from ${from} where ${text()} order by ${id} desc limit $1)`;
  };
  const parts =
    status === undefined
      ? [select("settled"), select("failed", "c.hold_id is null")]
      : [status === "succeeded" || status === "200" ? select("settled", "f.id is null") : select("failed")];
  return sql.query<RequestRow>({
    text: `select * from (${parts.join(" union all ")}) as request order by id desc limit $1`,
    values,
  });
}

/** Inserts failed requests. Those of erased users are dropped. */
export async function insertFailed(sql: Sql, rows: readonly FailedRow[]): Promise<void> {
  await sql.query({
    name: "failed_request_insert",
    text: `insert into failed_request (user_id, id, request_id, api, api_key_id, end_user, model, http_status, error_code,
        error_message, param, duration_ms, created_at)
      select user_id, id, request_id, api, api_key_id, end_user, model, http_status, error_code, error_message, param,
        duration_ms, created_at
      from jsonb_to_recordset($1::jsonb) as failed(user_id uuid, id uuid, request_id text, api text, api_key_id uuid,
        end_user text, model text, http_status integer, error_code text, error_message text, param text,
        duration_ms integer, created_at timestamptz)
      on conflict (user_id, id) do nothing`,
    values: [jsonbText(rows)],
  });
}

/** Deletes failed requests of before `instant`, and those beyond the newest `most` of a user. */
export async function deleteOldFailed(sql: Sql, instant: Instant, most: number): Promise<void> {
  await sql.query({ text: "delete from failed_request where created_at < $1", values: [instant] });
  await deleteBeyondNewest(sql, "failed_request", most);
}

export async function deleteFailedOf(tx: Tx, user_id: string): Promise<void> {
  await tx.query({ text: "delete from failed_request where user_id = $1", values: [user_id] });
}
