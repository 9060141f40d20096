import { z } from "zod";
import type { PartTokens, Supports } from "./models.types.ts";

/** Converts the published format of models.dev (api.json) to a catalogue file. Pure. */

/** A price in US dollars per million tokens. */
const usd = z.number().min(0);
const costFields = {
  input: usd.optional(),
  output: usd.optional(),
  reasoning: usd.optional(),
  cache_read: usd.optional(),
  cache_write: usd.optional(),
  input_audio: usd.optional(),
};
const tierSchema = z.looseObject({
  ...costFields,
  tier: z.looseObject({ type: z.string().default("context"), size: z.number() }),
});
const modelSchema = z.looseObject({
  id: z.string(),
  name: z.string(),
  status: z.string().optional(),
  tool_call: z.boolean().default(false),
  structured_output: z.boolean().default(false),
  cost: z
    .looseObject({
      ...costFields,
      context_over_200k: z.looseObject(costFields).optional(),
      tiers: z.array(tierSchema).optional(),
    })
    .optional(),
  limit: z.looseObject({ context: z.number(), output: z.number() }),
  modalities: z.looseObject({ input: z.array(z.string()), output: z.array(z.string()) }),
});
const providersSchema = z.record(z.string(), z.looseObject({ models: z.record(z.string(), z.unknown()) }));

type ListedModel = z.infer<typeof modelSchema>;
type Cost = NonNullable<ListedModel["cost"]>;
type FlatCost = Pick<Cost, "input" | "output" | "cache_read" | "cache_write">;

/** The operator's decisions and the bounds of a model that the built-in catalogue knows. models.dev has neither. */
export interface KnownModel {
  id: string;
  trial_eligible: boolean;
  supports: Supports;
  part_tokens: PartTokens;
}

export interface ImportOptions {
  /** The providers to take, by their names there, which are the names here too. */
  providers: readonly string[];
  /** The day of the file, YYYY-MM-DD. */
  as_of: string;
  known: readonly KnownModel[];
}

/** The entries of a catalogue file, and the models that it cannot have. */
export interface Imported {
  models: object[];
  skipped: { id: string; reason: string }[];
}

const SOURCE = "https://models.dev/api.json";
const OVER_200K_TOKENS = 200_000;
/** Anthropic charges twice the price of input for writes that its cache keeps for an hour. models.dev omits it. */
const HOUR_FACTOR: Readonly<Record<string, number>> = { anthropic: 2 };

/** Reads the text of api.json. Throws a RangeError when it has another format. */
export function catalogueOfModelsDev(text: string, { providers, as_of, known }: ImportOptions): Imported {
  const listed = collectProviders(text);
  const models: object[] = [];
  const skipped: Imported["skipped"] = [];
  const ids = new Set<string>();
  for (const provider of providers) {
    for (const [id, listing] of Object.entries(listed[provider]?.models ?? {})) {
      const parsed = modelSchema.safeParse(listing);
      const reason = ids.has(id) ? "another provider has a model with this id" : reasonAgainst(parsed.data);
      if (reason !== null || parsed.data === undefined) {
        skipped.push({ id, reason: reason ?? "its format is unknown" });
        continue;
      }
      ids.add(id);
      models.push(toEntry(parsed.data, { provider, as_of, known: known.find((each) => each.id === id) }));
    }
  }
  return { models, skipped };
}

function collectProviders(text: string): z.infer<typeof providersSchema> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new RangeError(`it is no JSON: ${(error as Error).message}`);
  }
  const wrapped = z.object({ providers: providersSchema }).safeParse(json);
  const parsed = wrapped.success ? { success: true, data: wrapped.data.providers } : providersSchema.safeParse(json);
  if (!parsed.success || parsed.data === undefined) throw new RangeError("it is not the api.json of models.dev");
  return parsed.data;
}

/** Why a model cannot be in the catalogue; null: it can. */
function reasonAgainst(model: ListedModel | undefined): string | null {
  if (model === undefined) return "its format is unknown";
  const { cost, limit, modalities } = model;
  if (!modalities.input.includes("text") || !modalities.output.includes("text"))
    return "it does not answer text with text";
  if (cost?.input === undefined || cost.output === undefined) return "it has no price";
  const is_free = cost.input === 0 && cost.output === 0;
  if (!is_free && cost.output <= cost.input) return "its output costs no more than its input";
  if (cost.reasoning !== undefined && cost.reasoning !== cost.output) return "its reasoning has a price of its own";
  if (limit.context < 1 || limit.output < 1) return "its limits are unknown";
  if (cost.tiers?.some(({ tier }) => tier.type !== "context")) return "it has a tier that is not by context";
  const uneven = toTiers(cost).some(({ rates: { input = 0, output = 0 } }) => output <= input);
  return uneven ? "a tier's output costs no more than its input" : null;
}

/** Tiers by context, in ascending order. `context_over_200k` is the older form of one tier. */
function toTiers({ tiers, context_over_200k }: Cost): { above: number; rates: FlatCost }[] {
  if (tiers !== undefined) {
    const sorted = tiers.toSorted((a, b) => a.tier.size - b.tier.size);
    return sorted.map((each) => ({ above: each.tier.size, rates: each }));
  }
  return context_over_200k === undefined ? [] : [{ above: OVER_200K_TOKENS, rates: context_over_200k }];
}

function toEntry(
  { id, name, status, cost = {}, limit, modalities, tool_call, structured_output }: ListedModel,
  { provider, as_of, known }: { provider: string; as_of: string; known: KnownModel | undefined },
): object {
  const hour = HOUR_FACTOR[provider];
  const tiers = toTiers(cost).map(({ above, rates }) => ({
    above_input_tokens: above,
    ...pricesOf({ ...unnamedAtInput(cost, rates), ...rates }, hour),
  }));
  const takes = (kind: string) => modalities.input.includes(kind);
  const takes_audio = takes("audio") && cost.input_audio === cost.input;
  const supports = { tools: tool_call, json_schema: structured_output, vision: takes("image"), files: takes("pdf") };
  return {
    id,
    provider,
    name: name.slice(0, 100),
    prices: [{ usd_per_million: pricesOf(cost, hour), tiers, source: SOURCE, as_of }],
    context_window: limit.context,
    max_output_tokens: Math.min(limit.output, limit.context),
    trial_eligible: known?.trial_eligible ?? false,
    supports: known?.supports ?? { ...supports, audio: takes_audio },
    ...(known === undefined ? {} : { part_tokens: known.part_tokens }),
    deprecation: status === "deprecated" ? {} : null,
  };
}

/** A tier that does not name a class that the model has charges the tier's price of input for it: never too little. */
function unnamedAtInput(cost: FlatCost, { input }: FlatCost): FlatCost {
  return {
    ...(cost.cache_read === undefined ? {} : { cache_read: input }),
    ...(cost.cache_write === undefined ? {} : { cache_write: input }),
  };
}

function pricesOf({ input = 0, output = 0, cache_read, cache_write }: FlatCost, hour: number | undefined): object {
  return {
    input: decimal(input),
    ...(cache_read === undefined ? {} : { cached_input: decimal(cache_read) }),
    ...(cache_write === undefined ? {} : { cache_write: decimal(cache_write) }),
    ...(cache_write === undefined || hour === undefined ? {} : { cache_write_1h: decimal(input * hour) }),
    output: decimal(output),
  };
}

/** Without an exponent and without the noise of binary fractions. */
function decimal(value: number): string {
  return value.toFixed(9).replace(/\.?0+$/, "");
}
