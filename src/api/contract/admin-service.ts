import { figuresSchema } from "./admin-overall.ts";
import { instantSchema, json, noFields, uuidSchema } from "./common.ts";
import { reasonBody } from "./operators.ts";
import { operatorRoutes } from "./routes.ts";
import { z } from "./zod.ts";

/** What the operator sees of the service as a whole, and the checks of a first set-up: contract 8.13. */

const routes = operatorRoutes();

/** The windows of the overview, in hours. */
export const OVERVIEW_HOURS = { "24h": 24, "7d": 168 } as const;
export type OverviewWindow = keyof typeof OVERVIEW_HOURS;
const WINDOWS = Object.keys(OVERVIEW_HOURS) as [OverviewWindow, ...OverviewWindow[]];

const countSchema = z.number().int();
const errorSchema = z.object({ code: z.string(), message: z.string() });

const failingAgentSchema = z
  .object({
    agent_id: uuidSchema,
    agent_name: z.string().nullable().openapi({ description: "null: deleted" }),
    user_id: uuidSchema,
    user_email: z.string().nullable(),
    runs: countSchema.openapi({ description: "runs that ended in the window" }),
    failed_runs: countSchema,
    last_failed_at: instantSchema,
    last_run_id: uuidSchema,
    last_error: errorSchema,
  })
  .openapi("FailingAgent");
export type FailingAgent = z.infer<typeof failingAgentSchema>;

const providerFailureSchema = z.object({
  at: instantSchema,
  model_id: z.string(),
  code: z.string(),
  provider_status: countSchema.nullable().openapi({ description: "the HTTP status of its answer; null: none came" }),
  provider_code: z.string().nullable(),
});
const providerStateSchema = z
  .object({
    name: z.string(),
    kind: z.string(),
    key: z.enum(["set", "not_set", "not_needed"]),
    key_variable: z.string().nullable(),
    models: countSchema.openapi({ description: "its models on offer" }),
    recent_calls: countSchema.openapi({ description: "its last calls by this node, at most 100, since the start" }),
    recent_failures: countSchema.openapi({ description: "of these, those that the provider failed" }),
    last_answered_at: instantSchema.nullable(),
    last_failure: providerFailureSchema.nullable(),
  })
  .openapi("ProviderState");
export type ProviderState = z.infer<typeof providerStateSchema>;

const upkeepSchema = z
  .object({
    ended_at: instantSchema,
    problem: z.string().nullable().openapi({ description: "null: none" }),
    succeeded_at: instantSchema.nullable().openapi({ description: "the last one without a problem; null: none yet" }),
  })
  .openapi("UpkeepRecord");
export type UpkeepRecord = z.infer<typeof upkeepSchema>;

export const SETUP_STEPS = ["admin", "provider", "payments", "mail", "sign_up", "backup"] as const;
const setupStepSchema = z.object({ step: z.enum(SETUP_STEPS), state: z.enum(["done", "to_do", "not_wanted"]) });
export type SetupStep = z.infer<typeof setupStepSchema>;

const overviewSchema = z
  .object({
    from: instantSchema.openapi({ description: "the start of the window" }),
    money: z
      .object({ today: figuresSchema, yesterday: figuresSchema, last_7_days: figuresSchema })
      .openapi({ description: "by whole days (UTC), as `GET /api/v1/admin/usage`" }),
    runs: z
      .object({ ended: countSchema, failed: countSchema, failing_agents: countSchema })
      .openapi({ description: "of the window" }),
    failing_agents: z.array(failingAgentSchema).openapi({ description: "the ten with the most failed runs" }),
    queue: z.object({
      queued: countSchema.openapi({ description: "counted up to 20000" }),
      running: countSchema,
      waiting: countSchema.openapi({ description: "runs that wait for a person" }),
      oldest_queued_at: instantSchema.nullable(),
    }),
    providers: z.array(providerStateSchema),
    mail: z.object({
      delivery: z.enum(["mail", "log"]).openapi({ description: "log: no mail server is set" }),
      from: z.string().nullable(),
      queued: countSchema,
      last_failure: z
        .object({ at: instantSchema, code: z.string(), smtp_status: countSchema.nullable() })
        .nullable()
        .openapi({ description: "on this node since its start" }),
    }),
    payments: z.object({
      provider: z.enum(["stripe", "sandbox", "none"]),
      unpaid_invoices: countSchema,
      past_due_subscriptions: countSchema,
      mismatches: countSchema,
    }),
    audit: upkeepSchema.nullable().openapi({ description: "the last audit; null: none yet" }),
    backup: upkeepSchema.nullable().openapi({ description: "the last backup by Purser; null: none yet" }),
    setup: z.array(setupStepSchema),
    warnings: z.array(z.string()).openapi({ description: "settings that work and are worth a look" }),
  })
  .openapi("OperatorOverview");
export type OverviewRecord = z.infer<typeof overviewSchema>;

export const getOverview = routes.get("/api/v1/admin/overview", {
  summary: "The service at a glance: money, failing agents, queue, providers, mail, payments, upkeep",
  query: z.object({
    window: z.enum(WINDOWS).default("24h").openapi({ description: "of `runs` and `failing_agents`" }),
  }),
  answers: { 200: json(overviewSchema, "the state of the service, as the node that answers sees it") },
});

