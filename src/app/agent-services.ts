import type { Billing } from "../account/billing/billing.service.ts";
import type { ChargingLedger, Ledger } from "../account/ledger/ledger.types.ts";
import type { Notices } from "../account/notices/notices.service.ts";
import type { Accounts } from "../account/users/accounts.service.ts";
import { createAgentModel } from "../agents/chat/agent-model.ts";
import { createChat } from "../agents/chat/chat.service.ts";
import { createThreads } from "../agents/chat/threads.service.ts";
import { createAgents } from "../agents/definitions/agents.service.ts";
import { type AgentsStore, START_STATEMENTS } from "../agents/definitions/agents.store.ts";
import { createRunOutcomes } from "../agents/definitions/run-outcomes.service.ts";
import { createScheduleKeys } from "../agents/definitions/schedule-keys.service.ts";
import { createRunFollowers } from "../agents/runs/following.ts";
import { createRunner } from "../agents/runs/runner.service.ts";
import { createRuns, type RunsDeps } from "../agents/runs/runs.service.ts";
import type { ClaimLimits, LostRun } from "../agents/runs/runs.types.ts";
import { createSchedules } from "../agents/schedules/schedules.service.ts";
import { createTools } from "../agents/tools/tools.service.ts";
import type { WebhookKeys } from "../agents/tools/webhook-keys.service.ts";
import { createTriggers } from "../agents/triggers/triggers.service.ts";
import { createTriggerStore } from "../agents/triggers/triggers.store.ts";
import type { UserLimits } from "../api/contract/key-terms.ts";
import type { Config } from "../config/config.ts";
import type { Completions } from "../gateway/completions/completions.types.ts";
import type { Models } from "../gateway/models/models.service.ts";
import type { Reader } from "../platform/db/db.ts";
import { newId } from "../platform/lib/ids.ts";
import type { Log } from "../platform/telemetry/log.ts";
import type { Metrics } from "../platform/telemetry/metrics.ts";
import { newMark } from "../safety/fence.ts";
import { createSanitizer } from "../safety/sanitizer.ts";
import type { Vault } from "../vault/vault.service.ts";
import type { Base } from "./base-services.ts";
import type { createNotifiers } from "./notice-mappers.ts";
import type { LiveSettings } from "./reload.ts";

interface AgentServicesDeps {
  config: Config;
  live: LiveSettings;
  log: Log;
  base: Base;
  accounts: Accounts;
  agents_store: AgentsStore;
  ledger: Ledger;
  models: Models;
  vault: Vault;
  webhook_keys: WebhookKeys;
  notices: Notices;
  notify: ReturnType<typeof createNotifiers>;
  reads(): Promise<Reader>;
  meansOf: Billing["means"];
  /** The service's public address. */
  url(): string;
}

