import type { Renewal } from "./billing/periods.service.ts";
import type { Crossing } from "./ledger/ledger.types.ts";
import type { Notices } from "./notices/notices.service.ts";
import type { NewNotice } from "./notices/notices.types.ts";
import type { Tx } from "./platform/db.ts";
import { newId } from "./platform/ids.ts";
import type { RunFailed } from "./runs/runs.types.ts";
import type { SchedulePaused } from "./schedules/schedules.service.ts";
import type { Reflection } from "./vault/vault.types.ts";

/** Events of the modules as notices, so that no module knows `notices`. */

/** A message may quote what a provider said. */
const MESSAGE_CHARS = 500;

/** The `notify` functions of the modules. Each emits its notice in the transaction of the event. */
export function createNotifiers(notices: Pick<Notices, "emit">) {
  return {
    ledger: (crossing: Crossing, tx: Tx) => notices.emit(crossingNotice(crossing), tx),
    billing: (renewal: Renewal, tx: Tx) => notices.emit(renewalNotice(renewal), tx),
    vault: (reflection: Reflection, tx: Tx) => notices.emit(reflectionNotice(reflection), tx),
    async runs(event: RunFailed | SchedulePaused, tx: Tx): Promise<void> {
      const notice = runNotice(event);
      if (notice !== null) await notices.emit(notice, tx);
    },
  };
}

/** null: the caller of a chat has the failure in the answer. */
function runNotice(event: RunFailed | SchedulePaused): NewNotice | null {
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
function renewalNotice({ user_id, plan_id, period_start, period_end }: Renewal): NewNotice {
  const data = { plan_id, period_start, period_end };
  return { user_id, event: "subscription.renewed", dedupe_key: period_start, data };
}

/** A secret that a site sent back. Each version is, once. */
function reflectionNotice({ user_id, id, name, version, run_id }: Reflection): NewNotice {
  const data = { secret_id: id, secret_name: name, run_id };
  return { user_id, event: "secret.reflected", dedupe_key: `${id}:${version}`, data };
}

/** A threshold, named by the entry that crossed it. */
function crossingNotice(crossing: Crossing): NewNotice {
  const { user_id, kind, percent } = crossing;
  const about = { user_id, dedupe_key: `${crossing.seq}:${percent}` };
  switch (kind) {
    case "balance": {
      const { granted_tokens, remaining_tokens } = crossing;
      return { ...about, event: "balance.low", data: { percent, granted_tokens, remaining_tokens } };
    }
    case "overage": {
      const { cap_tokens, used_tokens } = crossing;
      return { ...about, event: "overage.cap_near", data: { percent, cap_tokens, used_tokens } };
    }
    case "key_budget": {
      const { api_key_id, budget_tokens, spent_tokens } = crossing;
      return { ...about, event: "key_budget.near", data: { percent, api_key_id, budget_tokens, spent_tokens } };
    }
  }
}
