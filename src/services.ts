import { type Accounts, createAccounts } from "./accounts/accounts.service.ts";
import { createPasswords, type Passwords } from "./accounts/password.ts";
import { createSignIn, type SignIn } from "./accounts/sign-in.service.ts";
import { createTrials, type Trials } from "./accounts/trials.service.ts";
import { createAgents } from "./agents/agents.service.ts";
import { APPLY_WITH_STEPS, createAgentsStore, RUN_NOW_STATEMENTS } from "./agents/agents.store.ts";
import { createRunOutcomes } from "./agents/run-outcomes.service.ts";
import { createScheduleKeys } from "./agents/schedule-keys.service.ts";
import { type Billing, createBilling } from "./billing/billing.service.ts";
import type { PaymentProvider } from "./billing/payments.types.ts";
import { PAYMENT_INVARIANTS } from "./billing/payments-audit.store.ts";
import { createDisabledPayments, createSimulatedPayments } from "./billing/simulated-payments.ts";
import type { StripePayments } from "./billing/stripe.adapter.ts";
import { createAgentModel } from "./chat/agent-model.ts";
import { createChat } from "./chat/chat.service.ts";
import { createThreads } from "./chat/threads.service.ts";
import { createCompletions } from "./completions/completions.service.ts";
import type { Completions } from "./completions/completions.types.ts";
import { createEnvelopes } from "./completions/reasoning-envelope.ts";
import type { Config } from "./config.ts";
import type { UserLimits } from "./contract/key-terms.ts";
import { OAUTH_CALLBACK, OAUTH_CLIENT_METADATA } from "./contract/oauth-secrets.ts";
import { createIdempotencyStore } from "./http/idempotency.store.ts";
import { withChargeMetrics } from "./ledger/charge-metrics.ts";
import { createLedger } from "./ledger/ledger.service.ts";
import type { ChargingLedger, Ledger } from "./ledger/ledger.types.ts";
import { createLimits } from "./limits/limits.service.ts";
import { createModels, type Models } from "./models/models.service.ts";
import { isProviderFailure } from "./models/provider-errors.ts";
import { createNotifiers } from "./notice-mappers.ts";
import { createNotices } from "./notices/notices.service.ts";
import { createActs } from "./operator/acts.service.ts";
import { ACT_INVARIANTS } from "./operator/acts.store.ts";
import { createOperatorKeys } from "./operator/operator-keys.service.ts";
import { createCipher } from "./platform/cipher.ts";
import { addDays, type Clock, createSystemClock } from "./platform/clock.ts";
import type { Db, InSameTx, Tx } from "./platform/db.ts";
import { newId } from "./platform/ids.ts";
import { describeUnexpected, type Log } from "./platform/log.ts";
import { createMailer } from "./platform/mail.ts";
import { createMetrics, type Metrics } from "./platform/metrics.ts";
import { openDb } from "./platform/open-db.ts";
import { createOutbound } from "./platform/outbound.ts";
import { createPublicAddress, type PublicAddress } from "./platform/public-address.ts";
import { createSettableClock } from "./platform/settable-clock.ts";
import { createReads, openStandby } from "./platform/standby.ts";
import type { Tracer } from "./platform/tracing.ts";
import { createReload, type LiveSettings } from "./reload.ts";
import { createItemsStore } from "./responses/items.store.ts";
import { createRunFollowers } from "./runs/run-followers.ts";
import { createRunner } from "./runs/runner.service.ts";
import { createRuns } from "./runs/runs.service.ts";
import type { ClaimLimits, LostRun } from "./runs/runs.types.ts";
import { newMark } from "./safety/fence.ts";
import { createSanitizer } from "./safety/sanitizer.ts";
import { createSchedules } from "./schedules/schedules.service.ts";
import { createTools } from "./tools/tools.service.ts";
import { createWebhookKeys, type WebhookKeys } from "./tools/webhook-keys.service.ts";
import { createDataKeys } from "./vault/data-keys.service.ts";
import { type LoadedKeyring, withKeyring } from "./vault/keyring.ts";
import type { OAuthIdentity } from "./vault/oauth.adapter.ts";
import { createVault, type Vault } from "./vault/vault.service.ts";

export type Services = Awaited<ReturnType<typeof createServices>>;

/**
 * Constructs every module and gives each the functions of other modules that it may not import. A function in braces
 * that names a later constant is called only after everything is constructed.
 */
