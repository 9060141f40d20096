import { z } from "zod";
import {
  type ClassRates,
  MODEL_ID,
  type ModelSettings,
  NO_SUPPORT,
  type Rates,
} from "../gateway/models/models.types.ts";
import { upstreamRateOfPrice } from "../gateway/models/pricing.ts";
import { PROVIDER_KINDS, type ProviderKind, traitsOf } from "../gateway/models/providers.ts";
import { RATE_SCALE } from "../kernel/constants.ts";
import { instantOf } from "../platform/lib/instant.ts";
import { isJsonObject } from "../platform/lib/json.ts";
import { count, httpAddress, identifier, list, number, record, text, title, VARIABLE } from "./file-fields.ts";

/** contract 9: `providers` and `models` of the configuration file. Rates are parsed to millionths. */

/** Far above any price; keeps tokens × rate within PostgreSQL's bigint. */
const MAX_RATE = 1_000_000;
/** More ways to one model than any provider sells. */
const MAX_ROUTES = 20;
const MAX_WEIGHT = 1_000_000;
const FIELD = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
/** They are part of every request, or multiply its cost. */
const RESERVED_FIELDS: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "max_tokens",
  "max_completion_tokens",
  "stream",
  "stream_options",
  "n",
  "best_of",
]);
const KINDS = Object.keys(PROVIDER_KINDS) as ProviderKind[];
/** The kinds to whose requests the operator may add fields. */
export const OPEN_KINDS = KINDS.filter((kind) => traitsOf(kind).takes_other_fields).join(" and ");

/** Billed tokens per raw token → millionths. A number of at most six decimals is exactly its millionths over 10⁶. */
const rate = number()
  .min(0, "must not be negative")
  .max(MAX_RATE, `must be at most ${MAX_RATE}`)
  .refine((value) => Math.round(value * RATE_SCALE) / RATE_SCALE === value, "has more than 6 decimals")
  .transform((value) => Math.round(value * RATE_SCALE));

const flag = (value: boolean) => z.boolean("must be true or false").default(value);

/** Fields that callers may send beside the provider kind's list. The operator has to know their price. */
const forward = z
  .array(
    text(FIELD, "must be the name of a field of a request").refine(
      (field) => !RESERVED_FIELDS.has(field),
      "cannot be forwarded: the service sets it, or computes the worst case from it",
    ),
    "must be a list",
  )
  .default([]);

export const provider = record({
  name: identifier,
  kind: z.enum(KINDS, `must be ${KINDS.slice(0, -1).join(", ")} or ${KINDS.at(-1)}`),
  base_url: httpAddress
    .transform((url) => url.replace(/\/+$/, ""))
    .optional()
    .describe("The address of the server; an openai-compatible provider needs it"),
  api_key_env: text(VARIABLE, "must be the name of an environment variable")
    .optional()
    .describe("The variable that holds the provider's key; a file with the key is named by the same name and _FILE"),
  forward,
})
  .refine(({ kind, forward: fields }) => fields.length === 0 || traitsOf(kind).takes_other_fields, {
    path: ["forward"],
    message: `works with kinds ${OPEN_KINDS} only`,
  })
  .refine(({ kind, base_url }) => !traitsOf(kind).needs_address || base_url !== undefined, {
    path: ["base_url"],
    error: ({ input }) => `is missing; an ${(input as { kind: string }).kind} provider needs it`,
  })
  .transform(({ base_url, api_key_env, ...rest }) => ({
    ...rest,
    /** null: the provider's own address. */
    base_url: base_url ?? null,
    /** null: no key is sent. */
    api_key_env: api_key_env ?? traitsOf(rest.kind).api_key_env,
  }));

const optionalRate = rate.nullable().default(null);
const RATES = {
  input_rate: rate.describe("Billed tokens per token of input: US dollars per token × 625,000 × margin"),
  cached_input_rate: optionalRate.describe("null: cached input costs what other input costs"),
  cache_write_rate: optionalRate,
  cache_write_1h_rate: optionalRate,
  output_rate: rate.describe("Billed tokens per token of output. A model of kind embedding has none"),
};

interface FileRates {
  input_rate: number;
  cached_input_rate: number | null;
  cache_write_rate: number | null;
  cache_write_1h_rate: number | null;
  output_rate: number;
}

