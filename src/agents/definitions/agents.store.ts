import type { AgentNames } from "../../api/contract/agent-name.ts";
import type { AgentKey } from "../../api/contract/agents.ts";
import { AGENT_LIMITS } from "../../kernel/constants.ts";
import { createBatches } from "../../platform/db/batch-queue.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { readStatement } from "../../platform/db/sql-functions.ts";
import { assignments, firstRow, insertInto } from "../../platform/db/statements.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { BudgetCaps } from "../runs/budget-need.ts";
import { type AgentConfig, withDefaults } from "./agent-config.ts";
import { EMPTY_VIEW, type ScheduleView } from "./default-schedule.ts";

export interface AgentRow extends AgentConfig {
  user_id: string;
  id: string;
  version: number;
  created_at: Instant;
  updated_at: Instant;
  deleted_at: Instant | null;
}

/** The agent's settings alone. */
export function configFields(row: AgentRow): AgentConfig {
  const { user_id: _u, id: _i, version: _v, created_at: _c, updated_at: _m, deleted_at: _d, ...config } = row;
  return config;
}

/** The settings, and the schedule_* fields as they were when the version was made. */
export type VersionConfig = AgentConfig & ScheduleView;

interface VersionRow {
  user_id: string;
  agent_id: string;
  version: number;
  config: VersionConfig;
  created_at: Instant;
}

/** By name: a prepared statement with `agent.*` fails once a newer version has added a column. */
const COLUMNS = Object.keys({
  user_id: true,
  id: true,
  version: true,
  name: true,
  description: true,
  system_prompt: true,
  run_prompt: true,
  model_id: true,
  auto_route: true,
  is_active: true,
  tools_config: true,
  input_schema: true,
  output_schema: true,
  client_tools: true,
  deliveries: true,
  approval_hours: true,
  on_budget: true,
  limits: true,
  model_settings: true,
  created_at: true,
  updated_at: true,
  deleted_at: true,
} satisfies Record<keyof AgentRow, true>).join(", ");
/** The user's agents that are not deleted. */
const LIVE = "from agent where user_id = $1 and deleted_at is null";

/** Limit of the batch that reads simultaneously requested agents in one query. */
const BATCH_LIMIT = 64;

type AgentId = Pick<AgentRow, "user_id" | "id">;

/** Each agent, in order; absent when it does not exist or was deleted. */
async function selectAgents(sql: Sql, keys: readonly AgentId[]): Promise<(AgentRow | undefined)[]> {
  const rows = await sql.query<AgentRow>({
    name: "agent_find",
    text: `select ${COLUMNS} from (
        select distinct user_id, id from jsonb_to_recordset($1::jsonb) as key(user_id uuid, id uuid)
      ) as key join agent using (user_id, id) where deleted_at is null`,
    values: [JSON.stringify(keys)],
  });
  return keys.map(({ user_id, id }) => rows.find((row) => row.user_id === user_id && row.id === id));
}

/** A deleted agent, with the time of its deletion. */
export type DeletedAgent = Pick<AgentRow, "user_id" | "id"> & { deleted_at: Instant };

/** An agent in the list of models. */
type ActiveAgent = Pick<
  AgentRow,
  "id" | "name" | "description" | "model_id" | "auto_route" | "client_tools" | "created_at"
> & { has_output_schema: boolean };

/** The approximate size of an agent in an answer. */
export interface AgentSize {
  id: string;
  bytes: number;
}

const BYTES =
  "octet_length(coalesce(system_prompt, '')) + octet_length(coalesce(run_prompt, '')) + octet_length(concat(tools_config, input_schema, output_schema))";

interface AgentPage {
  limit: number;
  before_id: string | null;
  /** null: every name. */
  name: string | null;
  /** The only agents to list; null: all. */
  among: readonly string[] | null;
}

