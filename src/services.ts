import { createAccounts } from "./accounts/accounts.service.ts";
import { createPasswords, type Passwords } from "./accounts/password.ts";
import { createSignIn } from "./accounts/sign-in.service.ts";
import { createTrials } from "./accounts/trials.service.ts";
import { createAgents } from "./agents/agents.service.ts";
import { createAgentsStore } from "./agents/agents.store.ts";
import { createRunOutcomes } from "./agents/run-outcomes.service.ts";
import { createScheduleKeys } from "./agents/schedule-keys.service.ts";
import { APPLY_WITH_STEPS, RUN_NOW_STATEMENTS } from "./agents/statements.store.ts";
import { createBilling } from "./billing/billing.service.ts";
import { createDisabledPayments } from "./billing/disabled-payments.ts";
import { PAYMENT_INVARIANTS } from "./billing/payments-audit.store.ts";
import { createSimulatedPayments } from "./billing/simulated-payments.ts";
import type { StripePayments } from "./billing/stripe.adapter.ts";
import { createAgentModel } from "./chat/agent-model.ts";
import { createChat } from "./chat/chat.service.ts";
import { createThreads } from "./chat/threads.service.ts";
import { createCompletions } from "./completions/completions.service.ts";
import type { Config } from "./config.ts";
import { createIdempotencyStore } from "./http/idempotency.store.ts";
import { createLedger } from "./ledger/ledger.service.ts";
import { observedCharges } from "./ledger/observed.ts";
import { createModels } from "./models/models.service.ts";
import { createNotifiers } from "./notice-mappers.ts";
import { createNotices } from "./notices/notices.service.ts";
import { createCipher } from "./platform/cipher.ts";
import { addDays, createSystemClock } from "./platform/clock.ts";
import { newId } from "./platform/ids.ts";
import type { Log } from "./platform/log.ts";
import { createMailer } from "./platform/mail.ts";
import { createMetrics } from "./platform/metrics.ts";
import { openDb } from "./platform/open-db.ts";
import { createOutbound } from "./platform/outbound.ts";
import { createPublicAddress } from "./platform/public-address.ts";
import { createSettableClock } from "./platform/timeline.ts";
import { createReload, type LiveSettings } from "./reload.ts";
import { createRunFollowers } from "./runs/run-followers.ts";
import { createRunner } from "./runs/runner.service.ts";
import { createRuns } from "./runs/runs.service.ts";
import { newMark } from "./safety/fence.ts";
import { createSanitizer } from "./safety/sanitizer.ts";
import { createSchedules } from "./schedules/schedules.service.ts";
import { createTools } from "./tools/tools.service.ts";
import { createWebhookKeys } from "./tools/webhook-keys.service.ts";
import { createDataKeys } from "./vault/data-keys.service.ts";
import { loadKeyring } from "./vault/keyring.ts";
import type { Keyring } from "./vault/keyring.types.ts";
import { createVault } from "./vault/vault.service.ts";

export type Services = Awaited<ReturnType<typeof createServices>>;

/**
 * Constructs every module and gives each the functions of other modules that it may not import. A function in braces
 * that names a later constant is called only after everything is constructed.
 */
