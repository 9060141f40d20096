import type { AgentKey } from "../../api/contract/agents.ts";
import type { Tx } from "../../platform/db/db.ts";
import type { NewResult } from "./notices.types.ts";

/** Queues the results of ended runs, one delivery for each address. */
export async function insertResults(tx: Tx, results: readonly (NewResult & { id: string })[]): Promise<void> {
  await tx.query({
    name: "result_insert",
    // The id of a destination is the user's own, so that users do not wait for each other.
    text: `insert into delivery (user_id, id, destination_id, run_id, address, unless_unchanged)
      select user_id, id, md5(user_id || ' ' || address)::uuid, run_id, address, unless_unchanged
      from jsonb_to_recordset($1::jsonb) as result(user_id uuid, id uuid, run_id uuid, address text, unless_unchanged boolean)`,
    values: [JSON.stringify(results)],
  });
}

/** Deletes the deliveries of runs that are being deleted. */
export async function deleteResults(tx: Tx, runs: readonly { user_id: string; run_id: string }[]): Promise<void> {
  await tx.query({
    text: `delete from delivery using jsonb_to_recordset($1::jsonb) as gone(user_id uuid, run_id uuid)
      where delivery.user_id = gone.user_id and delivery.run_id = gone.run_id`,
    values: [JSON.stringify(runs)],
  });
}

/** Deletes what the addresses of deleted agents got last. */
export async function deleteOutputs(tx: Tx, agents: readonly AgentKey[]): Promise<void> {
  await tx.query({
    text: `delete from delivered_output as output using jsonb_to_recordset($1::jsonb) as gone(user_id uuid, agent_id uuid)
      where output.user_id = gone.user_id and output.agent_id = gone.agent_id`,
    values: [JSON.stringify(agents)],
  });
}
