import type { ModelRecord } from "../../api/contract/models.ts";
import { RATE_SCALE, TOKENS_PER_USD } from "../../kernel/constants.ts";
import { decimalText } from "../../platform/lib/decimal.ts";
import { stableId } from "../../platform/lib/ids.ts";
import { instantOf } from "../../platform/lib/instant.ts";
import { modelsByRoute } from "./model-routes.ts";
import type { ClassRates, Model } from "./models.types.ts";
import { costMultiplier, rateOf, ratesByClass } from "./pricing.ts";
import { traitsOf } from "./providers.ts";
import { EMBEDDING_FIELDS, SERVED_FIELDS } from "./request-fields.ts";

/** The entries of GET /api/v1/models: models, `auto`, and the caller's agents. Pure. */

/** An agent that its user can name as a model. */
export interface ModelAgent {
  id: string;
  name: string;
  /** null: `auto_route`. */
  model_id: string | null;
  /** `pass`: it takes the caller's tools beside its own. */
  client_tools: "ignore" | "pass";
  /** Its answers have its own schema, so it takes no other. */
  has_output_schema: boolean;
  /** Unix time in seconds. */
  created: number;
}

const CLASSES = [
  "input_rate_micro",
  "cached_input_rate_micro",
  "cache_write_rate_micro",
  "cache_write_1h_rate_micro",
  "output_rate_micro",
] as const;
/** Decimals of a price per token: a millionth of a billed token is 1.6e-12 dollars. */
const PRICE_DECIMALS = 13;
const PRICE_UNITS = BigInt(10 ** PRICE_DECIMALS / (RATE_SCALE * TOKENS_PER_USD));
/** An agent brings its own tools, and answers in text unless it takes the caller's tools. */
const AGENT_SUPPORTS = { tools: false, streaming: true, json_schema: false, vision: false, files: false, audio: false };
const AGENT_PARAMETERS = ["model", "messages", "stream", "stream_options"];
const CLIENT_TOOL_PARAMETERS = ["tools", "tool_choice"];
const PARAMETERS_BY_FEATURE = {
  tools: ["tools", "tool_choice", "parallel_tool_calls"],
  streaming: ["stream", "stream_options"],
  json_schema: ["response_format"],
} as const;

/** A model in the shape of the API. */
export function modelRecord(model: Model): ModelRecord {
  const { id, uuid, owned_by, name, context_window, max_output_tokens, trial_eligible, supports, tier } = model;
  return {
    id,
    uuid,
    object: "model",
    kind: model.model_kind,
    created: 0,
    owned_by,
    name,
    context_window,
    context_length: context_window,
    max_output_tokens,
    ...rateFields(model),
    pricing: pricingOf(model),
    tiers: model.tiers.map((each) => ({ above_input_tokens: each.above_input_tokens, ...rateFields(each) })),
    cost_multiplier: costMultiplier(model),
    price_version: model.price_version,
    tier,
    trial_eligible,
    supports,
    supported_parameters: parametersOf(model),
    deprecation: model.deprecation,
  };
}

/** The entry `auto`: the features of all candidates, at the rates of the dearest. Null without a model. */
export function autoRecord(models: readonly Model[]): ModelRecord | null {
  const real = models.filter(({ rehearsal }) => !rehearsal);
  const candidates = real.length > 0 ? real : models;
  const dearest = candidates.at(-1);
  if (dearest === undefined) return null;
  const rates = candidates.map(ratesByClass);
  const highest = Object.fromEntries(CLASSES.map((name) => [name, Math.max(...rates.map((each) => each[name]))]));
  const any = (feature: keyof Model["supports"]) => candidates.some(({ supports }) => supports[feature]);
  const most = (size: "context_window" | "max_output_tokens") => Math.max(...candidates.map((model) => model[size]));
  return {
    ...modelRecord({
      ...dearest,
      ...(highest as unknown as ClassRates),
      id: "auto",
      uuid: stableId("model:auto"),
      name: "Auto (the cheapest model that fits the task)",
      owned_by: "purser",
      context_window: most("context_window"),
      max_output_tokens: most("max_output_tokens"),
      trial_eligible: candidates.some(({ trial_eligible }) => trial_eligible),
      deprecation: null,
      supports: {
        tools: any("tools"),
        streaming: any("streaming"),
        json_schema: any("json_schema"),
        vision: any("vision"),
        files: any("files"),
        audio: any("audio"),
      },
    }),
    kind: "auto",
  };
}