export async function createServices(config: Config, log: Log, passwords: Passwords = createPasswords()) {
  const live: LiveSettings = { limits: config.limits, plans: config.plans, trial: config.trial };
  const base = await openBase(config, log);
  const { db, clock, outbound, cipherFor, metrics, tracer } = base;
  const notices = createNotices({
    ...{ db, clock, outbound, egress_allow: config.egress_allow, log, metrics },
    cipher: cipherFor("webhook endpoints"),
  });
  const notify = createNotifiers(notices);
  const { routing_buckets } = config;
  const accounts = await createAccounts({
    ...{ db, clock, routing_buckets },
    onKeyChange: (key, tx) => work.schedule_keys.onKeyChange(key, tx),
  });
  const ledger = createLedger({
    db,
    clock,
    invariants: [...PAYMENT_INVARIANTS, ...ACT_INVARIANTS],
    with_hooks: APPLY_WITH_STEPS,
    reads: createReads({ db, standby: base.standby, log }),
    onGrant: (user_id) => work.agents.onGrant(user_id),
    notify: notify.ledger,
  });
  metrics.watchHolds(ledger.openHolds);
  const models = createModels({ config, clock });
  const modelId = (name: string) => (models.find(name) ?? models.findEmbedding(name))?.id ?? name;
  const limits = await createLimits({ db, plans: () => live.plans, modelId });
  const charges = withChargeMetrics(ledger, { metrics, log, countTokens: limits.countTokens });
  const address = createPublicAddress(config);
  const { mailer, trials, signIn } = await openSignIn({ config, live, log, base, address, ledger, passwords });
  const reload = createReload({ config, live, models, log });
  const meansOf = (user_id: string) => billing.means(user_id);
  const completions = createCompletions({
    ...{ models, meansOf, admit: limits.admitCall },
    ledger: { ...charges, progress: ledger.progress, beginStop: ledger.beginStop, accountStatus: ledger.accountStatus },
    fallbackAfterSeconds: () => live.limits.fallback_after_seconds,
    resolveAgent: (id, caller) => work.agentModel(id, caller),
    ...noteCalls({ metrics, log }),
  });
  const oauth = { outbound, identity: identityAt(address) };
  const vault = createVault({ db, clock, keys: base.keys, log, oauth, ...notify.vault });
  const webhook_keys = createWebhookKeys({ db, clock, cipher: cipherFor("agent webhooks") });
  const work = createAgentWork({
    ...{ config, live, log, base, accounts, ledger, charges, models },
    ...{ completions, vault, webhook_keys, notify, meansOf },
  });
  const { stripe, payments } = await choosePayments(config);
  const billing = createBilling({
    ...{ db, clock, ledger, users: accounts, payments, plans: () => live.plans, log },
    ...notify.billing,
  });
  const acts = createActs({ db, clock });
  const operator_keys = await createOperatorKeys({ db, clock, acts, admin_key: config.admin_key });
  const { idempotency, response_items, envelopes } = createSealedStores(base);
  const others = [billing, ledger.end_users, work.agents, idempotency, response_items, notices, webhook_keys, acts];
  const eraseUser = createEraseUser({ db, accounts, others, signIn, vault });
  return {
    ...{ config, live, reload, log, metrics, tracer, db, clock, settable: base.settable, address, mailer, eraseUser },
    ...{ standby: base.standby, tools: work.tools },
    ...{ idempotency, limits, response_items, envelopes, acts, operator_keys, oauth_identity: oauth.identity },
    ...{ accounts, signIn, trials, ledger, models, completions, notices, vault, webhook_keys, stripe, billing },
    ...{ schedules: work.schedules, runs: work.runs, runner: work.runner, agents: work.agents, chat: work.chat },
  };
}

/** Sign-in with its mails, and the trials that sign-ups get. */
async function openSignIn(parts: {
  config: Config;
  live: LiveSettings;
  log: Log;
  base: Base;
  address: PublicAddress;
  ledger: Ledger;
  passwords: Passwords;
}) {
  const { config, live, log, base, address, ledger, passwords } = parts;
  const { db, clock } = base;
  const { routing_buckets, signup, verification } = config;
  const mailer = createMailer(config.mail, log);
  const trials = await createTrials({ db, cipher: base.cipherFor("trials") });
  const signIn = await createSignIn({
    ...{ db, clock, log, mailer, passwords, signup, verification, routing_buckets },
    url: address.url,
    openAccount: trialGiver({ trials, clock, ledger, live }),
  });
  return { mailer, trials, signIn };
}

