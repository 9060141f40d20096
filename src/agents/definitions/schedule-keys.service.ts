import type { Ledger } from "../../account/ledger/ledger.types.ts";
import type { Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { EndedRun } from "../runs/runs.types.ts";
import type { EngineInput } from "../runs/transcript.ts";
import type { ScheduleState, Schedules } from "../schedules/schedules.service.ts";
import type { DueSchedule } from "../schedules/tick.service.ts";
import { isLasting, isLiftable, type KeyPause, keyPause, type ScheduleKey } from "./schedule-key.ts";

/**
 * Schedules pause with the API key that enabled them and resume when it may pay again. Transactions lock in this order:
 * agent, schedule, key, run.
 */
export function createScheduleKeys(deps: {
  clock: Clock;
  schedules: Pick<Schedules, "pause" | "resume" | "find" | "lockOfKey">;
  ledger: Pick<Ledger, "keySpends">;
  /** These keys, by id, locked until the transaction ends. */
  keysOf(tx: Tx, ids: readonly string[]): Promise<ReadonlyMap<string, ScheduleKey>>;
  log: Log;
}) {
  const { clock, schedules, ledger, keysOf, log } = deps;

  const pause = async (tx: Tx, schedule: Pick<ScheduleState, "user_id" | "id" | "agent_id">, reason: KeyPause) => {
    await schedules.pause(tx, schedule, reason);
    log.info({ agent_id: schedule.agent_id, schedule_id: schedule.id, reason }, "a schedule is being paused");
  };

  return {
    /** The keys that due schedules count against. Pauses the schedules whose key no longer pays; `pauses` is by schedule. */
    async judge(
      tx: Tx,
      due: readonly DueSchedule[],
    ): Promise<{ keys: ReadonlyMap<string, ScheduleKey>; pauses: ReadonlyMap<string, KeyPause> }> {
      const pauses = new Map<string, KeyPause>();
      const keyed = due.filter(({ api_key_id }) => api_key_id !== null);
      if (keyed.length === 0) return { keys: new Map(), pauses };
      const ids = [...new Set(keyed.map(({ api_key_id }) => api_key_id ?? ""))];
      const keys = await keysOf(tx, ids);
      const spends = await ledger.keySpends({ user_ids: [...new Set(keyed.map(({ user_id }) => user_id))], ids }, tx);
      for (const schedule of keyed) {
        const id = schedule.api_key_id ?? "";
        const reason = keyPause(keys.get(id), { spend: spends.get(id), now: clock.now() });
        if (reason === null) continue;
        pauses.set(schedule.id, reason);
        if (isLasting(reason, keys.get(id))) await pause(tx, schedule, reason);
      }
      return { keys, pauses };
    },

    /**
     * Pauses the schedule after a due run's call exceeded its key's budget, unless the key or its budget has changed
     * since.
     */
    async pauseForBudget(tx: Tx, { user_id, schedule_id, due_input }: EndedRun): Promise<void> {
      const schedule = schedule_id === null ? undefined : await schedules.find({ user_id, id: schedule_id }, tx);
      const { api_key_id, key_budget_tokens } = (due_input ?? {}) as Partial<EngineInput>;
      if (schedule === undefined || api_key_id == null || schedule.api_key_id !== api_key_id) return;
      const key = (await keysOf(tx, [api_key_id])).get(api_key_id);
      const is_same = key?.budget_tokens === key_budget_tokens && isLasting("key_budget_exceeded", key);
      if (is_same) await pause(tx, schedule, "key_budget_exceeded");
    },

    /**
     * Call it before `key` is changed as given, in the same transaction. The schedules of a revoked key pause. Schedules
     * that waited for a larger budget or a later expiry resume.
     */
    async applyKeyChange(tx: Tx, key: ScheduleKey & { user_id: string }): Promise<void> {
      const { user_id, id: api_key_id } = key;
      const of_key = await schedules.lockOfKey(tx, user_id, api_key_id);
      if (key.revoked_at !== null) {
        for (const schedule of of_key) await pause(tx, schedule, "key_revoked");
        return;
      }
      const spend = (await ledger.keySpends({ user_ids: [user_id], ids: [api_key_id] }, tx)).get(api_key_id);
      const reason = keyPause(key, { spend, now: clock.now() });
      if (reason !== null && isLasting(reason, key)) return;
      for (const schedule of of_key) {
        if (!isLiftable(schedule.paused_reason)) continue;
        await schedules.resume(tx, schedule);
        log.info(
          { agent_id: schedule.agent_id, schedule_id: schedule.id },
          "a schedule goes on, since its API key may pay again",
        );
      }
    },
  };
}

export type ScheduleKeys = ReturnType<typeof createScheduleKeys>;