/** The modules that work for agents: tools, schedules, runs and chats. */
export function createAgentServices(deps: AgentServicesDeps) {
  const { config, live, log, accounts, agents_store, ledger, models, vault, webhook_keys, notices, notify, meansOf } =
    deps;
  const { db, clock, outbound, metrics } = deps.base;
  const { safety_off, keep_runs_days } = config;
  const core = { db, clock, log };
  const sanitizer = createSanitizer({ threads: 2, judges: () => live.judges });
  const onFailure = metrics.toolFailed;
  const { is_drill } = config;
  const worker_id = newId();
  const tools = createTools({ ...core, outbound, sanitizer, webhook_keys, vault, safety_off, is_drill, onFailure });
  const schedules = createSchedules({ db, clock, notify: notify.schedules });
  const { keysOf } = accounts;
  const schedule_keys = createScheduleKeys({ clock, log, schedules, ledger, keysOf });
  const runs = createRuns({
    ...core,
    ...notify.runs,
    reads: deps.reads,
    onRunEnd: createRunOutcomes({ schedules, schedule_keys, deliverResults: notices.deliverResults, log }),
    ...logEnds({ metrics, log }),
    start_statements: START_STATEMENTS,
    // The copy's queue has runs of the real service, so a drill executes only what was begun in it.
    reserve_for: is_drill ? worker_id : null,
    ends_with_step: true,
  });
  metrics.watchQueue(runs.queueFigures);
  const threads = createThreads({ db, clock, runs, models });
  const followers = createRunFollowers({ runs, log });
  const agents = createAgents({
    ...core,
    store: agents_store,
    models,
    runs,
    schedules,
    schedule_keys,
    ledger,
    followers,
    meansOf,
    safety_off,
    keep_runs_days,
    minScheduleMinutes: () => deps.live.limits.min_schedule_minutes,
    suspended: accounts.suspended,
    secretNames: vault.names,
    forgetThreads: threads.forget,
    forgetTriggers: createTriggerStore(db).forgetAgent,
    usableDeliveries: notices.usableDeliveries,
    identify: accounts.identify,
    async onDelete(tx, keys) {
      await webhook_keys.forgetAgents(tx, keys);
      await notices.forgetAgents(tx, keys);
    },
    async onPrune(tx, pruned) {
      await threads.forgetTurns(tx, pruned);
      await notices.forgetRuns(tx, pruned);
    },
  });
  ledger.onGrant(agents.onGrant);
  ledger.onGrant(agents.relieveUser);
  accounts.onKeyChange({
    beforeKeyChange: schedule_keys.applyKeyChange,
    afterKeyRevoked: (tx, { user_id, id }) => runs.cancelOfKey(tx, user_id, id),
  });
  const takesPictures = (model_id: string) => models.find(model_id)?.supports.vision ?? null;
  const triggers = createTriggers({
    db,
    clock,
    cipher: deps.base.cipherFor("triggers"),
    agents,
    runs,
    lockAgent: agents_store.lockAgent,
    keysOf,
    suspended: accounts.suspended,
    limits: () => live.limits,
    url: deps.url,
    onDelivery: metrics.triggerDelivery,
  });
  const chat = createChat({ agents, runs, threads, worker_id, takesPictures, url: deps.url });
  const agentModel = createAgentModel({ chat, find: agents.found, log });
  return { tools, schedules, runs, followers, threads, agents, chat, agentModel, triggers, worker_id, sanitizer };
}

/** The worker that executes runs. */
export function createAgentRunner(
  { tools, runs, followers, threads, agents, chat, worker_id, sanitizer }: ReturnType<typeof createAgentServices>,
  deps: {
    config: Config;
    live: LiveSettings;
    log: Log;
    base: Base;
    charges: ChargingLedger & Pick<Ledger, "refills">;
    models: Models;
    completions: Completions;
  },
) {
  const { config, live, log, base, charges, models, completions } = deps;
  const { is_drill, drain_seconds } = config;
  return createRunner({
    clock: base.clock,
    log,
    metrics: base.metrics,
    tracer: base.tracer,
    models,
    completions,
    tools,
    runs,
    followers,
    newMark,
    sanitizer,
    worker_id,
    drain_seconds,
    ledger: charges,
    limits: () => claimLimits(live),
    reserved_only: config.role === "api" || is_drill,
    loadConfig: agents.loadConfig,
    withHistory: threads.withHistory,
    findListener: chat.findListener,
    isAwaited: () => is_drill || chat.isAwaited(),
  });
}

/** Logs and counts the runs that end outside of a worker: lost ones, and cancelled ones. */
function logEnds({ metrics, log }: { metrics: Metrics; log: Log }): Pick<RunsDeps, "onLost" | "onCancelled"> {
  return {
    onLost(lost) {
      for (const run of lost) {
        metrics.runFinished("failed", "worker_lost");
        log.info({ ...idsOfRun(run), status: "failed", code: "worker_lost" }, "run");
      }
    },
    onCancelled(run) {
      log.info({ ...idsOfRun(run), status: "cancelled", code: run.error?.code ?? null }, "run");
    },
  };
}

function idsOfRun({ run_id, user_id, agent_id, trigger }: LostRun): LostRun {
  return { run_id, user_id, agent_id, trigger };
}

/** The limits of claims, plans included. */
function claimLimits({ limits, plans }: LiveSettings): ClaimLimits {
  const each: readonly { id: string; limits?: UserLimits | undefined }[] = plans;
  const limited = each.flatMap(({ id, limits: own }) =>
    own?.concurrent_runs == null ? [] : [[id, own.concurrent_runs]],
  );
  return { ...limits, concurrent_runs_of_plans: limited.length === 0 ? undefined : Object.fromEntries(limited) };
}