export async function createServices(config: Config, log: Log, passwords: Passwords = createPasswords()) {
  const live: LiveSettings = { limits: config.limits, plans: config.plans, trial: config.trial };
  const keyring = config.keyring ?? loadKeyringWithWarning(config.data_dir, log);
  const metrics = createMetrics();
  const db = await openDb({ database_url: config.database_url, data_dir: config.data_dir, log });
  const keys = createDataKeys({ db, keyring, log });
  const service_key = await keys
    .check()
    .then(keys.ofService)
    .catch(async (error: Error) => {
      await db.close();
      throw error;
    });
  const settable = config.test_clock === null ? null : await createSettableClock({ db, start: config.test_clock });
  const clock = settable ?? createSystemClock();

  const outbound = createOutbound({ allow: config.egress_allow });
  const notices = createNotices({
    db,
    clock,
    cipher: createCipher(service_key, "webhook endpoints"),
    outbound,
    egress_allow: config.egress_allow,
    log,
    metrics,
  });
  const notify = createNotifiers(notices);
  const accounts = await createAccounts({ db, clock, onKeyChange: (key, tx) => schedule_keys.onKeyChange(key, tx) });
  const ledger = createLedger({
    db,
    clock,
    invariants: PAYMENT_INVARIANTS,
    with_riders: APPLY_WITH_STEPS,
    onGrant: (user_id) => agents.onGrant(user_id),
    notify: notify.ledger,
  });
  const charges = observedCharges(ledger, { metrics, log });
  const address = createPublicAddress(config);
  const mailer = createMailer(config.mail, log);
  const trials = await createTrials({ db, cipher: createCipher(service_key, "trials") });
  const signIn = await createSignIn({
    db,
    clock,
    log,
    mailer,
    passwords,
    url: address.url,
    signup: config.signup,
    verification: config.verification,
    async openAccount(tx, { id, email }) {
      const { days, tokens } = live.trial;
      const granted = await trials.take(tx, email);
      const trial = granted ? { ends_at: addDays(clock.now(), days), tokens } : null;
      await ledger.openAccount(tx, { user_id: id, trial });
      return granted ? "granted" : "used_before";
    },
  });
  const models = createModels({ config, clock });
  const reload = createReload({ config, live, models, log });
  const meansOf = (user_id: string) => billing.means(user_id);
  const completions = createCompletions({
    models,
    ledger: { ...charges, progress: ledger.progress, beginStop: ledger.beginStop, standing: ledger.standing },
    meansOf,
    fallbackAfterSeconds: () => live.limits.fallback_after_seconds,
    resolveAgent: (id, caller) => agentModel(id, caller),
  });
  const vault = createVault({ db, clock, keys, log, notify: notify.vault });
  const sanitizer = createSanitizer({ threads: 2 });
  const webhook_keys = createWebhookKeys({ db, clock, cipher: createCipher(service_key, "agent webhooks") });
  const tools = createTools({ outbound, sanitizer, webhook_keys, vault, log, safety_off: config.safety_off });
  const schedules = createSchedules({ db, clock, notify: notify.runs });
  const schedule_keys = createScheduleKeys({
    clock,
    store: createAgentsStore(db),
    schedules,
    cancelDueWith: (tx, user_id, fields) => runs.cancelDueWith(tx, user_id, fields),
    ledger,
    keysOf: accounts.keysOf,
    log,
  });
  const runs = createRuns({
    db,
    clock,
    notify: notify.runs,
    onRunEnd: createRunOutcomes({ schedules, schedule_keys, log }),
    onLost(lost) {
      for (let n = 0; n < lost; n += 1) metrics.runFinished("failed", "worker_lost");
    },
    run_now_statements: RUN_NOW_STATEMENTS,
    ends_with_step: true,
  });
  metrics.watchQueue(runs.queueFigures);
  const threads = createThreads({ db, clock, runs, models });
  const followers = createRunFollowers({ runs, log });
  const agents = createAgents({
    db,
    clock,
    log,
    models,
    runs,
    schedules,
    schedule_keys,
    ledger,
    meansOf,
    suspended: accounts.suspended,
    safety_off: config.safety_off,
    secretNames: vault.names,
    keep_runs_days: config.keep_runs_days,
    followers,
    forgetThreads: threads.forget,
    forgetTurns: threads.forgetTurns,
  });
  const worker_id = newId();
  const chat = createChat({ agents, runs, threads, worker_id });
  const agentModel = createAgentModel({ chat, exists: agents.exists });
  const runner = createRunner({
    ...{ clock, log, metrics, ledger: charges, models, completions, tools, runs, followers, newMark, worker_id },
    limits: () => live.limits,
    chats_only: config.role === "api",
    configOf: agents.configOf,
    withHistory: threads.withHistory,
    listenerOf: chat.listenerOf,
    isAwaited: chat.isAwaited,
  });
  const stripe = config.stripe === null ? null : await createStripe(config, config.stripe);
  const payments =
    stripe ?? (config.payments === "sandbox" ? createSimulatedPayments("sandbox") : createDisabledPayments());
  const billing = createBilling({
    ...{ db, clock, ledger, users: accounts, payments, plans: () => live.plans, log },
    notify: notify.billing,
  });
  const idempotency = createIdempotencyStore({ db, clock, cipher: createCipher(service_key, "idempotency") });

  const eraseUser = (user_id: string) =>
    db.transaction(async (tx) => {
      const email = await accounts.eraseUser(tx, user_id);
      await billing.forgetUser(tx, user_id);
      for (const module of [agents, idempotency, notices, webhook_keys]) await module.forgetUser(tx, user_id);
      await signIn.forgetUser(tx, user_id, email);
      await vault.erase(tx, user_id);
    });
  return {
    ...{ config, live, reload, log, metrics, db, clock, settable, address, mailer, idempotency, eraseUser },
    ...{ accounts, signIn, trials, ledger, models, completions, notices, vault, webhook_keys, stripe, billing },
    ...{ schedules, runs, runner, agents, chat },
  };
}

/** Stripe's SDK is loaded only where it is used: 40 MB. */
async function createStripe(config: Config, keys: NonNullable<Config["stripe"]>): Promise<StripePayments> {
  const { createStripePayments } = await import("./billing/stripe.adapter.ts");
  return createStripePayments({ ...keys, public_url: config.public_url ?? `http://${config.host}:${config.port}` });
}

function loadKeyringWithWarning(data_dir: string, log: Log): Keyring {
  const { keyring, warning } = loadKeyring(data_dir);
  if (warning !== null) log.warn(warning);
  return keyring;
}
