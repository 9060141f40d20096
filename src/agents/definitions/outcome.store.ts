import type { AgentKey } from "../../api/contract/agents.ts";
import type { AgentDelivery } from "../../api/contract/deliveries.ts";
import type { Tx } from "../../platform/db/db.ts";
import { firstRow } from "../../platform/db/statements.ts";

/** Reads the agents of due runs and of ended ones. */

/** The agent's fields that a due run needs. */
export interface DueAgent extends AgentKey {
  version: number;
  model_id: string | null;
  auto_route: boolean;
}

/** The existing agents among these, of any user. */
export async function selectDueAgents(tx: Tx, keys: readonly AgentKey[]): Promise<DueAgent[]> {
  return tx.query<DueAgent>({
    name: "agent_due",
    text: `select agent.user_id, agent.id as agent_id, version, model_id, auto_route
      from (select distinct user_id, agent_id from jsonb_to_recordset($1::jsonb) as key(user_id uuid, agent_id uuid)) as due
      join agent on agent.user_id = due.user_id and agent.id = due.agent_id
      where deleted_at is null`,
    values: [JSON.stringify(keys)],
  });
}

/** The deliveries of these runs' schedules, or else of their agents, by run. Runs of deleted agents are absent. */
export async function selectDeliveries(
  tx: Tx,
  runs: readonly (AgentKey & { run_id: string; schedule_id: string | null })[],
): Promise<Map<string, AgentDelivery[]>> {
  const keys = runs.map(({ user_id, agent_id, schedule_id, run_id }) => ({ user_id, agent_id, schedule_id, run_id }));
  const rows = await tx.query<{ run_id: string; deliveries: AgentDelivery[] }>({
    name: "agent_deliveries",
    text: `select run_id, coalesce(schedule.deliveries, agent.deliveries) as deliveries
      from jsonb_to_recordset($1::jsonb) as run(user_id uuid, agent_id uuid, schedule_id uuid, run_id uuid)
      join agent on agent.user_id = run.user_id and agent.id = run.agent_id
      left join schedule on schedule.user_id = run.user_id and schedule.id = run.schedule_id
      where deleted_at is null`,
    values: [JSON.stringify(keys)],
  });
  return new Map(rows.map(({ run_id, deliveries }) => [run_id, deliveries]));
}

/** The limit of an agent's failures in a row; undefined: it does not exist. */
export async function selectAllowedFailures(tx: Tx, { user_id, agent_id }: AgentKey): Promise<number | undefined> {
  const row = await firstRow<{ allowed: number }>(tx, {
    name: "agent_allowed_failures",
    text: `select (limits->>'max_consecutive_failures')::integer as allowed from agent
      where user_id = $1 and id = $2 and deleted_at is null`,
    values: [user_id, agent_id],
  });
  return row?.allowed;
}
