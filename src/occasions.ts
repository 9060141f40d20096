import type { Renewal } from "./billing/periods.service.ts";
import type { Crossing } from "./ledger/ledger.types.ts";
import type { NewNotice } from "./notices/notices.types.ts";
import { newId } from "./platform/ids.ts";
import type { RunFailed } from "./runs/runs.types.ts";
import type { SchedulePaused } from "./schedules/schedules.service.ts";
import type { Reflection } from "./vault/vault.types.ts";

/** What the rooms report, as notices: none of them knows the room that tells of it. */

/** A message may quote what a provider said. */
const MESSAGE_CHARS = 500;

/** null: whoever talks to an agent has the failure in the answer. */
export function runNotice(event: RunFailed | SchedulePaused): NewNotice | null {
  const { user_id, agent_id } = event;
  if (event.kind === "schedule_paused") {
    // Only a schedule that was going pauses, so each pause is another occurrence.
    return { user_id, event: "schedule.paused", dedupe_key: newId(), data: { agent_id, reason: event.reason } };
  }
  const { run_id, trigger, error } = event;
  if (trigger === "chat") return null;
  const error_message = error.message.slice(0, MESSAGE_CHARS).toWellFormed();
  const data = { agent_id, run_id, trigger, error_code: error.code, error_message };
  return { user_id, event: "run.failed", dedupe_key: run_id, data };
}

/** A subscription's next period, paid for. */
export function renewalNotice({ user_id, plan_id, period_start, period_end }: Renewal): NewNotice {
  const data = { plan_id, period_start, period_end };
  return { user_id, event: "subscription.renewed", dedupe_key: period_start, data };
}

/** A secret that a site sent back. Each version is, once. */
export function reflectionNotice({ user_id, id, name, version, run_id }: Reflection): NewNotice {
  const data = { secret_id: id, secret_name: name, run_id };
  return { user_id, event: "secret.reflected", dedupe_key: `${id}:${version}`, data };
}

/** A threshold, named by the entry that crossed it. */
export function crossingNotice(crossing: Crossing): NewNotice {
  const { user_id, kind, percent } = crossing;
  const told = { user_id, dedupe_key: `${crossing.seq}:${percent}` };
  switch (kind) {
    case "balance": {
      const { granted_tokens, remaining_tokens } = crossing;
      return { ...told, event: "balance.low", data: { percent, granted_tokens, remaining_tokens } };
    }
    case "overage": {
      const { cap_tokens, used_tokens } = crossing;
      return { ...told, event: "overage.cap_near", data: { percent, cap_tokens, used_tokens } };
    }
    case "key_budget": {
      const { api_key_id, budget_tokens, spent_tokens } = crossing;
      return { ...told, event: "key_budget.near", data: { percent, api_key_id, budget_tokens, spent_tokens } };
    }
  }
}