/** The stores of callers' requests and answers, which are encrypted. */
function createSealedStores({ db, clock, cipherFor }: Base) {
  return {
    idempotency: createIdempotencyStore({ db, clock, cipher: cipherFor("idempotency") }),
    response_items: createItemsStore({ db, clock, cipher: cipherFor("response items") }),
    envelopes: createEnvelopes(cipherFor("reasoning")),
  };
}

/** Counts each call of a provider, and logs the provider's failures and the streams whose cost is unknown. */
function noteCalls({
  metrics,
  log,
}: {
  metrics: Metrics;
  log: Log;
}): Pick<Parameters<typeof createCompletions>[0], "onAttempt" | "onUncounted"> {
  return {
    onAttempt({ id: model, owned_by: provider }, { error, ...attempt }) {
      metrics.upstream({ provider, model }, { ...attempt, code: error?.code ?? null });
      if (!isProviderFailure(error)) return;
      const cause = (error.cause as Error | undefined)?.message;
      log.warn({ model, provider, code: error.code, cause }, "a model's provider failed");
    },
    onUncounted(hold_id, error) {
      log.error({ hold_id, ...describeUnexpected(error as Error) }, "the cost of a stream so far cannot be computed");
    },
  };
}

interface EraseDeps {
  db: Db;
  accounts: Accounts;
  signIn: Pick<SignIn, "forgetUser">;
  vault: Pick<Vault, "erase">;
  /** In the order of their locks. */
  others: readonly { forgetUser(tx: Tx, user_id: string): Promise<void> }[];
}

/** Erases a user in every module, with `also` in the same transaction. */
function createEraseUser({ db, accounts, signIn, vault, others }: EraseDeps) {
  return (user_id: string, also?: InSameTx<void>) =>
    db.transaction(async (tx) => {
      const email = await accounts.eraseUser(tx, user_id);
      for (const module of others) await module.forgetUser(tx, user_id);
      await signIn.forgetUser(tx, user_id, email);
      await vault.erase(tx, user_id);
      await also?.(tx);
    });
}

/** Nothing can be saved any more. The supervisor starts a new process, which recovers the database. */
function exitStuck(): void {
  process.exit(1);
}

/** What every module needs: storage, the service's own key, the clock, the guarded HTTP client and metrics. */
async function openBase(config: Config, log: Log) {
  const metrics = createMetrics();
  const tracer = await openTracer(config, log);
  const { database_url, data_dir, db_wait_seconds: wait_seconds } = config;
  const db = await openDb({
    database_url,
    data_dir,
    log,
    wait_seconds,
    onStuck: exitStuck,
    onStatement: metrics.statement,
  });
  metrics.watchDatabase(db.state, db.figures);
  const url = config.read_database_url;
  const standby = url === null ? null : openStandby({ url, db, log });
  const openKeys = async ({ keyring, warning }: LoadedKeyring) => {
    const keys = createDataKeys({ db, keyring, log, onFailure: metrics.vaultFailed });
    await keys.check();
    if (warning !== null) log.warn(warning);
    return { keys, service_key: await keys.ofService() };
  };
  const { keyring } = config;
  const opening = keyring === null ? withKeyring(data_dir, openKeys) : openKeys({ keyring, warning: null });
  const { keys, service_key } = await opening.catch(async (error: Error) => {
    await db.close();
    throw error;
  });
  const settable = config.test_clock === null ? null : await createSettableClock({ db, start: config.test_clock });
  const outbound = createOutbound({ allow: config.egress_allow });
  const cipherFor = (purpose: string) => createCipher(service_key, purpose);
  return { metrics, tracer, db, standby, keys, settable, clock: settable ?? createSystemClock(), outbound, cipherFor };
}

/** Loads the span recorder only if traces are sent. */
async function openTracer({ tracing, role }: Config, log: Log): Promise<Tracer | null> {
  if (tracing === null) return null;
  const { createTracer } = await import("./platform/span-recorder.ts");
  return createTracer(tracing, { log, role });
}

type Base = Awaited<ReturnType<typeof openBase>>;

interface AgentWorkDeps {
  config: Config;
  live: LiveSettings;
  log: Log;
  base: Base;
  accounts: Accounts;
  ledger: Ledger;
  charges: ChargingLedger;
  models: Models;
  completions: Completions;
  vault: Vault;
  webhook_keys: WebhookKeys;
  notify: ReturnType<typeof createNotifiers>;
  meansOf: Billing["means"];
}

