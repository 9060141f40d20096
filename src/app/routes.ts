import { billingRoutes } from "../account/billing/billing.routes.ts";
import { endUserRoutes } from "../account/billing/end-users.routes.ts";
import { ledgerExportRoutes } from "../account/billing/ledger-export.routes.ts";
import { paymentsRoutes, stripeWebhookRoutes } from "../account/billing/payments.routes.ts";
import { usageBreakdownRoutes } from "../account/billing/usage-breakdown.routes.ts";
import { noticesRoutes } from "../account/notices/notices.routes.ts";
import { requestsRoutes } from "../account/requests/requests.routes.ts";
import { accountsRoutes } from "../account/users/accounts.routes.ts";
import { signInRoutes } from "../account/users/sign-in.routes.ts";
import { chatRoutes } from "../agents/chat/chat.routes.ts";
import { agentsRoutes, serverToolsRoutes, webhookKeyRoutes } from "../agents/definitions/agents.routes.ts";
import { schedulesRoutes } from "../agents/definitions/schedules.routes.ts";
import { mcpRoutes } from "../agents/mcp/mcp.routes.ts";
import { triggerRoutes } from "../agents/triggers/triggers.routes.ts";
import type { Endpoint, Router } from "../api/contract/endpoint.ts";
import { sessionCookieName } from "../api/contract/sign-in.ts";
import { createConsolePages } from "../api/http/console-pages.ts";
import type { HttpApp } from "../api/http/fastify.ts";
import { createHttp } from "../api/http/server.ts";
import { referenceRoutes } from "../api/http/system.routes.ts";
import { createFileJsonSchema } from "../config/file.schema.ts";
import { completionRoutes, embeddingRoutes } from "../gateway/completions/completions.routes.ts";
import { messagesRoutes } from "../gateway/messages/messages.routes.ts";
import { modelRoutes } from "../gateway/models/models.routes.ts";
import { takesField } from "../gateway/models/request-fields.ts";
import { responseRoutes } from "../gateway/responses/responses.routes.ts";
import { createBackups } from "../operator/backup/backup.service.ts";
import { userExportRoutes } from "../operator/export/user-export.routes.ts";
import { createUserExport } from "../operator/export/user-export.service.ts";
import { type OperatorOptions, operatorRoutes } from "../operator/operator.routes.ts";
import { operatorKeyRoutes } from "../operator/operator-keys.routes.ts";
import { overviewRoutes } from "../operator/overview.routes.ts";
import { operatorRunsRoutes } from "../operator/runs.routes.ts";
import { usageRoutes } from "../operator/usage.routes.ts";
import { userCorrectionsRoutes } from "../operator/user-corrections.routes.ts";
import type { DueSource } from "../platform/db/sweeper.ts";
import { safetyRoutes } from "../safety/safety.routes.ts";
import { createSanitizer } from "../safety/sanitizer.ts";
import { vaultRoutes } from "../vault/vault.routes.ts";
import { appErrors } from "./error-catalogue.ts";
import type { Services } from "./services.ts";

/** A worker polls the queue every second: after this time without one, no worker is running. */
const NO_WORKER_MS = 5_000;

/** contract 1: what costs nothing only because no other machine can reach the service. */
function localWrites({ local_only, payments }: Services["config"]): string[] {
  if (!local_only) return [];
  return payments === "sandbox" ? ["/api/v1/auth/sign-up/", "/api/v1/billing/"] : ["/api/v1/auth/sign-up/"];
}

/** What the public port of every node needs to know. */
export function publicOptions({ config, log, metrics, tracer, address, operator_keys }: Services) {
  return {
    address,
    is_drill: config.is_drill,
    authenticateOperator: operator_keys.authenticate,
    has_metrics: config.metrics_address === null,
    trusted_proxies: config.trusted_proxies,
    log,
    metrics,
    tracer,
  };
}