/** null of a class of input: it costs what other input costs; of writes for an hour: what other writes cost. */
function classRatesOf(rates: FileRates): ClassRates {
  return {
    input_rate_micro: rates.input_rate,
    cached_input_rate_micro: rates.cached_input_rate,
    cache_write_rate_micro: rates.cache_write_rate,
    cache_write_1h_rate_micro: rates.cache_write_1h_rate,
    output_rate_micro: rates.output_rate,
  };
}

interface FileTier {
  above_input_tokens: number;
  input_rate?: number | undefined;
  cached_input_rate?: number | undefined;
  cache_write_rate?: number | undefined;
  cache_write_1h_rate?: number | undefined;
  output_rate?: number | undefined;
}

/** A tier has the rates of the model for the classes that it does not name. */
function ratesOf({ tiers, ...rates }: FileRates & { tiers: FileTier[] }): Rates {
  const higher = tiers.map((tier) => ({
    above_input_tokens: tier.above_input_tokens,
    ...classRatesOf({
      input_rate: tier.input_rate ?? rates.input_rate,
      cached_input_rate: tier.cached_input_rate ?? rates.cached_input_rate,
      cache_write_rate: tier.cache_write_rate ?? rates.cache_write_rate,
      cache_write_1h_rate: tier.cache_write_1h_rate ?? rates.cache_write_1h_rate,
      output_rate: tier.output_rate ?? rates.output_rate,
    }),
  }));
  return { ...classRatesOf(rates), tiers: higher };
}

/** The rates of whole requests with more input than `above_input_tokens`. */
const tiers = list(
  record({
    above_input_tokens: count(1),
    input_rate: rate.optional(),
    cached_input_rate: rate.optional(),
    cache_write_rate: rate.optional(),
    cache_write_1h_rate: rate.optional(),
    output_rate: rate.optional(),
  }),
);

const DATE_EXPECTED = "must be a day such as 2027-01-01, or an instant such as 2027-01-01T09:00:00Z";
const date = z
  .union([z.iso.date(), z.iso.datetime({ offset: true })], DATE_EXPECTED)
  .transform((value) => instantOf(Date.parse(value)))
  .nullable()
  .default(null);

/** US dollars per million tokens, in millionths of a dollar. */
const dollars = number()
  .min(0, "must not be negative")
  .max(MAX_RATE, `must be at most ${MAX_RATE}`)
  .transform((value) => upstreamRateOfPrice(value));

/** What the provider charges the operator. */
const upstream = record({
  input: dollars,
  cached_input: dollars.nullable().default(null),
  cache_write: dollars.nullable().default(null),
  cache_write_1h: dollars.nullable().default(null),
  output: dollars,
}).transform(
  (prices): Rates => ({
    input_rate_micro: prices.input,
    cached_input_rate_micro: prices.cached_input,
    cache_write_rate_micro: prices.cache_write,
    cache_write_1h_rate_micro: prices.cache_write_1h,
    output_rate_micro: prices.output,
    tiers: [],
  }),
);

/** An embedding model has no output: no rate, no price and no cap of it. */
function withoutOutput(value: unknown): unknown {
  if (!isJsonObject(value) || value.kind !== "embedding") return value;
  const { prices, upstream_usd_per_million: upstream_usd } = value;
  return {
    output_rate: 0,
    max_output_tokens: 1,
    ...value,
    ...(Array.isArray(prices)
      ? { prices: prices.map((each) => (isJsonObject(each) ? { output_rate: 0, ...each } : each)) }
      : {}),
    ...(isJsonObject(upstream_usd) ? { upstream_usd_per_million: { output: 0, ...upstream_usd } } : {}),
  };
}

/** One of several ways to a model. */
const route = record({
  provider: z.string("must be the name of a provider"),
  /** Absent: the model's own. */
  provider_model: title.optional(),
  weight: number()
    .min(0, "must not be negative")
    .max(MAX_WEIGHT, `must be at most ${MAX_WEIGHT}`)
    .default(1)
    .describe("The share of calls that this route gets; 0: only after others failed"),
  /** Absent: the model's own. */
  upstream_usd_per_million: upstream.nullable().optional(),
});

interface FileRoutes {
  provider?: string | undefined;
  provider_model?: string | undefined;
  routes?: z.output<typeof route>[] | undefined;
}