/** The modules that work for agents: schedules, runs, chats, and the worker that executes runs. */
function createAgentWork(deps: AgentWorkDeps) {
  const { config, log, accounts, ledger, models, vault, notify } = deps;
  const { db, clock, outbound, metrics, tracer } = deps.base;
  const sanitizer = createSanitizer({ threads: 2 });
  const { webhook_keys } = deps;
  const tools = createTools({
    clock,
    outbound,
    sanitizer,
    webhook_keys,
    vault,
    log,
    safety_off: config.safety_off,
    onFailure: metrics.toolFailed,
  });
  const schedules = createSchedules({ db, clock, notify: notify.schedules });
  const schedule_keys = createScheduleKeys({
    ...{ clock, store: createAgentsStore(db), schedules, ledger, keysOf: accounts.keysOf, log },
    cancelOfKey: (tx, user_id, api_key_id) => runs.cancelOfKey(tx, user_id, api_key_id),
  });
  const runs = createRuns({
    db,
    clock,
    notify: notify.runs,
    onRunEnd: createRunOutcomes({ schedules, schedule_keys, log }),
    onLost(lost) {
      for (const run of lost) {
        metrics.runFinished("failed", "worker_lost");
        log.info({ ...idsOfRun(run), status: "failed", code: "worker_lost" }, "run");
      }
    },
    onCancelled(run) {
      log.info({ ...idsOfRun(run), status: "cancelled", code: run.error?.code ?? null }, "run");
    },
    run_now_statements: RUN_NOW_STATEMENTS,
    ends_with_step: true,
  });
  metrics.watchQueue(runs.queueFigures);
  const threads = createThreads({ db, clock, runs, models });
  const followers = createRunFollowers({ runs, log });
  const agents = createAgents({
    ...{ db, clock, log, models, runs, schedules, schedule_keys, ledger, followers, meansOf: deps.meansOf },
    suspended: accounts.suspended,
    safety_off: config.safety_off,
    secretNames: vault.names,
    keep_runs_days: config.keep_runs_days,
    forgetThreads: threads.forget,
    forgetTurns: threads.forgetTurns,
  });
  const worker_id = newId();
  const chat = createChat({ agents, runs, threads, worker_id });
  const runner = createRunner({
    ...{ clock, log, metrics, tracer, models, tools, runs, followers, newMark, worker_id },
    ledger: deps.charges,
    completions: deps.completions,
    limits: () => claimLimits(deps.live),
    chats_only: config.role === "api",
    drain_seconds: config.drain_seconds,
    configOf: agents.configOf,
    withHistory: threads.withHistory,
    listenerOf: chat.listenerOf,
    isAwaited: chat.isAwaited,
  });
  const agentModel = createAgentModel({ chat, find: agents.found, log });
  return { tools, schedules, schedule_keys, runs, agents, chat, agentModel, runner };
}

/** Purser as a client of authorization servers. Its document can be read where the service has a public https address. */
function identityAt(address: PublicAddress): OAuthIdentity {
  return {
    redirect_uri: () => `${address.url()}${OAUTH_CALLBACK}`,
    client_metadata_url: () => (address.secure ? `${address.url()}${OAUTH_CLIENT_METADATA}` : null),
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

/** Opens the account of a new user, with the trial unless the mailbox has used it. */
function trialGiver(deps: { trials: Trials; clock: Clock; ledger: Ledger; live: LiveSettings }) {
  const { trials, clock, ledger, live } = deps;
  return async (tx: Tx, { id, email }: { id: string; email: string }) => {
    const granted = await trials.take(tx, email);
    const { days, tokens } = live.trial;
    const given = { ends_at: addDays(clock.now(), days), tokens };
    await ledger.openAccount(tx, { user_id: id, trial: granted ? given : null });
    return granted ? ("granted" as const) : ("used_before" as const);
  };
}

/** `stripe` is null unless it is configured, because it receives webhooks. */
async function choosePayments(config: Config): Promise<{ stripe: StripePayments | null; payments: PaymentProvider }> {
  const stripe = config.stripe === null ? null : await createStripe(config, config.stripe);
  if (stripe !== null) return { stripe, payments: stripe };
  const is_sandbox = config.payments === "sandbox";
  return { stripe, payments: is_sandbox ? createSimulatedPayments("sandbox") : createDisabledPayments() };
}

/** Stripe's SDK is loaded only where it is used: 40 MB. */
async function createStripe(config: Config, keys: NonNullable<Config["stripe"]>): Promise<StripePayments> {
  const { createStripePayments } = await import("./billing/stripe.adapter.ts");
  return createStripePayments({ ...keys, public_url: config.public_url ?? `http://${config.host}:${config.port}` });
}
