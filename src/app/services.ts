import { createBilling } from "../account/billing/billing.service.ts";
import type { PaymentProvider } from "../account/billing/payments.types.ts";
import { PAYMENT_INVARIANTS } from "../account/billing/payments-audit.store.ts";
import { createDisabledPayments, createSimulatedPayments } from "../account/billing/simulated-payments.ts";
import type { StripePayments } from "../account/billing/stripe.adapter.ts";
import { withChargeMetrics } from "../account/ledger/charge-metrics.ts";
import { createLedger } from "../account/ledger/ledger.service.ts";
import type { Ledger } from "../account/ledger/ledger.types.ts";
import type { ResultDeps } from "../account/notices/deliveries.service.ts";
import type { MailDeps } from "../account/notices/mail-delivery.ts";
import { createMails, type Mails } from "../account/notices/mails.service.ts";
import { createNotices } from "../account/notices/notices.service.ts";
import { createRequests } from "../account/requests/requests.service.ts";
import { type Accounts, createAccounts } from "../account/users/accounts.service.ts";
import { createPasswords, type Passwords } from "../account/users/password.ts";
import { createSignIn, type SignIn } from "../account/users/sign-in.service.ts";
import { createSignInStore } from "../account/users/sign-in.store.ts";
import { createTrials, type Trials } from "../account/users/trials.service.ts";
import { type AgentsStore, APPLY_WITH_STEPS, createAgentsStore } from "../agents/definitions/agents.store.ts";
import { ACTION_INVARIANTS } from "../agents/runs/actions.store.ts";
import { selectRun } from "../agents/runs/history.store.ts";
import { toRunRecord } from "../agents/runs/run-record.ts";
import { selectSchedule } from "../agents/schedules/schedule.store.ts";
import { createWebhookKeys, type WebhookKeys } from "../agents/tools/webhook-keys.service.ts";
import { OAUTH_CALLBACK, OAUTH_CLIENT_METADATA } from "../api/contract/oauth-secrets.ts";
import { createIdempotencyStore } from "../api/http/idempotency.store.ts";
import type { Config } from "../config/config.ts";
import { createCompletions } from "../gateway/completions/completions.service.ts";
import { createEnvelopes } from "../gateway/completions/reasoning-envelope.ts";
import { createLimits } from "../gateway/limits/limits.service.ts";
import { createModels } from "../gateway/models/models.service.ts";
import { isProviderFailure } from "../gateway/models/provider-errors.ts";
import { createProviderHealth, type ProviderHealth } from "../gateway/models/provider-health.ts";
import { createItemsStore } from "../gateway/responses/items.store.ts";
import { createResponsesStore } from "../gateway/responses/responses.store.ts";
import { createActs } from "../operator/acts.service.ts";
import { ACT_INVARIANTS } from "../operator/acts.store.ts";
import { createOperatorKeys } from "../operator/operator-keys.service.ts";
import { createUpkeep } from "../operator/upkeep.store.ts";
import type { Db, InSameTx, Tx } from "../platform/db/db.ts";
import { createReads } from "../platform/db/standby.ts";
import { addDays, type Clock } from "../platform/lib/clock.ts";
import { createMailer } from "../platform/net/mail.ts";
import { createPublicAddress, type PublicAddress } from "../platform/net/public-address.ts";
import { describeUnexpected, type Log } from "../platform/telemetry/log.ts";
import type { Metrics } from "../platform/telemetry/metrics.ts";
import { createJudges } from "../safety/judges.ts";
import type { OAuthIdentity } from "../vault/oauth.adapter.ts";
import { createVault, type Vault } from "../vault/vault.service.ts";
import { createAgentRunner, createAgentServices } from "./agent-services.ts";
import { type Base, openBase } from "./base-services.ts";
import { createNotifiers } from "./notice-mappers.ts";
import { createReload, type LiveSettings } from "./reload.ts";

export type Services = Awaited<ReturnType<typeof createServices>>;

