import { type BudgetInterval, budgetUse, type KeySpend, type Limits } from "../../api/contract/key-terms.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import { type AgentConfig, sameConfig } from "./agent-config.ts";

/** The API key that a schedule's runs count against: contract 3. */

/** `paused_reason` of a schedule whose key no longer pays for runs. */
export type KeyPause = "key_revoked" | "key_expired" | "key_budget_exceeded";

/** Why a due instant did not run, for the agent's owner. */
export const KEY_PAUSE_REASON: Record<KeyPause, string> = {
  key_revoked: "key_revoked: the API key that enabled the schedule was revoked",
  key_expired: "key_expired: the API key that enabled the schedule has expired",
  key_budget_exceeded: "key_budget_exceeded: the budget of the API key that enabled the schedule is used up",
};

/** The fields that decide whether a key still pays. */
export interface ScheduleKey {
  readonly id: string;
  readonly budget_tokens: number | null;
  readonly budget_interval: BudgetInterval | null;
  readonly allowed_models: readonly string[] | null;
  readonly limits: Limits | null;
  readonly expires_at: Instant | null;
  readonly revoked_at: Instant | null;
}

/** Whether an agent does the same after a change of its settings. */
export function isSameTask(before: AgentConfig, after: AgentConfig): boolean {
  const { name, description, deliveries } = after;
  return sameConfig({ ...before, name, description, deliveries }, after);
}

/**
 * The key that a schedule counts against after a write: the writer's key if the write enables the schedule, resumes it or
 * changes when and what it runs. So no key pays for a task that another caller wrote. Null: the console, or it is off.
 */
export function scheduleKeyAfter(write: {
  enabled: boolean;
  resumes: boolean;
  is_same_task: boolean;
  before_key_id: string | null;
  caller_key_id: string | null;
}): string | null {
  if (!write.enabled) return null;
  return write.resumes || !write.is_same_task ? write.caller_key_id : write.before_key_id;
}

/** Why a key does not pay for runs now; null: it pays. A missing key was revoked. */
export function keyPause(
  key: ScheduleKey | undefined,
  { spend, now }: { spend: KeySpend | undefined; now: Instant },
): KeyPause | null {
  if (key === undefined || key.revoked_at !== null) return "key_revoked";
  if (key.expires_at !== null && key.expires_at <= now) return "key_expired";
  const { budget_tokens, budget_interval } = key;
  return budget_tokens !== null && budgetUse(spend, budget_interval) >= budget_tokens ? "key_budget_exceeded" : null;
}

/** Whether the schedule pauses until the key changes. A budget with an interval starts again, so only runs are skipped. */
export function isLasting(reason: KeyPause, key: Pick<ScheduleKey, "budget_interval"> | undefined): boolean {
  return reason !== "key_budget_exceeded" || key?.budget_interval == null;
}

/** Whether a changed key may lift this pause: a revoked key stays revoked. */
export function isLiftable(paused_reason: string | null): boolean {
  const liftable: readonly (string | null)[] = ["key_expired", "key_budget_exceeded"] satisfies KeyPause[];
  return liftable.includes(paused_reason);
}