/** The ways to a model. A route has the model's own name at the provider and upstream prices, unless it states others. */
function routesOf(
  { provider: only = "", provider_model = "", routes = [] }: FileRoutes,
  of_model: Rates | null,
): Pick<ModelSettings, "provider" | "provider_model" | "routes" | "upstream"> {
  const all = routes.map(({ upstream_usd_per_million = of_model, ...each }) => ({
    provider: each.provider,
    provider_model: each.provider_model ?? provider_model,
    weight: each.weight,
    upstream: upstream_usd_per_million,
  }));
  const [first = { provider: only, provider_model, upstream: of_model }] = all;
  return { provider: first.provider, provider_model: first.provider_model, upstream: first.upstream, routes: all };
}

const modelRecord = record({
  id: text(MODEL_ID, "must be 1 to 128 letters, digits or ._:/@-")
    .refine(
      (id) => id !== "auto" && !id.startsWith("agent/") && !id.startsWith("purser/"),
      "is reserved: auto, agent/… and purser/… are the service's own",
    )
    .describe("The name by which callers request the model"),
  kind: z.enum(["chat", "embedding"], "must be chat or embedding").default("chat"),
  provider: z.string("must be the name of a provider").optional().describe("The name of a provider of this file"),
  provider_model: title.optional().describe("The provider's own name of the model"),
  routes: z
    .array(route, "must be a list")
    .min(1, "must have at least one route")
    .max(MAX_ROUTES, `must have at most ${MAX_ROUTES} routes`)
    .optional()
    .describe("Several providers or keys for this model, instead of provider"),
  name: title.optional(),
  ...RATES,
  tiers,
  prices: list(record({ valid_from: date, valid_until: date, ...RATES, tiers })).describe(
    "Rates for a time, instead of the model's own. The last one in force applies",
  ),
  upstream_usd_per_million: upstream.nullable().default(null).describe("What the provider charges the operator"),
  tier: z
    .enum(["economy", "standard", "premium"], "must be economy, standard or premium")
    .nullable()
    .default(null)
    .describe("The quality of the model for routing; null: by its price"),
  trial_eligible: flag(false).describe("true: users in their trial may use the model"),
  context_window: count(1),
  max_output_tokens: count(1),
  supports: record({
    tools: flag(false),
    streaming: flag(true),
    json_schema: flag(false),
    vision: flag(false),
    files: flag(false),
    audio: flag(false),
  })
    .prefault({})
    .describe("The features of the model; only what is declared is sent to it"),
  part_tokens: record({
    image: count(1).nullable().default(null),
    file: count(1).nullable().default(null),
    audio: count(1).nullable().default(null),
  })
    .prefault({})
    .describe("Input tokens that one part costs at most; null: the rest of the context window"),
  forward,
})
  .superRefine(({ provider: only, provider_model, routes }, { addIssue }) => {
    const fault = (path: PropertyKey[], message: string) => addIssue({ code: "custom", path, message });
    if (routes === undefined) {
      if (only === undefined) fault(["provider"], "is missing");
      if (provider_model === undefined) fault(["provider_model"], "is missing");
    } else if (only !== undefined) fault(["provider"], "and routes exclude each other: each route names its provider");
    for (const [at, each] of routes?.entries() ?? []) {
      const is_named = (each.provider_model ?? provider_model) !== undefined;
      if (!is_named) fault(["routes", at, "provider_model"], "is missing");
    }
  })
  .transform(
    ({
      input_rate,
      cached_input_rate,
      cache_write_rate,
      cache_write_1h_rate,
      output_rate,
      tiers,
      prices,
      upstream_usd_per_million,
      name,
      kind,
      ...rest
    }): ModelSettings => ({
      ...rest,
      ...(kind === "embedding" ? { supports: NO_SUPPORT, max_output_tokens: 0 } : {}),
      model_kind: kind,
      ...routesOf(rest, upstream_usd_per_million),
      name: name ?? rest.id,
      ...ratesOf({ input_rate, cached_input_rate, cache_write_rate, cache_write_1h_rate, output_rate, tiers }),
      prices: prices.map(({ valid_from, valid_until, ...rates }) => ({ valid_from, valid_until, ...ratesOf(rates) })),
    }),
  );

export const model = z.preprocess(withoutOutput, modelRecord);