/** An agent as a model, at the price of the model that it uses. */
export function agentModelRecord(
  { id, name, client_tools, has_output_schema, created }: ModelAgent,
  base: ModelRecord,
): ModelRecord {
  const takes_tools = client_tools === "pass";
  return {
    ...base,
    id: `agent/${id}`,
    uuid: id,
    kind: "agent",
    created,
    name,
    owned_by: "you",
    supports: { ...AGENT_SUPPORTS, tools: takes_tools, json_schema: !has_output_schema },
    supported_parameters: [
      ...AGENT_PARAMETERS,
      ...(takes_tools ? CLIENT_TOOL_PARAMETERS : []),
      ...(has_output_schema ? [] : PARAMETERS_BY_FEATURE.json_schema),
    ],
    deprecation: null,
  };
}

/** The list in Anthropic's shape, for requests with `anthropic-version`: what can answer a message. */
export function anthropicList(records: readonly ModelRecord[]) {
  const data = records.filter(({ kind }) => kind !== "embedding").map(anthropicRecord);
  return { data, has_more: false, first_id: data.at(0)?.id ?? null, last_id: data.at(-1)?.id ?? null };
}

/** A model in the shape of Anthropic's API. */
export function anthropicRecord({ id, name, created }: ModelRecord) {
  const created_at = instantOf(Temporal.Instant.fromEpochMilliseconds(created * 1000));
  return { type: "model" as const, id, display_name: name, created_at };
}

/** The fields of the model's endpoint that have an effect with this model, by each of its routes. */
function parametersOf(model: Model): string[] {
  const [first = [], ...others] = modelsByRoute(model).map(parametersByRoute);
  return first.filter((field) => others.every((fields) => fields.includes(field)));
}

function parametersByRoute({ kind, model_kind, forward, supports }: Model): string[] {
  const { forwarded_fields, lacked_fields } = traitsOf(kind);
  if (model_kind === "embedding") return [...EMBEDDING_FIELDS, ...forward];
  const missing = Object.entries(PARAMETERS_BY_FEATURE).flatMap(([feature, fields]) =>
    supports[feature as keyof typeof PARAMETERS_BY_FEATURE] ? [] : fields,
  );
  const without = new Set<string>([...lacked_fields, ...missing]);
  return [...new Set([...SERVED_FIELDS, ...forwarded_fields, ...forward])].filter((field) => !without.has(field));
}

/** US dollars per token as decimal text, exact. */
function pricingOf(rates: ClassRates): ModelRecord["pricing"] {
  const by_class = ratesByClass(rates);
  return {
    prompt: usdPerToken(by_class.input_rate_micro),
    completion: usdPerToken(by_class.output_rate_micro),
    input_cache_read: usdPerToken(by_class.cached_input_rate_micro),
    input_cache_write: usdPerToken(by_class.cache_write_rate_micro),
  };
}

function usdPerToken(rate_micro: number): string {
  return decimalText(BigInt(rate_micro) * PRICE_UNITS, PRICE_DECIMALS);
}

/** The rates as decimals. A class without a rate of its own has the rate that it is billed at. */
function rateFields(rates: ClassRates) {
  const by_class = ratesByClass(rates);
  return {
    input_rate: rateOf(by_class.input_rate_micro),
    cached_input_rate: rateOf(by_class.cached_input_rate_micro),
    cache_write_rate: rateOf(by_class.cache_write_rate_micro),
    cache_write_1h_rate: rateOf(by_class.cache_write_1h_rate_micro),
    output_rate: rateOf(by_class.output_rate_micro),
  };
}