const variableSchema = z
  .object({
    name: z.string(),
    is_secret: z.boolean(),
    is_set: z.boolean(),
    from: z.enum(["environment", "file", "default"]).openapi({ description: "file: the file that NAME_FILE names" }),
    value: z.string().nullable().openapi({ description: "null: a secret, or none" }),
  })
  .openapi("SettingVariable");
export type SettingVariable = z.infer<typeof variableSchema>;

const writtenSchema = z
  .object({
    path: z.string().openapi({ description: "such as `limits.body_bytes` or `models.lab/a.input_rate`" }),
    value: z.unknown(),
    line: countSchema.nullable().openapi({ description: "in the file; null: the default, which the file leaves out" }),
  })
  .openapi("SettingOfFile");
export type SettingOfFile = z.infer<typeof writtenSchema>;

const pricedModelSchema = z
  .object({
    model_id: z.string(),
    kind: z.enum(["chat", "embedding"]),
    provider: z.string(),
    source: z.enum(["file", "catalogue", "built_in"]),
    line: countSchema.nullable().openapi({ description: "where the file begins to describe it" }),
    input_usd_per_million: z.number(),
    output_usd_per_million: z.number(),
    upstream_input_usd_per_million: z.number().nullable(),
    upstream_output_usd_per_million: z.number().nullable(),
    lines: z
      .string()
      .nullable()
      .openapi({ description: "its entry of `models` in the file, at its present rates; null: built in" }),
  })
  .openapi("PricedModel");
export type PricedModel = z.infer<typeof pricedModelSchema>;

const settingsSchema = z
  .object({
    read_at: instantSchema,
    file: z
      .object({ path: z.string() })
      .nullable()
      .openapi({ description: "the file of PURSER_CONFIG; null: there is none" }),
    variables: z.array(variableSchema),
    file_settings: z.array(writtenSchema),
    models: z.array(pricedModelSchema),
    warnings: z.array(z.string()),
    last_reload: z
      .object({
        at: instantSchema,
        changed: z.array(z.string()),
        problem: z.string().nullable().openapi({ description: "null: none. Otherwise nothing was changed" }),
      })
      .nullable(),
  })
  .openapi("OperatorSettings");
export type SettingsRecord = z.infer<typeof settingsSchema>;

export const getSettings = routes.get("/api/v1/admin/settings", {
  summary: "The settings in force on this node, as they were read; of secrets only whether they are set",
  answers: { 200: json(settingsSchema, "variables, the file's values and their defaults, and the prices") },
});

export const reload = routes.post("/api/v1/admin/reload", {
  summary: "Reload PURSER_CONFIG and the catalogue on this node, all or nothing",
  optional_body: reasonBody,
  answers: {
    200: json(
      z.object({
        price_version: z.string().nullable().openapi({ description: "names the price list in force" }),
        models: z.number().int().openapi({ description: "models on offer" }),
        plans: z.number().int(),
        changed: z.array(z.string()).openapi({ description: "what differs, such as `models.lab/a` or `trial`" }),
      }),
      "new calls have the new models, prices, plans and limits",
    ),
  },
});

const checkSchema = {
  ok: z.boolean(),
  latency_ms: countSchema,
  problem: z.string().nullable().openapi({ description: "what is wrong and what to do; null: nothing" }),
};

const providerTestSchema = z
  .object({
    ...checkSchema,
    model_id: z.string().nullable().openapi({ description: "the model that was called; null: no call was made" }),
    provider: z
      .object({ status: countSchema, code: z.string().nullable(), message: z.string().nullable() })
      .nullable()
      .openapi({ description: "the provider's own words about a failure, without keys and addresses" }),
    cost_micro_usd: countSchema
      .nullable()
      .openapi({ description: "what the provider charges the operator; null: its price is unknown" }),
  })
  .openapi("ProviderTest");
export type ProviderTest = z.infer<typeof providerTestSchema>;

export const testProvider = routes.post("/api/v1/admin/providers/{name}/test", {
  summary: "Send one small call to a provider, with the key that is set",
  description:
    "No user is charged. The provider charges the operator for about 10 tokens of input and up to 16 of output.",
  optional_body: noFields,
  answers: { 200: json(providerTestSchema, "whether it answered") },
});

const mailTestSchema = z
  .object({
    ...checkSchema,
    smtp_status: countSchema.nullable(),
    answer: z.string().nullable().openapi({ description: "the mail server's own words about a failure" }),
  })
  .openapi("MailTest");
export type MailTest = z.infer<typeof mailTestSchema>;

export const testMail = routes.post("/api/v1/admin/mail/test", {
  summary: "Send a test mail",
  body: z.strictObject({ to: z.email().max(254) }),
  answers: { 200: json(mailTestSchema, "whether the mail server took it") },
});

const paymentsTestSchema = z
  .object({
    ...checkSchema,
    provider: z.enum(["stripe", "sandbox", "none"]),
  })
  .openapi("PaymentsTest");
export type PaymentsTest = z.infer<typeof paymentsTestSchema>;

export const testPayments = routes.post("/api/v1/admin/payments/test", {
  summary: "Ask the payment provider for its last event, with the key that is set",
  optional_body: noFields,
  answers: { 200: json(paymentsTestSchema, "whether it answered") },
});
