import type { AgentKey } from "../../api/contract/agents.ts";
import { FREE_DAY, USER_ROWS } from "../../kernel/constants.ts";
import type { Db, Sql, Tx } from "../../platform/db/db.ts";
import { type Clock, startOfDay } from "../../platform/lib/clock.ts";
import { NIL_ID } from "../../platform/lib/ids.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { OnPrune, RunKey } from "./runs.types.ts";

/** Runs examined in one transaction. A run has many steps, and some are large. */
const BATCH = 200;

/** Deletes old runs, one batch per call. Scheduling does not read these rows: `next_run_at` only moves forward. */
export function createPruning(db: Db) {
  return {
    /**
     * Deletes finished runs and their steps, except each agent's newest run, which `last_run` shows. Resolves to the
     * cursor of the next batch; null: no old runs remain, or another node is pruning.
     */
    pruneRuns: (
      { before, after }: { before: Instant; after: OldRun | null },
      onPrune: OnPrune,
    ): Promise<OldRun | null> =>
      db.transaction(async (tx) => {
        if (!(await takePruningLock(tx))) return null;
        const old = await selectOldRuns(tx, { before, after: after ?? NO_RUN, limit: BATCH });
        const runs = old.flatMap(({ is_last, user_id, run_id }) => (is_last ? [] : [{ user_id, run_id }]));
        await pruneNow(tx, runs, onPrune);
        return old.length < BATCH ? null : (old.at(-1) ?? null);
      }),
    /**
     * Deletes runs that cost nothing and are older than the newest `USER_ROWS.unpaid_runs` failed and cancelled ones of
     * their user, except each agent's newest run. True: there may be more.
     */
    pruneUnpaidRuns: (onPrune: OnPrune): Promise<boolean> =>
      db.transaction(async (tx) => {
        if (!(await takePruningLock(tx))) return false;
        const runs = await selectUnpaidRuns(tx, { kept: USER_ROWS.unpaid_runs, limit: BATCH });
        await pruneNow(tx, runs, onPrune);
        return runs.length === BATCH;
      }),
    /** The ids of those agents that have runs. The newest run of an agent is kept until the agent is deleted. */
    agentsWithRuns: (agents: readonly AgentKey[], sql: Sql = db): Promise<ReadonlySet<string>> =>
      selectAgentsWithRuns(sql, agents),
    /** Deletes all finished runs of deleted agents, with their steps. True: there may be more. */
    pruneRunsOf: (agents: readonly AgentKey[], onPrune: OnPrune): Promise<boolean> =>
      db.transaction(async (tx) => {
        const runs = await selectRunsOfAgents(tx, agents, BATCH);
        await pruneNow(tx, runs, onPrune);
        return runs.length === BATCH;
      }),
  };
}

async function pruneNow(tx: Tx, runs: readonly RunKey[], onPrune: OnPrune): Promise<void> {
  if (runs.length === 0) return;
  await onPrune(tx, runs);
  await deleteRuns(tx, runs);
}

/** Deletes finished runs, a batch at a time. */

/** Cursor of the search for old runs. */
export interface OldRun extends RunKey {
  finished_at: Instant;
}

/** The cursor before all runs. */
export const NO_RUN: OldRun = { finished_at: "1970-01-01T00:00:00.000Z", user_id: NIL_ID, run_id: NIL_ID };

/**
 * Takes the lock under which only one node prunes, until the transaction ends. False: another node has it. The number is
 * its own: the ledger shares 7470627.
 */
export async function takePruningLock(tx: Tx): Promise<boolean> {
  const [row] = await tx.query<{ mine: boolean }>({ text: "select pg_try_advisory_xact_lock(7470629) as mine" });
  return row?.mine === true;
}

/**
 * Runs that finished before an instant, oldest first, after the cursor `after`. `is_last`: the newest run of its agent.
 */
export async function selectOldRuns(
  tx: Tx,
  { before, after, limit }: { before: Instant; after: OldRun; limit: number },
): Promise<(OldRun & { is_last: boolean })[]> {
  return tx.query({
    name: "run_old",
    text: `select user_id, id as run_id, finished_at, not exists (
          select from run newer where newer.user_id = run.user_id and newer.agent_id = run.agent_id and newer.id > run.id
        ) as is_last
      from run where finished_at < $1 and (finished_at, user_id, id) > ($2, $3, $4)
      order by finished_at, user_id, id limit $5`,
    values: [before, after.finished_at, after.user_id, after.run_id, limit],
  });
}