/** Constructs every module from the lowest to the highest, and gives each the functions of others that it may not import. */
export async function createServices(config: Config, log: Log, passwords: Passwords = createPasswords()) {
  const live: LiveSettings = {
    limits: config.limits,
    plans: config.plans,
    trial: config.trial,
    judges: createJudges(config.safety.judges, log),
  };
  const plans = () => live.plans;
  const base = await openBase(config, log);
  const { db, clock, outbound, cipherFor, metrics, tracer, settable, standby } = base;
  const core = { db, clock, log };
  const address = createPublicAddress(config);
  const mailer = createMailer(config.mail, { log, clock });
  const mails = createMails({ db, log, metrics, mailer, cipher: cipherFor("mails") });
  const agents_store = createAgentsStore(db);
  const { provenAddress } = createSignInStore(db);
  const mail = { mailer, url: address.url, addressOf: provenAddress, agentNames: agents_store.names };
  const webhook_keys = createWebhookKeys({ db, clock, cipher: cipherFor("agent webhooks") });
  const results = createResults({ db, agents_store, webhook_keys });
  const { notices, notify } = createNoticeServices({ config, log, base, mail, results });
  const oauth = { outbound, identity: identityAt(address) };
  const vault = createVault({ ...core, keys: base.keys, oauth, ...notify.vault });
  const accounts = await createAccounts({ db, clock, routing_buckets: config.routing_buckets });
  const reads = createReads({ db, standby, log });
  const ledger = createLedger({
    ...core,
    invariants: [...PAYMENT_INVARIANTS, ...ACT_INVARIANTS, ...ACTION_INVARIANTS],
    with_hooks: APPLY_WITH_STEPS,
    reads,
    notify: notify.ledger,
  });
  metrics.watchHolds(ledger.openHolds);
  const sign_in = await createSignInServices({ config, live, log, base, mails, address, ledger, passwords });
  const { stripe, payments } = await choosePayments(config);
  const billing = createBilling({
    ...core,
    ledger,
    users: accounts,
    payments,
    plans,
    ...notify.billing,
    onEventsRead: metrics.paymentEventsRead,
  });
  const models = createModels({ config, clock, outbound });
  metrics.watchModels(() =>
    [...models.list(), ...models.embeddings()]
      .flatMap((model) => models.byRoute(model, { key: "", kept: null }))
      .map(({ id: model, owned_by: provider }) => ({ provider, model })),
  );
  const modelId = (name: string) => (models.find(name) ?? models.findEmbedding(name))?.id ?? name;
  const provider_health = createProviderHealth(clock);
  const limits = await createLimits({ db, plans, modelId });
  const charges = withChargeMetrics(ledger, { metrics, log, countTokens: limits.countTokens });
  const meansOf = billing.means;
  const of_agents = createAgentServices({
    config,
    live,
    log,
    base,
    accounts,
    agents_store,
    ledger,
    models,
    vault,
    webhook_keys,
    notices,
    notify,
    reads,
    meansOf,
    url: address.url,
  });
  const completions = createCompletions({
    models,
    meansOf,
    admit: limits.admitCall,
    ledger: { ...charges, progress: ledger.progress, beginStop: ledger.beginStop, accountStatus: ledger.accountStatus },
    fallbackAfterSeconds: () => live.limits.fallback_after_seconds,
    resolveAgent: of_agents.agentModel,
    ...noteCalls({ metrics, log, provider_health }),
  });
  const runner = createAgentRunner(of_agents, {
    config,
    live,
    log,
    base,
    charges: { ...charges, refills: ledger.refills },
    models,
    completions,
  });
  const acts = createActs({ db, clock });
  const upkeep = createUpkeep({ db, clock, log });
  metrics.watchBackup(upkeep.backupAgeMs);
  const operator_keys = await createOperatorKeys({ db, clock, acts, admin_key: config.admin_key });
  const sealed = createSealedStores(base, config.keep_responses_days);
  const { idempotency, response_items, responses } = sealed;
  const { agents, triggers } = of_agents;
  const requests = createRequests({ ...core, reads });
  const others = [
    billing,
    requests,
    ledger,
    ledger.end_users,
    agents,
    triggers,
    idempotency,
    response_items,
    responses,
    notices,
    webhook_keys,
    acts,
  ];
  const eraseUser = createEraseUser({ db, accounts, others, signIn: sign_in.signIn, vault });
  const { prepare: reload, describe: describeSettings } = createReload({ config, live, models, clock, log });
  const process_wide = {
    config,
    live,
    reload,
    describeSettings,
    log,
    metrics,
    tracer,
    db,
    clock,
    settable,
    standby,
    address,
  };
  const of_users = { accounts, mailer, mails, ...sign_in, eraseUser, limits, notices, vault, webhook_keys };
  const of_money = {
    ledger,
    requests,
    models,
    provider_health,
    completions,
    stripe,
    payments,
    billing,
    acts,
    upkeep,
    operator_keys,
  };
  const { tools, schedules, runs, chat, threads } = of_agents;
  const of_runs = { tools, schedules, runs, agents, triggers, chat, threads, runner };
  return { ...process_wide, ...of_users, ...of_money, ...of_runs, ...sealed, oauth_identity: oauth.identity };
}

