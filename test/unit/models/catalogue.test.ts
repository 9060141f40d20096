import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CATALOGUE, extendedCatalogue, parseCatalogue } from "../../../src/gateway/models/catalogue.ts";
import type { CatalogueEntry, Model, ModelsConfig } from "../../../src/gateway/models/models.types.ts";
import { offerAt } from "../../../src/gateway/models/offer.ts";
import { costTokens, worstCaseTokens } from "../../../src/gateway/models/pricing.ts";

const NOW = "2026-11-22T12:00:00.000Z";
const config: ModelsConfig = { providers: [], models: [], margin: 1, provider_keys: {}, cache_pricing: "provider" };

function modelAt(id: string, now: string, more: Partial<ModelsConfig> = {}): Model {
  const model = offerAt({ ...config, ...more }, now).models.find((each) => each.id === id);
  if (model === undefined) throw new Error(`${id} is not on offer`);
  return model;
}

type Class = "input" | "cached" | "written" | "written_1h" | "output";
const CLASSES: readonly Class[] = ["input", "cached", "written", "written_1h", "output"];

/** A request whose tokens are all of one class. Output also has an input of `input` tokens. */
function only(of: Class, tokens: number, input = 0) {
  const is = (...classes: Class[]) => (classes.includes(of) ? tokens : 0);
  return {
    input_tokens: of === "output" ? input : tokens,
    cached_input_tokens: is("cached"),
    cache_write_tokens: is("written", "written_1h"),
    cache_write_1h_tokens: is("written_1h"),
    output_tokens: is("output"),
  };
}

/**
 * Computed by hand from the price lists: dollars per million × tokens × 0.625 billed tokens per token, rounded up, and
 * dollars per million × tokens in millionths of a dollar. `short`: 100,000 tokens of the class. `long`: a million, above
 * the provider's price step. A class without a price of its own has the price of input.
 */
