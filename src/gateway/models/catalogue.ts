import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { instantOf } from "../../platform/lib/instant.ts";
import { type CatalogueEntry, MODEL_ID, NO_SUPPORT, type PartTokens } from "./models.types.ts";

/**
 * The catalogue: models of public providers with the prices and limits that their providers publish. It is data:
 * models.json is built in, and the operator's file has the same format. docs/guides/models.md describes it.
 */

/** An error in a catalogue. `message` names the entry and says what is wrong with it. */
export class CatalogueError extends Error {}

const MAX_MODELS = 5_000;
const MAX_TOKENS = 1_000_000_000_000;
/** Far above any price. It keeps tokens × rate within PostgreSQL's bigint. */
const MAX_USD_PER_MILLION = 1_000_000;
const DECIMAL = /^\d{1,7}(\.\d{1,12})?$/;

const tokens = z.int().min(1).max(MAX_TOKENS);
const day = z.iso.date();
const instant = z.union([day, z.iso.datetime({ offset: true })]).transform((text) => instantOf(Date.parse(text)));
const usd = z
  .union([z.string(), z.number().transform(String)])
  .refine(
    (text) => DECIMAL.test(text) && Number(text) <= MAX_USD_PER_MILLION,
    "must be a decimal number of US dollars",
  );

const prices = { input: usd, cached_input: usd.optional(), cache_write: usd.optional(), output: usd.optional() };
const withHour = { ...prices, cache_write_1h: usd.optional() };
const priceSchema = z.strictObject({
  valid_from: instant.nullable().default(null),
  valid_until: instant.nullable().default(null),
  usd_per_million: z.strictObject(withHour),
  tiers: z.array(z.strictObject({ above_input_tokens: tokens, ...withHour })).default([]),
  source: z.url({ protocol: /^https?$/ }),
  as_of: day,
  note: z.string().max(500).optional(),
});
const entrySchema = z.strictObject({
  id: z.string().regex(MODEL_ID),
  kind: z.enum(["chat", "embedding"]).default("chat"),
  provider: z.string().min(1),
  name: z.string().min(1).max(100),
  prices: z.array(priceSchema).min(1),
  context_window: tokens,
  max_output_tokens: tokens.optional(),
  trial_eligible: z.boolean().default(false),
  supports: z
    .strictObject({
      tools: z.boolean().default(false),
      streaming: z.boolean().default(true),
      json_schema: z.boolean().default(false),
      vision: z.boolean().default(false),
      files: z.boolean().default(false),
      audio: z.boolean().default(false),
    })
    .prefault({}),
  part_tokens: z
    .strictObject({
      image: tokens.nullable().default(null),
      file: tokens.nullable().default(null),
      audio: tokens.nullable().default(null),
      /** Where the provider documents these bounds. */
      source: z.url().optional(),
    })
    .prefault({})
    .transform(({ image, file, audio }): PartTokens => ({ image, file, audio })),
  deprecation: z
    .strictObject({ retires_on: day.nullable().default(null), replacement: z.string().nullable().default(null) })
    .nullable()
    .default(null),
});
const catalogueSchema = z.strictObject({ models: z.array(entrySchema).max(MAX_MODELS) });

/** Reads a catalogue in the format of models.json. Throws a CatalogueError for the first fault. */
export function parseCatalogue(text: string): CatalogueEntry[] {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new CatalogueError(`it is no JSON: ${(error as Error).message}`);
  }
  const parsed = catalogueSchema.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const path = (issue?.path ?? []).map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`));
    throw new CatalogueError(`${path.join("").replace(/^\./, "")}: ${issue?.message}`);
  }
  const models = parsed.data.models.map(completed);
  const ids = new Set<string>();
  for (const entry of models) {
    if (ids.has(entry.id)) throw new CatalogueError(`the model ${entry.id} is there twice`);
    ids.add(entry.id);
    checkEntry(entry);
  }
  return models;
}

/** The entry with the fields that a model without output does not have: its output costs nothing and has no room. */
function completed({ kind, max_output_tokens, ...entry }: z.infer<typeof entrySchema>): CatalogueEntry {
  const { id } = entry;
  const is_chat = kind === "chat";
  if (is_chat && max_output_tokens === undefined) throw new CatalogueError(`${id}: max_output_tokens is missing`);
  const checkOutput = ({ output }: { output?: string | undefined }) => {
    if (is_chat && output === undefined) throw new CatalogueError(`${id}: the price of output is missing`);
    if (!is_chat && output !== undefined) throw new CatalogueError(`${id}: an embedding model has no price of output`);
    return output ?? "0";
  };
  const dated = entry.prices.map((price) => ({
    ...price,
    usd_per_million: { ...price.usd_per_million, output: checkOutput(price.usd_per_million) },
    tiers: price.tiers.map((tier) => ({ ...tier, output: checkOutput(tier) })),
  }));
  const supports = is_chat ? entry.supports : NO_SUPPORT;
  return { ...entry, model_kind: kind, supports, max_output_tokens: max_output_tokens ?? 0, prices: dated };
}

/** `extra` extends `catalogue`; an entry with the same id replaces the other one. */
export function extendedCatalogue(
  catalogue: readonly CatalogueEntry[],
  extra: readonly CatalogueEntry[],
): CatalogueEntry[] {
  return [...new Map([...catalogue, ...extra].map((entry) => [entry.id, entry])).values()];
}

/** The built-in catalogue. */
export const CATALOGUE: readonly CatalogueEntry[] = parseCatalogue(
  readFileSync(join(import.meta.dirname, "models.json"), "utf8"),
);

/** Problems between fields: duplicates, unknown references, inconsistent numbers. */
function checkEntry({ id, model_kind, context_window, max_output_tokens, prices: dated }: CatalogueEntry): void {
  if (max_output_tokens > context_window) {
    throw new CatalogueError(`${id}: max_output_tokens is above context_window`);
  }
  for (const { valid_from, valid_until, usd_per_million, tiers } of dated) {
    if (valid_from !== null && valid_until !== null && valid_until <= valid_from) {
      throw new CatalogueError(`${id}: valid_until must be after valid_from`);
    }
    if (
      tiers.some((tier, index) => index > 0 && tier.above_input_tokens <= (tiers[index - 1]?.above_input_tokens ?? 0))
    ) {
      throw new CatalogueError(`${id}: tiers must be in ascending order of above_input_tokens`);
    }
    for (const each of model_kind === "chat" ? [usd_per_million, ...tiers] : []) {
      const [input, output] = [Number(each.input), Number(each.output)];
      const is_free = input === 0 && output === 0;
      if (!is_free && output <= input) throw new CatalogueError(`${id}: output must cost more than input (or both 0)`);
    }
  }
}