export function createAgentsStore(db: Db) {
  const agent = createBatches(BATCH_LIMIT, (keys: AgentId[]) => selectAgents(db, keys));
  /** Names are compared here: a database with the locale C has only ASCII's letters in lower case. */
  const idsNamed = async (user_id: string, part: string): Promise<string[]> => {
    const rows = await db.query<Pick<AgentRow, "id" | "name">>({
      name: "agent_ids_and_names",
      text: `select id, name ${LIVE}`,
      values: [user_id],
    });
    return rows.filter(({ name }) => name.toLowerCase().includes(part)).map(({ id }) => id);
  };
  return {
    insertAgent: (tx: Tx, row: AgentRow) => tx.query(insertInto("agent", toColumns(row))),
    insertVersion: (tx: Tx, { user_id, agent_id, version, config, created_at }: VersionRow) =>
      tx.query({
        text: "insert into agent_version (user_id, agent_id, version, config, created_at) values ($1, $2, $3, $4, $5)",
        values: [user_id, agent_id, version, JSON.stringify(config), created_at],
      }),
    /** Deletes versions up to a number, except versions that unfinished runs pin. Returns their stored size in bytes. */
    async forgetVersions(
      tx: Tx,
      { user_id, agent_id, up_to, pinned }: AgentKey & { up_to: number; pinned: number[] },
    ): Promise<number> {
      const gone = await tx.query<{ bytes: number }>({
        text: `delete from agent_version where user_id = $1 and agent_id = $2 and version <= $3
          and version not in (select value::integer from jsonb_array_elements_text($4::jsonb))
          returning pg_column_size(config) as bytes`,
        values: [user_id, agent_id, up_to, JSON.stringify(pinned)],
      });
      return gone.reduce((sum, { bytes }) => sum + bytes, 0);
    },
    /** The stored, compressed sizes of one version, and of all of the user's agents. The texts themselves are not read. */
    async versionBytes(tx: Tx, { user_id, agent_id, version }: Omit<VersionRow, "config" | "created_at">) {
      const [row] = await tx.query<{ all: number; added: number }>({
        text: `select coalesce(sum(pg_column_size(config)), 0)::bigint as all,
            coalesce(sum(pg_column_size(config)) filter (where agent_id = $2 and version = $3), 0)::bigint as added
          from agent_version where user_id = $1`,
        values: [user_id, agent_id, version],
      });
      return row ?? { all: 0, added: 0 };
    },
    agent: (user_id: string, id: string) => agent({ user_id, id }),
    /** The present caps of these agents, by their id. A deleted agent has none. */
    async caps(agents: readonly AgentKey[]): Promise<ReadonlyMap<string, BudgetCaps>> {
      const rows = await db.query<{ id: string; limits: BudgetCaps }>({
        name: "agent_caps",
        text: `select id, limits from (
            select distinct user_id, agent_id from jsonb_to_recordset($1::jsonb) as key(user_id uuid, agent_id uuid)
          ) as key join agent on agent.user_id = key.user_id and agent.id = key.agent_id where deleted_at is null`,
        values: [JSON.stringify(agents.map(({ user_id, agent_id }) => ({ user_id, agent_id })))],
      });
      return new Map(rows.map(({ id, limits }) => [id, { ...AGENT_LIMITS, ...limits }]));
    },
    lockAgent: (tx: Tx, user_id: string, id: string) =>
      firstRow<AgentRow>(tx, {
        text: `select ${COLUMNS} ${LIVE} and id = $2 for update`,
        values: [user_id, id],
      }),
    /** The sizes of a page of agents, newest first; `name` is a part of the name, case-insensitive. */
    async sizes(user_id: string, { limit, before_id, name, among }: AgentPage): Promise<AgentSize[]> {
      const named = name === null ? null : await idsNamed(user_id, name.toLowerCase());
      return db.query<AgentSize>({
        name: "agent_sizes",
        text: `select id, ${BYTES} as bytes from agent
          where user_id = $1 and deleted_at is null and ($2::uuid is null or id < $2)
            and ($3::uuid[] is null or id = any($3)) and ($4::uuid[] is null or id = any($4))
          order by id desc limit $5`,
        values: [user_id, before_id, named, among, limit],
      });
    },
    sizesOf: (user_id: string, ids: readonly string[]) =>
      db.query<AgentSize>({
        name: "agent_sizes_of",
        text: `select id, ${BYTES} as bytes from agent where user_id = $1 and id = any($2::uuid[])`,
        values: [user_id, ids],
      }),
    /** The agents that exist, in the order of `ids`. */
    async agents(user_id: string, ids: readonly string[]): Promise<AgentRow[]> {
      if (ids.length === 0) return [];
      const rows = await db.query<AgentRow>({
        name: "agent_list",
        text: `select ${COLUMNS} ${LIVE} and id = any($2::uuid[])`,
        values: [user_id, ids],
      });
      return ids.flatMap((id) => rows.find((row) => row.id === id) ?? []);
    },
    async ids(user_id: string): Promise<string[]> {
      const rows = await db.query<{ id: string }>({ text: `select id ${LIVE}`, values: [user_id] });
      return rows.map(({ id }) => id);
    },
    /** The newest active agents, without their settings. */
    active: (user_id: string, limit: number) =>
      db.query<ActiveAgent>({
        text: `select id, name, description, model_id, auto_route, client_tools, created_at,
            output_schema is not null as has_output_schema
          ${LIVE} and is_active
          order by id desc limit $2`,
        values: [user_id, limit],
      }),
    /** The schemas of the user's active agents that have some, by the agent's id. */
    async schemas(user_id: string): Promise<Map<string, Pick<AgentRow, "input_schema" | "output_schema">>> {
      const rows = await db.query<Pick<AgentRow, "id" | "input_schema" | "output_schema">>({
        text: `select id, input_schema, output_schema ${LIVE} and is_active
          and (input_schema is not null or output_schema is not null)`,
        values: [user_id],
      });
      return new Map(rows.map(({ id, input_schema, output_schema }) => [id, { input_schema, output_schema }]));
    },
    /** Includes deleted agents while their records are kept. */
    async names(user_id: string, ids: readonly string[]): Promise<AgentNames> {
      if (ids.length === 0) return new Map();
      const rows = await db.query<{ id: string; name: string; deleted: boolean }>({
        name: "agent_names",
        text: "select id, name, deleted_at is not null as deleted from agent where user_id = $1 and id = any($2::uuid[])",
        values: [user_id, ids],
      });
      return new Map(rows.map(({ id, name, deleted }) => [id, { name, deleted }]));
    },
    updateAgent: (tx: Tx, row: AgentRow) => {
      const { user_id, id, ...set } = toColumns(row);
      const values: unknown[] = [user_id, id];
      return tx.query({
        text: `update agent set ${assignments(values, set)} where user_id = $1 and id = $2`,
        values,
      });
    },
    /** Deletes the settings and versions of deleted agents. Their rows stay while runs or charges name them. */
    forgetSettings: (tx: Tx, agents: readonly AgentId[]) =>
      tx.query({
        text: `with gone as (
            delete from agent_version using jsonb_to_recordset($1::jsonb) as deleted(user_id uuid, id uuid)
            where agent_version.user_id = deleted.user_id and agent_id = deleted.id
            returning agent_version.user_id, agent_id
          )
          update agent set description = null, system_prompt = null, run_prompt = null, tools_config = '{}',
            input_schema = null, output_schema = null, deliveries = '[]'
          from (select distinct user_id, agent_id from gone) as deleted
          where agent.user_id = deleted.user_id and agent.id = deleted.agent_id`,
        values: [JSON.stringify(agents)],
      }),
    /** Deletes the rows of deleted agents, whose settings are forgotten. */
    deleteAgents: (tx: Tx, agents: readonly AgentId[]) =>
      tx.query({
        text: `delete from agent using jsonb_to_recordset($1::jsonb) as gone(user_id uuid, id uuid)
          where agent.user_id = gone.user_id and agent.id = gone.id and deleted_at is not null`,
        values: [JSON.stringify(agents)],
      }),
    /** Until the transaction ends, no run of the user's agents can be queued or end. */
    lockAgents: (tx: Tx, user_id: string) =>
      tx.query({ text: `select ${LIVE} order by id for update`, values: [user_id] }),
    async deleteUser(tx: Tx, user_id: string): Promise<void> {
      await tx.query({ text: "delete from agent_version where user_id = $1", values: [user_id] });
      await tx.query({ text: "delete from agent where user_id = $1", values: [user_id] });
    },
    /** Agents deleted before an instant, ordered by that time, after the cursor `after`. */
    deletedAgents: ({ before, after, limit }: { before: Instant; after: DeletedAgent; limit: number }) =>
      db.query<DeletedAgent>({
        name: "agent_deleted",
        text: `select user_id, id, deleted_at from agent
          where deleted_at < $1 and (deleted_at, user_id, id) > ($2, $3, $4)
          order by deleted_at, user_id, id limit $5`,
        values: [before, after.deleted_at, after.user_id, after.id, limit],
      }),
    /** The sizes of an agent's versions, newest first, before `before`. */
    versionSizes: ({ user_id, agent_id }: AgentKey, { limit, before }: { limit: number; before: number | null }) =>
      db.query<{ version: number; bytes: number }>({
        text: `select version, octet_length(config::text) as bytes from agent_version
          where user_id = $1 and agent_id = $2 and ($3::integer is null or version < $3) order by version desc limit $4`,
        values: [user_id, agent_id, before, limit],
      }),
    /** These versions of an agent, newest first. */
    async versions({ user_id, agent_id }: AgentKey, versions: readonly number[]) {
      const rows = await db.query<Pick<VersionRow, "version" | "config" | "created_at">>({
        text: `select version, config, created_at from agent_version
          where user_id = $1 and agent_id = $2 and version = any($3::integer[]) order by version desc`,
        values: [user_id, agent_id, versions],
      });
      return rows.map(({ version, config, created_at }) => ({ version, config: withDefaults(config), created_at }));
    },
    /** A version's configuration and its start; absent when it does not exist or the agent was deleted. */
    async version({ user_id, agent_id, version }: Pick<VersionRow, "user_id" | "agent_id" | "version">) {
      const found = await firstRow<Pick<VersionRow, "version" | "config" | "created_at">>(db, {
        name: "agent_version_find",
        text: `select v.version, v.config, v.created_at
          from agent_version v join agent on agent.user_id = v.user_id and agent.id = v.agent_id
          where v.user_id = $1 and v.agent_id = $2 and v.version = $3 and agent.deleted_at is null`,
        values: [user_id, agent_id, version],
      });
      return found === undefined ? undefined : { ...found, config: { ...EMPTY_VIEW, ...withDefaults(found.config) } };
    },
  };
}