// biome-ignore format: a table
const PRICES: [id: string, size: "short" | "long", at: string, billed: number[], upstream_micro_usd: number[]][] = [
  ["gpt-6-luna", "short", NOW, [6250, 625, 7813, 7813, 31_250], [10_000, 1000, 12_500, 12_500, 50_000]],
  ["gpt-6-luna", "long", NOW, [125_000, 12_500, 156_250, 156_250, 468_750], [200_000, 20_000, 250_000, 250_000, 750_000]],
  ["gpt-6.1-terra", "short", NOW, [62_500, 3125, 78_125, 78_125, 312_500], [100_000, 5000, 125_000, 125_000, 500_000]],
  ["gpt-6.1-terra", "long", NOW, [1_250_000, 62_500, 1_562_500, 1_562_500, 4_687_500], [2_000_000, 100_000, 2_500_000, 2_500_000, 7_500_000]],
  ["gpt-6.1-sol", "short", NOW, [125_000, 6250, 156_250, 156_250, 625_000], [200_000, 10_000, 250_000, 250_000, 1_000_000]],
  ["gpt-6.1-sol", "long", NOW, [2_500_000, 125_000, 3_125_000, 3_125_000, 9_375_000], [4_000_000, 200_000, 5_000_000, 5_000_000, 15_000_000]],
  ["gpt-5.5", "short", NOW, [312_500, 31_250, 312_500, 312_500, 1_875_000], [500_000, 50_000, 500_000, 500_000, 3_000_000]],
  ["gpt-5.5", "long", NOW, [6_250_000, 625_000, 6_250_000, 6_250_000, 28_125_000], [10_000_000, 1_000_000, 10_000_000, 10_000_000, 45_000_000]],
  ["gpt-5.4-mini", "short", NOW, [46_875, 4688, 46_875, 46_875, 281_250], [75_000, 7500, 75_000, 75_000, 450_000]],
  ["gpt-5.4-nano", "short", NOW, [12_500, 1250, 12_500, 12_500, 78_125], [20_000, 2000, 20_000, 20_000, 125_000]],
  ["gpt-4.1", "short", NOW, [125_000, 31_250, 125_000, 125_000, 500_000], [200_000, 50_000, 200_000, 200_000, 800_000]],
  ["gpt-4.1-mini", "short", NOW, [25_000, 6250, 25_000, 25_000, 100_000], [40_000, 10_000, 40_000, 40_000, 160_000]],
  ["claude-fable-5-1", "short", NOW, [625_000, 15_625, 781_250, 1_250_000, 3_125_000], [1_000_000, 25_000, 1_250_000, 2_000_000, 5_000_000]],
  ["claude-opus-5-5", "short", NOW, [250_000, 12_500, 312_500, 500_000, 1_250_000], [400_000, 20_000, 500_000, 800_000, 2_000_000]],
  ["claude-sonnet-5-5", "short", "2026-10-06T23:59:59.999Z", [125_000, 12_500, 156_250, 250_000, 625_000], [200_000, 20_000, 250_000, 400_000, 1_000_000]],
  ["claude-sonnet-5-5", "short", "2026-10-07T00:00:00.000Z", [125_000, 6250, 156_250, 250_000, 625_000], [200_000, 10_000, 250_000, 400_000, 1_000_000]],
  ["claude-haiku-5-5", "short", NOW, [6250, 625, 7813, 12_500, 31_250], [10_000, 1000, 12_500, 20_000, 50_000]],
  ["claude-haiku-5-5", "long", NOW, [312_500, 31_250, 390_625, 625_000, 1_562_500], [500_000, 50_000, 625_000, 1_000_000, 2_500_000]],
  ["claude-haiku-4-5-20251001", "short", NOW, [62_500, 6250, 78_125, 125_000, 312_500], [100_000, 10_000, 125_000, 200_000, 500_000]],
  ["gemini-3.8-flash", "short", "2026-12-31T23:59:59.999Z", [46_875, 4688, 46_875, 46_875, 234_375], [75_000, 7500, 75_000, 75_000, 375_000]],
  ["gemini-3.8-flash", "short", "2027-01-01T00:00:00.000Z", [93_750, 93_750, 93_750, 93_750, 468_750], [150_000, 150_000, 150_000, 150_000, 750_000]],
  ["gemini-3.5-flash", "short", NOW, [93_750, 9375, 93_750, 93_750, 562_500], [150_000, 15_000, 150_000, 150_000, 900_000]],
  ["gemini-2.5-pro", "short", NOW, [78_125, 7813, 78_125, 78_125, 625_000], [125_000, 12_500, 125_000, 125_000, 1_000_000]],
  ["gemini-2.5-pro", "long", NOW, [1_562_500, 156_250, 1_562_500, 1_562_500, 9_375_000], [2_500_000, 250_000, 2_500_000, 2_500_000, 15_000_000]],
  ["gemini-2.5-flash", "short", NOW, [18_750, 1875, 18_750, 18_750, 156_250], [30_000, 3000, 30_000, 30_000, 250_000]],
  ["gemini-2.5-flash-lite", "short", NOW, [6250, 625, 6250, 6250, 25_000], [10_000, 1000, 10_000, 10_000, 40_000]],
  ["mistral-large-2512", "short", NOW, [31_250, 31_250, 31_250, 31_250, 93_750], [50_000, 50_000, 50_000, 50_000, 150_000]],
  ["mistral-medium-2604", "short", NOW, [93_750, 93_750, 93_750, 93_750, 468_750], [150_000, 150_000, 150_000, 150_000, 750_000]],
  ["mistral-small-2603", "short", NOW, [9375, 9375, 9375, 9375, 37_500], [15_000, 15_000, 15_000, 15_000, 60_000]],
  ["grok-4.3", "short", NOW, [78_125, 12_500, 78_125, 78_125, 156_250], [125_000, 20_000, 125_000, 125_000, 250_000]],
  ["grok-4.3", "long", NOW, [1_562_500, 250_000, 1_562_500, 1_562_500, 3_125_000], [2_500_000, 400_000, 2_500_000, 2_500_000, 5_000_000]],
  ["openai/gpt-oss-120b", "short", NOW, [9375, 4688, 9375, 9375, 37_500], [15_000, 7500, 15_000, 15_000, 60_000]],
  ["openai/gpt-oss-20b", "short", NOW, [4688, 2344, 4688, 4688, 18_750], [7500, 3750, 7500, 7500, 30_000]],
  ["text-embedding-3-small", "short", NOW, [1250, 1250, 1250, 1250, 0], [2000, 2000, 2000, 2000, 0]],
  ["text-embedding-3-large", "short", NOW, [8125, 8125, 8125, 8125, 0], [13_000, 13_000, 13_000, 13_000, 0]],
  ["gemini-embedding-001", "short", NOW, [9375, 9375, 9375, 9375, 0], [15_000, 15_000, 15_000, 15_000, 0]],
  ["mistral-embed", "short", NOW, [6250, 6250, 6250, 6250, 0], [10_000, 10_000, 10_000, 10_000, 0]],
];