/** The public API, the reference and the console. `sources`: what a settable clock carries out on its way. */
export function serveApi(
  services: Services,
  { probes, sources, cut_off }: { probes: readonly Endpoint[]; sources: readonly DueSource[]; cut_off: AbortSignal },
): HttpApp {
  const { limits, response_items, responses, envelopes, idempotency, eraseUser } = services;
  const { config, live, log, db, clock, settable, address, accounts, signIn } = services;
  const { ledger, models, completions, notices, vault, webhook_keys, stripe, billing, runs, agents, chat } = services;
  const untilIdle = async (timeout_ms: number): Promise<boolean> => {
    const state = await runs.untilIdle(timeout_ms, config.role === "api" ? NO_WORKER_MS : Infinity);
    if (state === "unattended") throw appErrors.noWorker();
    return state === "idle";
  };
  const advanceClock = settable === null ? null : (target: string) => settable.advanceTo(target, sources, untilIdle);
  const exportOf = createUserExport({ db, clock, ledger });
  const takes = (id: string, field: string) => {
    const model = models.find(id);
    return model !== null && takesField(field, model);
  };
  const routers = [
    modelRoutes({ models, agentsOf: agents.asModels }),
    completionRoutes(completions),
    responseRoutes({ completions, items: response_items, responses, envelopes, takes, log }),
    messagesRoutes({ completions, envelopes, log }),
    embeddingRoutes(completions),
    agentsRoutes({ agents }),
    schedulesRoutes(agents),
    triggerRoutes(services.triggers),
    chatRoutes({ chat }),
    mcpRoutes({ agents, chat, log, address, cors_origins: config.cors_origins }),
    webhookKeyRoutes({ agents, webhook_keys }),
    serverToolsRoutes({ agents, tools: services.tools }),
    noticesRoutes({ notices, agentNames: agents.names }),
    // It has its own threads, so that requests to try it out delay no run.
    safetyRoutes({ sanitizer: createSanitizer({ threads: 1 }) }),
    signInRoutes({ signIn, address, eraseUser }),
    vaultRoutes({ vault, identity: services.oauth_identity }),
    accountsRoutes({ accounts, clock, keySpends: ledger.keySpends }),
    billingRoutes({ accounts, ledger, billing }),
    ledgerExportRoutes({ ledger, agentNames: agents.names, keyNames: accounts.keyNames }),
    usageBreakdownRoutes({ ledger, clock, agentNames: agents.names, keyNames: accounts.keyNames }),
    requestsRoutes({
      requests: services.requests,
      agentNames: agents.names,
      keyNames: accounts.keyNames,
      archivedBefore: ledger.archivedBefore,
    }),
    endUserRoutes({ ledger, clock }),
    userExportRoutes({ exportOf }),
    paymentsRoutes({ billing }),
    ...(stripe === null ? [] : [stripeWebhookRoutes({ stripe, applyPaymentEvent: billing.applyPaymentEvent })]),
    ...operatorApi(services, { advanceClock, exportOf }),
  ];
  const endpoints = routers.flatMap((router) => router.endpoints);
  const documented = endpoints.filter(({ is_documented }) => is_documented).map(({ route }) => route);
  const reference = referenceRoutes(documented, {
    session_cookie: sessionCookieName(address.secure),
    createFileJsonSchema,
  });
  return createHttp(
    {
      authenticate: accounts.authenticate,
      ...publicOptions(services),
      authenticateSession: signIn.authenticate,
      has_operators: config.admin_key !== null,
      authenticateOperatorSession: signIn.authenticateOperator,
      findUser: async (id, also_erased) => (await accounts.user(id, { also_erased })).id,
      idempotency,
      onFailedCall: services.requests.record,
      admitRequest: limits.admitRequest,
      databaseState: db.state,
      cut_off,
      limits: () => live.limits,
      local_writes: localWrites(config),
      cors_origins: config.cors_origins,
    },
    [...probes, ...endpoints, ...reference.endpoints],
    createConsolePages(),
  );
}

/** Section 8 of the contract. */
function operatorApi(services: Services, also: Pick<OperatorOptions, "advanceClock" | "exportOf">): Router[] {
  const { acts, operator_keys, eraseUser, config, live, reload, log, db, clock, accounts, signIn, trials } = services;
  const { ledger, billing, runs, agents, upkeep, models, provider_health, mailer, payments, describeSettings } =
    services;
  return [
    operatorKeyRoutes({ acts, keys: operator_keys }),
    usageRoutes({ db, clock }),
    operatorRunsRoutes({ db, clock, agentNames: agents.names, allRuns: runs.allRuns }),
    overviewRoutes({
      db,
      clock,
      upkeep,
      models,
      provider_health,
      mailer,
      mail_from: config.mail?.from ?? null,
      payments,
      offered_payments: billing.payments,
      settings: describeSettings,
      local_only: config.local_only,
      queueFigures: runs.queueFigures,
    }),
    userCorrectionsRoutes({ db, clock, accounts, acts, ledger, billing }),
    operatorRoutes({
      db,
      clock,
      accounts,
      acts,
      upkeep,
      ledger,
      billing,
      trials,
      eraseUser,
      reload,
      ...also,
      addressChanged: signIn.addressChanged,
      accessChanged: signIn.accessChanged,
      trial: () => live.trial,
      suspendAlso: runs.cancelAll,
      backUp: createBackups({
        db,
        clock,
        data_dir: config.data_dir,
        log,
        onEnded: (problem) => upkeep.ended("backup", problem),
      }),
    }),
  ];
}
