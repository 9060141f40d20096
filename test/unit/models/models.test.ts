import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { ChatRequest } from "../../../src/api/contract/completions.ts";
import { modelSchema } from "../../../src/api/contract/models.ts";
import { CATALOGUE } from "../../../src/gateway/models/catalogue.ts";
import { modelRecord } from "../../../src/gateway/models/model-list.ts";
import { createModels } from "../../../src/gateway/models/models.service.ts";
import type { Model, ModelSettings, ModelsConfig } from "../../../src/gateway/models/models.types.ts";
import { BUILT_IN_PROVIDERS, PROVIDER_KEYS } from "../../../src/gateway/models/providers.ts";
import { rankModels } from "../../../src/gateway/models/routing.ts";
import { isUuid } from "../../../src/platform/lib/ids.ts";
import { threadMs } from "../../support/held.ts";
import { modelOf, requestOf } from "./model-fixture.ts";

const LAB = { name: "lab", kind: "openai-compatible" as const, base_url: "http://127.0.0.1:1/v1", api_key_env: null };
const settingsOf = (fields: Partial<ModelSettings> = {}): ModelSettings => {
  const { uuid, owned_by, rehearsal, price_version, deprecation, route, ...model } = modelOf();
  return { ...model, provider: "lab", routes: [], prices: [], ...fields };
};
const modelsOf = (config: Partial<ModelsConfig> = {}) =>
  createModels({ config: { providers: [], models: [], margin: 1, provider_keys: {}, ...config } });

describe("the models on offer", () => {
  it("are only the rehearsal model if no provider has a key", () => {
    expect(
      modelsOf()
        .list()
        .map((model) => model.id),
    ).toEqual(["purser/rehearsal"]);
  });

  it("are the catalogue's of each provider whose key is set", () => {
    const ids = modelsOf({ provider_keys: { ANTHROPIC_API_KEY: "k" } })
      .list()
      .map((model) => model.id);
    expect(ids).toContain("claude-opus-5-5");
    expect(ids.filter((id) => id.startsWith("gpt") || id.startsWith("gemini"))).toEqual([]);
  });

  it("include the operator's, which replace the catalogue's with the same id", () => {
    const models = modelsOf({
      providers: [LAB],
      models: [settingsOf(), settingsOf({ id: "gpt-4.1", input_rate_micro: 5 })],
      provider_keys: { OPENAI_API_KEY: "k" },
    });
    expect(models.find("lab/small")).toMatchObject({ owned_by: "lab", provider_model: "fake-large" });
    expect(models.find("gpt-4.1")).toMatchObject({ owned_by: "lab", input_rate_micro: 5 });
    expect(models.list().filter((model) => model.id === "gpt-4.1")).toHaveLength(1);
  });

  it("are found by id and by a stable UUID", () => {
    const config = { providers: [LAB], models: [settingsOf()] };
    const uuid = modelsOf(config).find("lab/small")?.uuid ?? "";
    expect(isUuid(uuid)).toBe(true);
    expect(modelsOf(config).find(uuid.toUpperCase())?.id).toBe("lab/small");
    expect(modelsOf(config).find("lab/large")).toBeNull();
  });

  it("are shown as the contract says, with rates as decimals", () => {
    const settings = settingsOf({ cached_input_rate_micro: 25_000 });
    const models = modelsOf({ providers: [LAB], models: [settings], cache_pricing: "provider" });
    for (const model of models.list()) modelSchema.parse(modelRecord(model));
    const record = modelRecord(models.find("lab/small") as Model);
    expect(record).toMatchObject({
      input_rate: 0.25,
      output_rate: 1.25,
      cached_input_rate: 0.025,
      cache_write_rate: 0.25,
      cost_multiplier: 0.5,
    });
    const flat = modelsOf({ providers: [LAB], models: [settings] });
    expect(modelRecord(flat.find("lab/small") as Model)).toMatchObject({ cached_input_rate: 0.25 });
  });
});

