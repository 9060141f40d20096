import { z } from "zod";
import { MODEL_ID } from "../gateway/models/models.types.ts";
import { LIMITS, ROLLOVER_MONTHS, TRIAL_DAYS, TRIAL_TOKENS } from "../kernel/constants.ts";
import { count, identifier, list, number, record, text, title } from "./file-fields.ts";
import { judge } from "./file-judges.schema.ts";
import { model, provider } from "./file-models.schema.ts";

/** contract 9, field by field. What it parses to is what the service works with: defaults filled in, rates in millionths. */

/** The longest wait and the largest grant that calendars and balances are asked to carry. */
const MAX_DAYS = 3_650;
const MAX_MONTHS = 120;

const plan = record({
  id: identifier,
  name: title,
  price_cents: count(0).describe("The price of a period in the smallest unit of the currency"),
  currency: text(/^[a-z]{3}$/, "must be three lower-case letters, such as usd").default("usd"),
  interval: z.literal("month", "must be month").default("month"),
  included_tokens: count(1).describe("The billed tokens of a period"),
  rollover_months: count(0, MAX_MONTHS).optional().describe("How long unused tokens stay after their period"),
  limits: record({
    requests_per_minute: count(1).nullable().default(null),
    tokens_per_minute: count(1).nullable().default(null),
    concurrent_runs: count(1).nullable().default(null),
    allowed_models: z.array(text(MODEL_ID, "must be the id of a model"), "must be a list").nullable().default(null),
  })
    .optional()
    .describe("Limits of this plan's users; null: the service's own"),
});

/** A catalogue file: its path, or the path and whether the file extends the built-in catalogue or replaces it. */
const catalogue = z
  .union(
    [
      z.string().min(1),
      z.strictObject({ file: z.string().min(1), mode: z.enum(["extend", "replace"]).default("extend") }),
    ],
    "must be the path of a file, or a map of file and mode (extend or replace)",
  )
  .transform((value) => (typeof value === "string" ? { file: value, mode: "extend" as const } : value));

const settings = record({
  providers: list(provider).describe("Servers of models, beside the built-in providers"),
  models: list(model).describe("Models with their prices, beside the catalogue"),
  catalogue: catalogue
    .nullable()
    .default(null)
    .describe("A file of models: its path, or the path and whether it extends or replaces the built-in catalogue"),
  cache_pricing: z
    .enum(["flat", "provider"], "must be flat or provider")
    .default("flat")
    .describe("flat: cached input costs what other input costs; provider: it has the provider's own rates"),
  plans: list(plan).describe("The subscriptions on sale; an empty list keeps the default plans"),
  trial: record({ days: count(1, MAX_DAYS).default(TRIAL_DAYS), tokens: count(1).default(TRIAL_TOKENS) })
    .prefault({})
    .describe("What a new user gets"),
  rollover_months: count(0, MAX_MONTHS)
    .default(ROLLOVER_MONTHS)
    .describe("How long unused tokens of a plan stay after their period"),
  margin: number()
    .positive("must be above 0")
    .max(1_000, "must be at most 1000")
    .default(1)
    .describe("A factor on the prices of the catalogue: 1.2 adds 20%"),
  limits: record({
    requests_per_minute: count(1).default(LIMITS.requests_per_minute),
    session_requests_per_minute: count(1).default(LIMITS.session_requests_per_minute),
    concurrent_runs_per_user: count(1).default(LIMITS.concurrent_runs_per_user),
    concurrent_runs: count(1).default(LIMITS.concurrent_runs),
    body_bytes: count(1_024).default(LIMITS.body_bytes),
    model_body_bytes: count(1_024).default(LIMITS.model_body_bytes),
    min_schedule_minutes: count(1, 1_440).default(LIMITS.min_schedule_minutes),
    trigger_requests_per_minute: count(1).default(LIMITS.trigger_requests_per_minute),
    fallback_after_seconds: count(1, 600).default(LIMITS.fallback_after_seconds),
  })
    .prefault({})
    .describe("Limits of each user and of each request"),
  safety: record({ judges: list(judge).describe("Services or models that give a second opinion on pages") }).prefault(
    {},
  ),
  $schema: z.string("must be a text").optional().describe("The JSON Schema of this file, for editors"),
});

/** The keys of the file, in the order of its messages. */
export const FILE_KEYS = Object.keys(settings.shape).filter(
  (key): key is Exclude<keyof typeof settings.shape, "$schema"> => key !== "$schema",
);

/** The default plans (contract 5.4): data, never computed from the token rate. */
const DEFAULT_PLANS = [
  { id: "starter", name: "Starter", price_cents: 2_900, included_tokens: 18_000_000 },
  { id: "professional", name: "Professional", price_cents: 4_900, included_tokens: 30_000_000 },
  { id: "pro", name: "Pro", price_cents: 8_900, included_tokens: 55_000_000 },
  { id: "enterprise", name: "Enterprise", price_cents: 14_900, included_tokens: 93_000_000 },
].map((row) => ({ ...row, currency: "usd", interval: "month" as const, rollover_months: undefined }));

/** The whole file. An empty list of plans keeps the default plans. */
export const configFileSchema = settings.transform(({ $schema: _, plans, ...rest }) => ({
  ...rest,
  plans: (plans.length > 0 ? plans : DEFAULT_PLANS).map((row) => ({
    ...row,
    rollover_months: row.rollover_months ?? rest.rollover_months,
  })),
}));

/** What the file says, defaults filled in. */
export type FileSettings = z.output<typeof configFileSchema>;

const OF_OUTPUT = ["output_rate", "max_output_tokens", "output"];

/** The JSON Schema of the file as people write it, for editors and for checks before a deployment. */
export function createFileJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(configFileSchema, {
    io: "input",
    unrepresentable: "any",
    // The parser adds the fields of output to models of kind embedding, so no text has to have them.
    override: ({ jsonSchema }) => {
      if (jsonSchema.required) jsonSchema.required = jsonSchema.required.filter((name) => !OF_OUTPUT.includes(name));
    },
  });
  return { title: "The configuration file of Purser (PURSER_CONFIG)", ...schema };
}
