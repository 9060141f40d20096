import type { Ledger } from "../../account/ledger/ledger.types.ts";
import type { Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { EndedRun } from "../runs/runs.types.ts";
import type { EngineInput } from "../runs/transcript.ts";
import type { Schedules } from "../schedules/schedules.service.ts";
import type { AgentsStore } from "./agents.store.ts";
import { type DueAgent, forgetFailures, selectDueAgents } from "./outcome.store.ts";
import { isLasting, isLiftable, type KeyPause, keyPause, type ScheduleKey } from "./schedule-key.ts";

/**
 * Schedules pause with the API key that enabled them and resume when it may pay again. Transactions lock in this order:
 * agent, schedule, key, run.
 */
export function createScheduleKeys(deps: {
  clock: Clock;
  store: Pick<AgentsStore, "lockAgentsOfKey">;
  schedules: Pick<Schedules, "pauseSchedule" | "schedules">;
  ledger: Pick<Ledger, "keySpends">;
  /** These keys, by id, locked until the transaction ends. */
  keysOf(tx: Tx, ids: readonly string[]): Promise<ReadonlyMap<string, ScheduleKey>>;
  log: Log;
}) {
  const { clock, store, schedules, ledger, keysOf, log } = deps;

  const pause = async (tx: Tx, { user_id, agent_id }: Pick<DueAgent, "user_id" | "agent_id">, reason: KeyPause) => {
    await schedules.pauseSchedule({ user_id, agent_id }, reason, tx);
    log.info({ agent_id, reason }, "a schedule is being paused");
  };

  return {
    /** The keys that due agents count against. Pauses the schedules whose key no longer pays. */
    async judge(
      tx: Tx,
      agents: readonly DueAgent[],
    ): Promise<{ keys: ReadonlyMap<string, ScheduleKey>; pauses: ReadonlyMap<string, KeyPause> }> {
      const pauses = new Map<string, KeyPause>();
      const keyed = agents.filter(({ schedule_api_key_id }) => schedule_api_key_id !== null);
      if (keyed.length === 0) return { keys: new Map(), pauses };
      const ids = [...new Set(keyed.map(({ schedule_api_key_id }) => schedule_api_key_id ?? ""))];
      const keys = await keysOf(tx, ids);
      const spends = await ledger.keySpends({ user_ids: [...new Set(keyed.map(({ user_id }) => user_id))], ids }, tx);
      for (const agent of keyed) {
        const id = agent.schedule_api_key_id ?? "";
        const reason = keyPause(keys.get(id), { spend: spends.get(id), now: clock.now() });
        if (reason === null) continue;
        pauses.set(agent.agent_id, reason);
        if (isLasting(reason, keys.get(id))) await pause(tx, agent, reason);
      }
      return { keys, pauses };
    },

    /**
     * Pauses the schedule after a due run's call exceeded its key's budget, unless the key or its budget has changed
     * since.
     */
    async pauseForBudget(tx: Tx, run: EndedRun): Promise<void> {
      const [agent] = await selectDueAgents(tx, [run]);
      const { api_key_id, key_budget_tokens } = (run.due_input ?? {}) as Partial<EngineInput>;
      if (agent === undefined || api_key_id == null || agent.schedule_api_key_id !== api_key_id) return;
      const key = (await keysOf(tx, [api_key_id])).get(api_key_id);
      const is_same = key?.budget_tokens === key_budget_tokens && isLasting("key_budget_exceeded", key);
      if (is_same) await pause(tx, agent, "key_budget_exceeded");
    },

    /**
     * Call it before `key` is changed as given, in the same transaction. The schedules of a revoked key pause. Schedules
     * that waited for a larger budget or a later expiry resume.
     */
    async applyKeyChange(tx: Tx, key: ScheduleKey & { user_id: string }): Promise<void> {
      const { user_id, id: api_key_id } = key;
      const agents = await store.lockAgentsOfKey(tx, user_id, api_key_id);
      if (key.revoked_at !== null) {
        for (const { id: agent_id } of agents) await pause(tx, { user_id, agent_id }, "key_revoked");
        return;
      }
      const agent_ids = agents.map(({ id }) => id);
      const statuses = await schedules.schedules(user_id, agent_ids, tx);
      const spend = (await ledger.keySpends({ user_ids: [user_id], ids: [api_key_id] }, tx)).get(api_key_id);
      const reason = keyPause(key, { spend, now: clock.now() });
      if (reason !== null && isLasting(reason, key)) return;
      for (const agent_id of agent_ids) {
        if (!isLiftable(statuses.get(agent_id)?.paused_reason ?? null)) continue;
        await schedules.pauseSchedule({ user_id, agent_id }, null, tx);
        await forgetFailures(tx, { user_id, agent_id });
        log.info({ agent_id }, "a schedule goes on, since its API key may pay again");
      }
    },
  };
}

export type ScheduleKeys = ReturnType<typeof createScheduleKeys>;