describe("the catalogue", () => {
  it("has every key of its providers named in the operating guide", () => {
    const guide = readFileSync("docs/operating/README.md", "utf8");
    const named = guide.split("\n").find((line) => line.startsWith("| provider keys |")) ?? "";
    expect(named.match(/[A-Z][A-Z_]+_KEY/g)).toEqual(PROVIDER_KEYS);
  });

  it("has an id, a known provider, a source and a date for each price, and output above input (none of embeddings)", () => {
    const providers = BUILT_IN_PROVIDERS.map((provider) => provider.name);
    expect(new Set(CATALOGUE.map((entry) => entry.id)).size).toBe(CATALOGUE.length);
    for (const { provider, model_kind, prices } of CATALOGUE) {
      expect(providers).toContain(provider);
      for (const { source, as_of, usd_per_million } of prices) {
        expect(source).toMatch(/^https:\/\//);
        expect(as_of).toMatch(/^2026-\d\d-\d\d$/);
        if (model_kind === "embedding") expect(usd_per_million.output).toBe("0");
        else expect(Number(usd_per_million.output)).toBeGreaterThan(Number(usd_per_million.input));
      }
    }
  });

  it("multiplies prices by the margin", () => {
    const provider_keys = { OPENAI_API_KEY: "k" };
    expect(modelsOf({ provider_keys }).find("gpt-4.1")).toMatchObject({
      input_rate_micro: 1_250_000,
      output_rate_micro: 5_000_000,
    });
    expect(modelsOf({ provider_keys, margin: 1.2 }).find("gpt-4.1")).toMatchObject({ input_rate_micro: 1_500_000 });
  });
});

describe("routing", () => {
  const rates = (input_rate_micro: number, output_rate_micro: number) => ({ input_rate_micro, output_rate_micro });
  const cheap = modelOf({ id: "cheap", ...rates(100_000, 400_000) });
  const cheaper = modelOf({ id: "cheaper", ...rates(50_000, 200_000) });
  const middle = modelOf({ id: "middle", ...rates(1_000_000, 5_000_000) });
  const best = modelOf({ id: "best", trial_eligible: false, ...rates(3_000_000, 15_000_000) });
  const rehearsal = modelOf({ id: "purser/rehearsal", rehearsal: true, ...rates(0, 0) });
  const all = [best, cheap, middle, rehearsal, cheaper];
  const route = (
    fields: Partial<ChatRequest>,
    options: { models?: Model[]; is_trial?: boolean; sticky?: string; resting?: string[] } = {},
  ) =>
    rankModels({
      request: requestOf({ model: "auto", ...fields }),
      models: options.models ?? all,
      is_trial: options.is_trial ?? false,
      sticky_model_id: options.sticky ?? null,
      isResting: ({ id }) => options.resting?.includes(id) ?? false,
    }).candidates.map((model) => model.id);
  const asks = (content: string) => ({ messages: [{ role: "user" as const, content }] });

  it("chooses the cheapest model of the tier that the task needs, then of better tiers", () => {
    expect(route(asks("hello"))).toEqual(["cheaper", "cheap", "middle", "best"]);
    expect(route(asks("Compare these two"))[0]).toBe("middle");
    const hard = { ...asks("Analyse this: ```x```"), tools: [{ type: "function" as const, function: { name: "t" } }] };
    expect(route(hard)[0]).toBe("best");
  });

  it("never chooses the rehearsal model while a real one qualifies", () => {
    expect(route({})).not.toContain("purser/rehearsal");
    expect(route({}, { models: [rehearsal] })).toEqual(["purser/rehearsal"]);
  });

  it("chooses only models that the request needs and the account may use", () => {
    const plain = modelOf({
      id: "plain",
      ...rates(1, 2),
      context_window: 1_000,
      supports: { tools: false, streaming: false, json_schema: false, vision: false, files: false, audio: false },
    });
    const models = [plain, middle];
    const image = { type: "image_url", image_url: { url: "https://a.test/x.png" } };
    expect(route({}, { models })[0]).toBe("plain");
    for (const need of [
      { tools: [{ type: "function" as const, function: { name: "t" } }] },
      { stream: true },
      { response_format: { type: "json_schema" as const, json_schema: { name: "n" } } },
      { messages: [{ role: "user" as const, content: [image] }] },
      asks("long ".repeat(2_000)),
    ]) {
      expect(route(need, { models })).toEqual(["middle"]);
    }
    expect(route({}, { models: [best], is_trial: true })).toEqual([]);
  });

  it("stays with the model of the earlier turns while it qualifies", () => {
    expect(route({}, { sticky: "middle" })[0]).toBe("middle");
    expect(route({}, { sticky: "gone" })[0]).toBe("cheaper");
    expect(route({}, { sticky: "best", is_trial: true })[0]).toBe("cheaper");
  });

  it("tries models whose provider has just failed last, also the one of the earlier turns", () => {
    expect(route({}, { resting: ["cheaper", "middle"] })).toEqual(["cheap", "best", "cheaper", "middle"]);
    expect(route({}, { sticky: "middle", resting: ["middle"] }).at(-1)).toBe("middle");
    expect(route({}, { models: [cheap], resting: ["cheap"] })).toEqual(["cheap"]);
  });

  it("uses the operator's tier of a model, and counts a free model as the cheapest", () => {
    const free = modelOf({ id: "free", ...rates(0, 0) });
    const free_and_good = modelOf({ id: "good", ...rates(0, 0), tier: "premium" });
    expect(route(asks("hello"), { models: [...all, free, free_and_good] })[0]).toBe("free");
    const hard = asks("Analyse this: ```x```. function f(x) {}".padEnd(20_000, " word"));
    expect(route(hard, { models: [...all, free, free_and_good] })[0]).toBe("good");
  });

  it("shows the parts of the score", () => {
    const request = requestOf({ model: "auto", ...asks("Compare `a` with ```b```") });
    const { reason } = rankModels({
      request,
      models: all,
      is_trial: false,
      sticky_model_id: null,
      isResting: () => false,
    });
    expect(reason).toBe("score 3 (code, reasoning): tier standard, the cheapest in it");
  });

  it("takes linear time on hostile prompts", () => {
    const began_ms = threadMs();
    route(asks("class ".repeat(300_000)));
    expect(threadMs() - began_ms).toBeLessThan(2_000);
  });
});