/** Notices, and the functions by which other modules create them. */
function createNoticeServices(parts: { config: Config; log: Log; base: Base; mail: MailDeps; results: ResultDeps }) {
  const { config, log, base, mail, results } = parts;
  const { db, clock, outbound, metrics } = base;
  const { egress_allow } = config;
  const cipher = base.cipherFor("webhook endpoints");
  const notices = createNotices({ db, clock, log, outbound, metrics, egress_allow, cipher, mail, results });
  return { notices, notify: createNotifiers(notices) };
}

/** What the deliveries of results read of runs and agents. */
function createResults(deps: { db: Db; agents_store: AgentsStore; webhook_keys: WebhookKeys }): ResultDeps {
  const { db, agents_store, webhook_keys } = deps;
  return {
    async resultOf({ user_id, run_id }) {
      const row = await selectRun(db, user_id, run_id);
      const agent = row === undefined ? undefined : await agents_store.agent(user_id, row.agent_id);
      if (row === undefined || agent === undefined) return null;
      const schedule =
        row.schedule_id === null ? undefined : await selectSchedule(db, { user_id, id: row.schedule_id });
      return {
        run: { ...toRunRecord(row), input: row.input, output: row.output, output_json: row.output_json },
        agent_name: agent.name,
        schedule_name: schedule?.name ?? null,
      };
    },
    signingKeyOf: async (agent) => (await webhook_keys.keyOf(agent))?.key ?? null,
  };
}

/** Sign-in, and the trials that sign-ups get. */
async function createSignInServices(parts: {
  config: Config;
  live: LiveSettings;
  log: Log;
  base: Base;
  mails: Mails;
  address: PublicAddress;
  ledger: Ledger;
  passwords: Passwords;
}) {
  const { config, live, log, base, mails, address, ledger, passwords } = parts;
  const { db, clock } = base;
  const { routing_buckets, signup, verification } = config;
  const trials = createTrials({ cipher: base.cipherFor("trials") });
  const signIn = await createSignIn({
    db,
    clock,
    log,
    mails,
    passwords,
    signup,
    verification,
    routing_buckets,
    url: address.url,
    openAccount: trialGiver({ trials, clock, ledger, live }),
  });
  return { trials, signIn };
}

/** The stores of callers' requests and answers. */
function createSealedStores({ db, clock, cipherFor }: Base, keep_days: number) {
  return {
    idempotency: createIdempotencyStore({ db, clock, cipher: cipherFor("idempotency") }),
    response_items: createItemsStore({ db, clock, cipher: cipherFor("response items"), keep_days }),
    responses: createResponsesStore({ db, clock, keep_days }),
    envelopes: createEnvelopes(cipherFor("reasoning")),
  };
}

/** Counts each call of a provider, and logs the provider's failures and the streams whose cost is unknown. */
function noteCalls({
  metrics,
  log,
  provider_health,
}: {
  metrics: Metrics;
  log: Log;
  provider_health: ProviderHealth;
}): Pick<Parameters<typeof createCompletions>[0], "onAttempt" | "onDisbelieved" | "onUncounted"> {
  return {
    onAttempt({ id: model, owned_by: provider }, { error, request_id, run_id, ...attempt }) {
      provider_health.note({ id: model, owned_by: provider }, error);
      metrics.upstream({ provider, model }, { ...attempt, code: error?.code ?? null });
      if (!isProviderFailure(error)) return;
      const cause = (error.cause as Error | undefined)?.message;
      const caller = run_id === null ? { request_id } : { run_id };
      log.warn({ ...caller, model, provider, code: error.code, cause }, "a model's provider failed");
    },
    onDisbelieved({ id: model, owned_by: provider }, { input_tokens, output_tokens }) {
      metrics.usageDisbelieved({ provider, model });
      log.warn(
        { model, provider, input_tokens, output_tokens },
        "a provider reported more tokens than the call can have used; they are estimated",
      );
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

/** Purser as a client of authorization servers. Its document can be read where the service has a public https address. */
function identityAt(address: PublicAddress): OAuthIdentity {
  return {
    redirect_uri: () => `${address.url()}${OAUTH_CALLBACK}`,
    client_metadata_url: () => (address.secure ? `${address.url()}${OAUTH_CLIENT_METADATA}` : null),
  };
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
  const { createStripePayments } = await import("../account/billing/stripe.adapter.ts");
  return createStripePayments({ ...keys, public_url: config.public_url ?? `http://${config.host}:${config.port}` });
}
