import type { PaymentProvider } from "../account/billing/payments.types.ts";
import * as contract from "../api/contract/admin-service.ts";
import { createRouter, json, type Router } from "../api/contract/endpoint.ts";
import type { Models } from "../gateway/models/models.service.ts";
import type { ProviderHealth } from "../gateway/models/provider-health.ts";
import { testProvider } from "../gateway/models/provider-test.ts";
import { errors } from "../kernel/errors.ts";
import type { Db } from "../platform/db/db.ts";
import { addDays, type Clock } from "../platform/lib/clock.ts";
import { type Instant, instantOf } from "../platform/lib/instant.ts";
import type { Mailer } from "../platform/net/mail.ts";
import { countQueuedMails, hasAdminAccount, readFailures, readUnpaid, readWork } from "./overview.store.ts";
import { explainUntested, testMail, testPayments } from "./service-tests.ts";
import { listSetupSteps } from "./setup.ts";
import type { Upkeep } from "./upkeep.store.ts";
import { computeTotal } from "./usage.routes.ts";
import { readUsageOfAll } from "./usage.store.ts";

type Overview = contract.OverviewRecord;

export interface OverviewOptions {
  db: Db;
  clock: Clock;
  upkeep: Upkeep;
  /** Runs in the queue over all nodes. */
  queueFigures(): Promise<{ queued: number; oldest_ms: number }>;
  models: Models;
  provider_health: ProviderHealth;
  mailer: Mailer;
  /** The sender of mails; null: no mail server is set. */
  mail_from: string | null;
  payments: PaymentProvider;
  /** How users pay, as they see it. */
  offered_payments: Overview["payments"]["provider"];
  /** The settings in force on this node. */
  settings(): contract.SettingsRecord;
  local_only: boolean;
}

/** The service as a whole, and the checks of a first set-up: contract 8.13. */
export function overviewRoutes(options: OverviewOptions): Router {
  const router = createRouter();
  router.on(contract.getOverview, async (request) => json(await readOverview(options, request.query.window)));
  router.on(contract.getSettings, (_request) => json(options.settings()));
  router.on(contract.testProvider, async (request) => {
    const provider = options.models.providers().find(({ name }) => name === request.params.name);
    if (provider === undefined) throw errors.unknown("This provider");
    const { models, provider_health: health } = options;
    return json((await testProvider({ models, health }, provider)) ?? explainUntested(provider));
  });
  router.on(contract.testMail, async (request) => json(await testMail(options.mailer, request.body.to)));
  router.on(contract.testPayments, async (_request) => {
    const { payments, offered_payments } = options;
    return json({ provider: offered_payments, ...(await testPayments(payments)) });
  });
  return router;
}

async function readOverview(options: OverviewOptions, window: contract.OverviewWindow): Promise<Overview> {
  const { db, clock, upkeep, mailer, mail_from } = options;
  const now = clock.now();
  const from = instantOf(Date.parse(now) - contract.OVERVIEW_HOURS[window] * 3_600_000);
  const [money, failures, work, { queued, oldest_ms }, queued_mails, unpaid, audit, backup, has_admin] =
    await Promise.all([
      readMoney(db, now),
      readFailures(db, from),
      readWork(db),
      options.queueFigures(),
      countQueuedMails(db),
      readUnpaid(db),
      upkeep.last("audit"),
      upkeep.last("backup"),
      hasAdminAccount(db),
    ]);
  const { variables, warnings } = options.settings();
  const isSet = (variable: string) => variables.some(({ name, is_set }) => name === variable && is_set);
  const state = {
    providers: listProviderStates(options),
    mail: { delivery: mailer.delivery, from: mail_from, queued: queued_mails, last_failure: mailer.lastFailure() },
    payments: { provider: options.offered_payments, ...unpaid },
    audit,
    backup,
  };
  return {
    from,
    money,
    ...failures,
    queue: { queued, ...work, oldest_queued_at: queued === 0 ? null : instantOf(Date.parse(now) - oldest_ms) },
    ...state,
    setup: listSetupSteps({ ...state, has_admin, isSet, local_only: options.local_only }),
    warnings,
  };
}

async function readMoney(db: Db, now: Instant): Promise<Overview["money"]> {
  const today = `${now.slice(0, 10)}T00:00:00.000Z`;
  const days = await readUsageOfAll(db, { from: addDays(today, -6), to: addDays(today, 1), group_by: "day" });
  const ofDay = (day: Instant) => computeTotal(days.filter(({ name }) => name === day.slice(0, 10)));
  return { today: ofDay(today), yesterday: ofDay(addDays(today, -1)), last_7_days: computeTotal(days) };
}

function listProviderStates({ models, provider_health }: OverviewOptions): contract.ProviderState[] {
  const offered = [...models.list(), ...models.embeddings()];
  const routed = offered.flatMap((model) => models.byRoute(model, { key: "", kept: null }));
  return models.providers().map((provider) => ({
    ...provider,
    models: routed.filter(({ owned_by }) => owned_by === provider.name).length,
    ...provider_health.of(provider.name),
  }));
}