describe("the catalogue", () => {
  it.each(PRICES)("bills and costs %s (%s, %s) exactly in each class", (id, size, at, billed, upstream) => {
    const model = modelAt(id, at);
    const tokens = size === "short" ? 100_000 : 1_000_000;
    const input = size === "short" ? 0 : tokens;
    const input_alone = only("input", input);
    for (const [index, of] of CLASSES.entries()) {
      const counts = only(of, tokens, input);
      // The input decides the tier of a long answer, and has a cost of its own.
      const input_costs =
        of === "output" ? [costTokens(model, input_alone), costTokens(ratesOf(model), input_alone)] : [0, 0];
      expect(costTokens(model, counts) - (input_costs[0] ?? 0), `${of}, billed`).toBe(billed[index]);
      expect(costTokens(ratesOf(model), counts) - (input_costs[1] ?? 0), `${of}, upstream`).toBe(upstream[index]);
    }
  });

  it("has a row in the table above for each model, price and tier", () => {
    const rows = CATALOGUE.flatMap(({ id, prices }) =>
      prices.flatMap(({ tiers }) => [`${id} short`, ...tiers.map(() => `${id} long`)]),
    );
    expect(PRICES.map(([id, size]) => `${id} ${size}`)).toEqual(rows);
  });

  it("never holds less than the charge of a call, for every mix of classes", () => {
    const count = fc.nat(2_000_000);
    const id = fc.constantFrom(...CATALOGUE.map((entry) => entry.id));
    fc.assert(
      fc.property(id, fc.boolean(), fc.tuple(count, count, count, count, count), (id, is_flat, mix) => {
        const model = modelAt(id, NOW, { cache_pricing: is_flat ? "flat" : "provider" });
        const [fresh, cached, written, written_1h, output_tokens] = mix;
        const input_tokens = fresh + cached + written + written_1h;
        const worst = worstCaseTokens(model, { input_tokens, max_output_tokens: output_tokens });
        const counts = {
          input_tokens,
          cached_input_tokens: cached,
          output_tokens,
          cache_write_tokens: written + written_1h,
          cache_write_1h_tokens: written_1h,
        };
        expect(costTokens(model, counts)).toBeLessThanOrEqual(worst);
      }),
      { numRuns: 1_000 },
    );
  });

  it("with flat prices follows the seed's formula in each class", () => {
    for (const { id } of CATALOGUE) {
      const model = modelAt(id, NOW, { cache_pricing: "flat" });
      const { input_rate_micro, output_rate_micro } = model;
      for (const of of CLASSES) {
        const rate_micro = of === "output" ? output_rate_micro : input_rate_micro;
        expect(costTokens(model, only(of, 100_000)), `${id}, ${of}`).toBe(Math.ceil((100_000 * rate_micro) / 1e6));
      }
    }
  });

  it("never cuts a context window at a price step", () => {
    for (const { id, context_window, prices } of CATALOGUE) {
      for (const { above_input_tokens } of prices.flatMap(({ tiers }) => tiers)) {
        expect(context_window, id).toBeGreaterThan(above_input_tokens);
      }
    }
  });
});

function ratesOf(model: Model) {
  if (model.upstream === null) throw new Error(`${model.id} has no upstream prices`);
  return model.upstream;
}