export type AgentsStore = ReturnType<typeof createAgentsStore>;

/** The row as its columns: jsonb as text, because the drivers would write a list as an array. */
function toColumns(row: AgentRow) {
  return {
    ...row,
    tools_config: JSON.stringify(row.tools_config),
    input_schema: row.input_schema === null ? null : JSON.stringify(row.input_schema),
    output_schema: row.output_schema === null ? null : JSON.stringify(row.output_schema),
    limits: JSON.stringify(row.limits),
    model_settings: JSON.stringify(row.model_settings),
    deliveries: JSON.stringify(row.deliveries),
  };
}

/** Statements that call functions of several modules. Each file explains the reason and the order. */

/** Applies a batch of the ledger together with steps of runs. */
export const APPLY_WITH_STEPS = readStatement(import.meta.dirname, "apply-with-steps");

/** Decide which runs may start. */
export const START_STATEMENTS = {
  // Which users can pay (ledger), then which agents may run (agents). Materialized, so that each user is checked once.
  check: `with users as materialized (select distinct user_id from jsonb_to_recordset($1::jsonb) as run(user_id uuid)),
    payers as materialized (select array(select user_id from users where ledger_has_tokens(user_id, $2)) as ids)
    select array_to_json(refuse_run_nows($1::jsonb, payers.ids)) as refusals from payers`,
  begin: readStatement(import.meta.dirname, "begin-run-nows"),
};
