import type { AgentKey } from "../../api/contract/agents.ts";
import type { AgentDelivery } from "../../api/contract/deliveries.ts";
import type { Sql, Tx } from "../../platform/db/db.ts";

/** Reads the agents of runs, and writes the effects of a run's outcome on its agent. */

/** The agent's fields that a due run needs. */
export interface DueAgent extends AgentKey {
  version: number;
  model_id: string | null;
  auto_route: boolean;
  schedule_timezone: string;
  /** The API key that the run counts against; null: none. */
  schedule_api_key_id: string | null;
}

/** The existing agents among these, of any user. */
export async function selectDueAgents(tx: Tx, keys: readonly AgentKey[]): Promise<DueAgent[]> {
  return tx.query<DueAgent>({
    name: "agent_due",
    text: `select agent.user_id, agent.id as agent_id, version, model_id, auto_route, schedule_api_key_id,
        schedule_spec ->> 'timezone' as schedule_timezone
      from jsonb_to_recordset($1::jsonb) as due(user_id uuid, agent_id uuid)
      join agent on agent.user_id = due.user_id and agent.id = due.agent_id
      where deleted_at is null`,
    values: [JSON.stringify(keys)],
  });
}

/**
 * Locks the agents whose count of failures will change: the run fails, or the agent has failures counted. Returns their
 * ids. A transaction that changes an agent and its runs locks the agent first.
 */
export async function lockCounted(tx: Tx, runs: readonly (AgentKey & { fails: boolean })[]): Promise<Set<string>> {
  const rows = await tx.query<{ id: string }>({
    name: "agent_lock_counted",
    text: `select agent.id from jsonb_to_recordset($1::jsonb) as run(user_id uuid, agent_id uuid, fails boolean)
      join agent on agent.user_id = run.user_id and agent.id = run.agent_id
      where fails or consecutive_failures > 0
      order by agent.user_id, agent.id for no key update of agent`,
    values: [JSON.stringify(runs)],
  });
  return new Set(rows.map(({ id }) => id));
}

/** The deliveries of the agents of these runs, by run. Runs without any are absent. */
export async function selectDeliveries(
  tx: Tx,
  runs: readonly (AgentKey & { run_id: string })[],
): Promise<Map<string, AgentDelivery[]>> {
  const rows = await tx.query<{ run_id: string; deliveries: AgentDelivery[] }>({
    name: "agent_deliveries",
    text: `select run_id, deliveries from jsonb_to_recordset($1::jsonb) as run(user_id uuid, agent_id uuid, run_id uuid)
      join agent on agent.user_id = run.user_id and agent.id = run.agent_id
      where deleted_at is null and deliveries <> '[]'`,
    values: [JSON.stringify(runs.map(({ user_id, agent_id, run_id }) => ({ user_id, agent_id, run_id })))],
  });
  return new Map(rows.map(({ run_id, deliveries }) => [run_id, deliveries]));
}

/** Sets the count of the agent's failures in a row to 0. */
export async function forgetFailures(sql: Sql, { user_id, agent_id }: AgentKey): Promise<void> {
  await sql.query({
    text: "update agent set consecutive_failures = 0 where user_id = $1 and id = $2 and consecutive_failures > 0",
    values: [user_id, agent_id],
  });
}

/**
 * Counts a failed run, or resets the count to 0. Returns the failures in a row and their limit; absent when the agent
 * does not exist.
 */
export async function countOutcome(
  sql: Sql,
  { user_id, agent_id }: AgentKey,
  failed: boolean,
): Promise<{ failures: number; allowed: number } | undefined> {
  const [row] = await sql.query<{ failures: number; allowed: number }>({
    name: "agent_outcome",
    text: `update agent set consecutive_failures = case when $3 then consecutive_failures + 1 else 0 end
      where user_id = $1 and id = $2 and deleted_at is null and ($3 or consecutive_failures > 0)
      returning consecutive_failures as failures, (limits->>'max_consecutive_failures')::integer as allowed`,
    values: [user_id, agent_id, failed],
  });
  return row;
}