describe("prices with dates", () => {
  const entry = (prices: object[]): CatalogueEntry => {
    const price = { source: "https://a.test/prices", as_of: "2026-11-22" };
    const model = {
      id: "a",
      provider: "openai",
      name: "A",
      context_window: 1000,
      max_output_tokens: 100,
      supports: {},
      prices: prices.map((each) => ({ ...price, ...each })),
    };
    const [parsed] = parseCatalogue(JSON.stringify({ models: [model] }));
    if (parsed === undefined) throw new Error("no entry");
    return parsed;
  };
  const usual = { usd_per_million: { input: 2, output: 10 } };
  const offer = {
    valid_from: "2026-12-01",
    valid_until: "2027-01-01T00:00:00+01:00",
    usd_per_million: { input: "1", output: "5" },
  };

  it("begin at their first instant and end before their last", () => {
    const catalogue = [entry([usual, offer])];
    const rateAt = (now: string) => modelAt("a", now, { catalogue }).input_rate_micro;
    expect(rateAt("2026-11-30T23:59:59.999Z")).toBe(1_250_000);
    expect(rateAt("2026-12-01T00:00:00.000Z")).toBe(625_000);
    expect(rateAt("2026-12-31T22:59:59.999Z")).toBe(625_000);
    expect(rateAt("2026-12-31T23:00:00.000Z")).toBe(1_250_000);
  });

  it("show when the next one begins or ends", () => {
    const catalogue = [entry([usual, offer])];
    expect(offerAt({ ...config, catalogue }, NOW).until).toBe("2026-12-01T00:00:00.000Z");
    expect(offerAt({ ...config, catalogue }, "2026-12-01T00:00:00.000Z").until).toBe("2026-12-31T23:00:00.000Z");
    expect(offerAt({ ...config, catalogue }, "2027-01-01T00:00:00.000Z").until).toBeNull();
  });

  it("hide a model while no price is in force", () => {
    const catalogue = [entry([offer])];
    expect(() => modelAt("a", NOW, { catalogue })).toThrow("not on offer");
    expect(modelAt("a", "2026-12-24T00:00:00.000Z", { catalogue }).id).toBe("a");
  });

  it("change the price version, like the margin does", () => {
    const catalogue = [entry([usual, offer])];
    const version = (now: string, more: object = {}) => modelAt("a", now, { catalogue, ...more }).price_version;
    expect(version(NOW)).toBe(version("2026-11-01T00:00:00.000Z"));
    expect(version("2026-12-24T00:00:00.000Z")).not.toBe(version(NOW));
    expect(version(NOW, { margin: 1.5 })).not.toBe(version(NOW));
  });
});

describe("a catalogue file", () => {
  const sound = {
    id: "a",
    provider: "openai",
    name: "A",
    context_window: 1000,
    max_output_tokens: 100,
    supports: {},
    prices: [{ usd_per_million: { input: "1", output: "2" }, source: "https://a.test/", as_of: "2026-11-22" }],
  };
  const price = (fields: object) => ({ ...sound, prices: [{ ...sound.prices[0], ...fields }] });
  const tier = (above_input_tokens: number, output = "5") => ({ above_input_tokens, input: "2", output });

  it.each<[fault: string, models: object[], reason: RegExp]>([
    ["an unknown field", [{ ...sound, colour: "red" }], /models\[0\].*colour/],
    ["a negative price", [price({ usd_per_million: { input: "-1", output: "2" } })], /usd_per_million\.input/],
    [
      "a price that is no number",
      [price({ usd_per_million: { input: "cheap", output: "2" } })],
      /usd_per_million\.input/,
    ],
    ["output that costs less than input", [price({ usd_per_million: { input: "3", output: "2" } })], /a: output must/],
    ["a price without a source", [price({ source: "somewhere" })], /source/],
    ["an end before its beginning", [price({ valid_from: "2027-01-01", valid_until: "2026-01-01" })], /a: valid_until/],
    ["tiers in another order", [price({ tiers: [tier(200), tier(100)] })], /a: tiers must be in ascending order/],
    ["a tier whose output costs less than its input", [price({ tiers: [tier(200, "1")] })], /a: output must/],
    ["no price", [{ ...sound, prices: [] }], /prices/],
    ["more output than context", [{ ...sound, max_output_tokens: 1001 }], /a: max_output_tokens/],
    ["a model twice", [sound, sound], /a is there twice/],
  ])("with %s is rejected with the location of the fault", (_, models, reason) => {
    expect(() => parseCatalogue(JSON.stringify({ models }))).toThrow(reason);
  });

  it("that is no JSON is rejected", () => {
    expect(() => parseCatalogue("models:")).toThrow("it is no JSON");
  });

  it("extends the built-in catalogue, and replaces models with the same id", () => {
    const extra = parseCatalogue(JSON.stringify({ models: [sound, { ...sound, id: "gpt-4.1" }] }));
    const both = extendedCatalogue(CATALOGUE, extra);
    expect(both).toHaveLength(CATALOGUE.length + 1);
    expect(both.find(({ id }) => id === "gpt-4.1")?.name).toBe("A");
  });
});