/** Failed and cancelled runs, as the index run_unsuccessful has them. Runs of a schedule do not count: their user did not start them. */
const UNSUCCESSFUL = "finished_at is not null and status <> 'succeeded' and trigger <> 'schedule'";

/** Runs that cost nothing, older than the newest `kept` failed and cancelled ones of their user; no agent's newest run. */
export async function selectUnpaidRuns(tx: Tx, { kept, limit }: { kept: number; limit: number }): Promise<RunKey[]> {
  return tx.query({
    name: "run_unpaid",
    text: `select old.user_id, old.id as run_id
      from (select user_id, count(*) as runs from run where ${UNSUCCESSFUL} group by user_id having count(*) > $1) as crowded
      cross join lateral (
        select user_id, id, agent_id, cost_tokens from run where user_id = crowded.user_id and ${UNSUCCESSFUL}
        order by id limit crowded.runs - $1
      ) as old
      where cost_tokens = 0 and exists (
        select from run newer where newer.user_id = old.user_id and newer.agent_id = old.agent_id and newer.id > old.id
      )
      limit $2`,
    values: [kept, limit],
  });
}

/** Finished runs of these agents. */
export async function selectRunsOfAgents(tx: Tx, agents: readonly AgentKey[], limit: number): Promise<RunKey[]> {
  return tx.query({
    name: "run_of_agents",
    text: `select old.user_id, old.id as run_id
      from jsonb_to_recordset($1::jsonb) as agent(user_id uuid, agent_id uuid)
      cross join lateral (
        select user_id, id from run where user_id = agent.user_id and agent_id = agent.agent_id and finished_at is not null
        order by id limit $2
      ) as old
      limit $2`,
    values: [JSON.stringify(agents), limit],
  });
}

/** The ids of those agents that have runs. */
export async function selectAgentsWithRuns(sql: Sql, agents: readonly AgentKey[]): Promise<Set<string>> {
  const rows = await sql.query<{ agent_id: string }>({
    text: `select agent_id from jsonb_to_recordset($1::jsonb) as given(user_id uuid, agent_id uuid)
      where exists (select from run where run.user_id = given.user_id and run.agent_id = given.agent_id)`,
    values: [JSON.stringify(agents)],
  });
  return new Set(rows.map(({ agent_id }) => agent_id));
}

/** Deletes the runs with their steps. */
export async function deleteRuns(tx: Tx, runs: readonly RunKey[]): Promise<void> {
  await tx.query({
    name: "run_delete",
    text: `delete from run using jsonb_to_recordset($1::jsonb) as old(user_id uuid, run_id uuid)
      where run.user_id = old.user_id and run.id = old.run_id and finished_at is not null`,
    values: [JSON.stringify(runs)],
  });
}

/** What runs that cost nothing have stored today. `sql/count_free_run.sql` notes them. */
export function createFreeRuns({ db, clock }: { db: Db; clock: Clock }) {
  const { runs, run_bytes } = FREE_DAY;
  return {
    /** Those of these users who may store no other free run today. */
    async withoutFreeRoom(user_ids: readonly string[], sql: Sql = db): Promise<ReadonlySet<string>> {
      if (user_ids.length === 0) return new Set();
      const rows = await sql.query<{ user_id: string }>({
        name: "free_run_room",
        text: `select user_id from unnest($1::uuid[]) as given(user_id) cross join lateral (
            select count(*) as runs, coalesce(sum(bytes), 0) as bytes from (
              select bytes from free_run where free_run.user_id = given.user_id and ended_at >= $2 limit $3
            ) as counted
          ) as today where runs >= $3 or bytes >= $4`,
        values: [user_ids, startOfDay(clock.now()), runs, run_bytes],
      });
      return new Set(rows.map(({ user_id }) => user_id));
    },
    /** Deletes the notes of former days. Called periodically. */
    async sweepFreeRuns(): Promise<void> {
      await db.query({ text: "delete from free_run where ended_at < $1", values: [startOfDay(clock.now())] });
    },
    async forgetFreeRuns(tx: Tx, user_id: string): Promise<void> {
      await tx.query({ text: "delete from free_run where user_id = $1", values: [user_id] });
    },
  };
}
