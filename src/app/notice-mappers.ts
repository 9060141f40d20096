import type { AutoTopupPaused } from "../account/billing/auto-topup.service.ts";
import type { Renewal } from "../account/billing/payments.types.ts";
import type { Crossing } from "../account/ledger/ledger.types.ts";
import type { Notices } from "../account/notices/notices.service.ts";
import { type NewNotice, NOTICE_ARGUMENTS_CHARS } from "../account/notices/notices.types.ts";
import type { RunFailed, RunHasErrors, RunRequiresAction, RunSucceeded } from "../agents/runs/runs.types.ts";
import type { SchedulePaused } from "../agents/schedules/schedules.service.ts";
import { isUnwatched, type UnwatchedTrigger } from "../api/contract/runs.ts";
import type { Tx } from "../platform/db/db.ts";
import { newId } from "../platform/lib/ids.ts";
import type { SecretDisconnected, SecretLeak } from "../vault/vault.types.ts";

/** Maps module events to notices, so that no module has to import notices. */

/** Limits a message, because it may quote a provider's answer. */
const MESSAGE_CHARS = 500;
/** A notice has this many of the actions that a run waits for. */
const ACTIONS = 5;

/** The `notify` functions of the modules. Each emits its notice in the transaction of the event. */
export function createNotifiers(notices: Pick<Notices, "emit">) {
  return {
    ledger: (crossing: Crossing, tx: Tx) => notices.emit(thresholdNotice(crossing), tx),
    billing: {
      notify: (renewal: Renewal, tx: Tx) => notices.emit(renewalNotice(renewal), tx),
      onAutoTopupPaused: (pause: AutoTopupPaused, tx: Tx) => notices.emit(autoTopupNotice(pause), tx),
    },
    vault: {
      notify: (leak: SecretLeak, tx: Tx) => notices.emit(secretLeakNotice(leak), tx),
      onDisconnect: (event: SecretDisconnected, tx: Tx) => notices.emit(disconnectNotice(event), tx),
    },
    schedules: (pause: SchedulePaused, tx: Tx) => notices.emit(pauseNotice(pause), tx),
    /** Whoever watches a chat or a test sees its end. */
    runs: {
      notify: async ({ trigger, ...failure }: RunFailed, tx: Tx): Promise<void> => {
        if (isUnwatched(trigger)) await notices.emit(runFailureNotice({ ...failure, trigger }), tx);
      },
      onSuccess: async ({ trigger, ...run }: RunSucceeded, tx: Tx): Promise<void> => {
        if (isUnwatched(trigger)) await notices.emit(runSuccessNotice({ ...run, trigger }), tx);
      },
      onErrors: async ({ trigger, ...run }: RunHasErrors, tx: Tx): Promise<void> => {
        if (isUnwatched(trigger)) await notices.emit(runErrorsNotice({ ...run, trigger }), tx);
      },
      /** Also of a chat: its caller may be a program that cannot decide. */
      onRequiresAction: (run: RunRequiresAction, tx: Tx) => notices.emit(requiresActionNotice(run), tx),
    },
  };
}

/** A paused schedule cannot pause again, so each pause gets its own key. */
function pauseNotice({ user_id, ...data }: SchedulePaused): NewNotice {
  return { user_id, event: "schedule.paused", dedupe_key: newId(), data };
}

type Attended<Event extends { trigger: RunFailed["trigger"] }> = Omit<Event, "trigger"> & {
  trigger: UnwatchedTrigger;
};

function runFailureNotice({ user_id, agent_id, run_id, trigger, error }: Attended<RunFailed>): NewNotice {
  const data = { agent_id, run_id, trigger, ...shownError(error) };
  return { user_id, event: "run.failed", dedupe_key: run_id, data };
}

function runSuccessNotice({ user_id, agent_id, run_id, trigger }: Attended<RunSucceeded>): NewNotice {
  return { user_id, event: "run.succeeded", dedupe_key: run_id, data: { agent_id, run_id, trigger } };
}

function runErrorsNotice({
  user_id,
  agent_id,
  run_id,
  trigger,
  failed_steps,
  call,
}: Attended<RunHasErrors>): NewNotice {
  const data = { agent_id, run_id, trigger, failed_steps, tool: call.name, ...shownError(call.error) };
  return { user_id, event: "run.has_errors", dedupe_key: run_id, data };
}

/** One notice for all that a run asks at once. An action is asked once, so the first one identifies the notice. */
function requiresActionNotice({ user_id, agent_id, run_id, trigger, actions }: RunRequiresAction): NewNotice {
  const shown = actions.slice(0, ACTIONS).map((action) => {
    const { id, type, tool, destination, arguments: given, reason, expires_at } = action;
    return { id, type, tool, destination, arguments: shortened(given), reason, expires_at };
  });
  const data = { agent_id, run_id, trigger, actions_count: actions.length, actions: shown };
  return { user_id, event: "run.requires_action", dedupe_key: actions[0]?.id ?? run_id, data };
}

function shortened(given: unknown): string | null {
  if (given === null) return null;
  const text = JSON.stringify(given, null, 2);
  return text.length <= NOTICE_ARGUMENTS_CHARS ? text : `${text.slice(0, NOTICE_ARGUMENTS_CHARS).toWellFormed()}…`;
}

function shownError({ code, message }: RunFailed["error"]) {
  return { error_code: code, error_message: message.slice(0, MESSAGE_CHARS).toWellFormed() };
}

/** A subscription's next period is paid. */
function renewalNotice({ user_id, plan_id, period_start, period_end }: Renewal): NewNotice {
  const data = { plan_id, period_start, period_end };
  return { user_id, event: "subscription.renewed", dedupe_key: period_start, data };
}

/** Automatic top-ups that are paused cannot pause again, so each pause gets its own key: one payment can cause several. */
function autoTopupNotice({ user_id, ...data }: AutoTopupPaused): NewNotice {
  return { user_id, event: "auto_topup.paused", dedupe_key: newId(), data };
}

/** A site returned a secret (a secret leak). Each version of the secret gives one notice. */
function secretLeakNotice({ user_id, id, name, version, run_id }: SecretLeak): NewNotice {
  const data = { secret_id: id, secret_name: name, run_id };
  return { user_id, event: "secret.reflected", dedupe_key: `${id}:${version}`, data };
}

/** An authorization server refuses an oauth secret. Each version of the secret gives one notice. */
function disconnectNotice({ user_id, id, name, version, server }: SecretDisconnected): NewNotice {
  const data = { secret_id: id, secret_name: name, server };
  return { user_id, event: "secret.disconnected", dedupe_key: `${id}:${version}`, data };
}

/** A threshold alert, identified by the ledger entry that crossed the threshold. */
function thresholdNotice(crossing: Crossing): NewNotice {
  const { user_id, kind, percent } = crossing;
  const base = { user_id, dedupe_key: `${crossing.seq}:${percent}` };
  switch (kind) {
    case "balance": {
      const { granted_tokens, remaining_tokens } = crossing;
      return { ...base, event: "balance.low", data: { percent, granted_tokens, remaining_tokens } };
    }
    case "overage": {
      const { cap_tokens, used_tokens } = crossing;
      return { ...base, event: "overage.cap_near", data: { percent, cap_tokens, used_tokens } };
    }
    case "key_budget": {
      const { api_key_id, budget_tokens, spent_tokens } = crossing;
      return { ...base, event: "key_budget.near", data: { percent, api_key_id, budget_tokens, spent_tokens } };
    }
  }
}
