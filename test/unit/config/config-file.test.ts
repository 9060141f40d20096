import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { parse as parseYaml } from "yaml";
import { createFileJsonSchema } from "../../../src/config/file.schema.ts";
import { parseConfigFile } from "../../../src/config/file.ts";

const CONTRACT_SAMPLE = `providers:
  - { name: lab, kind: openai-compatible, base_url: "http://127.0.0.1:9999/v1", api_key_env: LAB_KEY }   # kinds
models:
  - { id: lab/small, provider: lab, provider_model: small, name: Lab small, input_rate: 0.25, output_rate: 1.25,
      trial_eligible: true, context_window: 128000, max_output_tokens: 4096, supports: { tools: true, streaming: true } }
plans: []            # replaces the table when given
trial: { days: 14, tokens: 625000 }
rollover_months: 3
margin: 1.0          # on catalogue prices
limits: { requests_per_minute: 600, concurrent_runs_per_user: 10, concurrent_runs: 50, body_bytes: 4194304 }
`;
const isValidForEditors = new Ajv2020({ validateFormats: false }).compile(createFileJsonSchema());

/** Parses a file. An editor must accept each file that the service accepts. */
function parse(text: string) {
  const settings = parseConfigFile(text, "purser.yaml");
  expect([isValidForEditors(parseYaml(text) ?? {}), isValidForEditors.errors]).toEqual([true, null]);
  return settings;
}

/** A file with one provider and one model, each field on its own line; `changes` replaces or removes fields. */
function fileWith(changes: Record<string, string | null>): string {
  const fields: Record<string, string | null> = {
    id: "lab/small",
    provider: "lab",
    provider_model: "small",
    input_rate: "0.25",
    output_rate: "1.25",
    context_window: "128000",
    max_output_tokens: "4096",
    ...changes,
  };
  const lines = Object.entries(fields).flatMap(([key, value]) => (value === null ? [] : [`    ${key}: ${value}`]));
  return `providers: [{ name: lab, kind: openai-compatible, base_url: "http://a/v1" }]\nmodels:\n  -\n${lines.join("\n")}\n`;
}

test("the contract's own sample is valid, and its empty list of plans keeps the default plans", () => {
  const { models, plans } = parse(CONTRACT_SAMPLE);
  expect(plans).toHaveLength(4);
  expect(models).toEqual([
    {
      id: "lab/small",
      model_kind: "chat",
      provider: "lab",
      provider_model: "small",
      routes: [],
      name: "Lab small",
      input_rate_micro: 250_000,
      output_rate_micro: 1_250_000,
      cached_input_rate_micro: null,
      cache_write_rate_micro: null,
      cache_write_1h_rate_micro: null,
      tiers: [],
      prices: [],
      upstream: null,
      tier: null,
      trial_eligible: true,
      context_window: 128_000,
      max_output_tokens: 4096,
      supports: { tools: true, streaming: true, json_schema: false, vision: false, files: false, audio: false },
      part_tokens: { image: null, file: null, audio: null },
      forward: [],
    },
  ]);
});

test("a file names its JSON Schema for editors, and that changes no setting", () => {
  const schema = '{ "$schema": "https://purser.example/docs/config.schema.json", "margin": 2 }';
  expect(parse(schema)).toEqual(parse("margin: 2"));
});

test.each([
  ["margn: 2", "an unknown key"],
  ["margin: two", "a text in place of a number"],
  [
    "models: [{ id: lab/small, provider: lab, provider_model: small, input_rate: 1, context_window: many }]",
    "a word in place of a number",
  ],
  ["providers: [{ name: lab, kind: mistral }]", "an unknown kind"],
])("an editor marks %s: %s", (text) => {
  expect(isValidForEditors(parseYaml(text))).toBe(false);
});

test("plans in the file replace the default plans, with the file's rollover", () => {
  const { plans } = parse(
    "plans: [{ id: solo, name: Solo, price_cents: 500, included_tokens: 3000000 }]\nrollover_months: 1\n",
  );
  expect(plans).toEqual([
    {
      id: "solo",
      name: "Solo",
      price_cents: 500,
      currency: "usd",
      interval: "month",
      included_tokens: 3_000_000,
      rollover_months: 1,
    },
  ]);
});

test.each([
  ["0.333333", "1.000001", 333_333, 1_000_001],
  ["0", "0", 0, 0],
  ["0", "0.000001", 0, 1],
  ["0.25", "0.25", 250_000, 250_000],
  ["123456.654321", "999999.999999", 123_456_654_321, 999_999_999_999],
  ["1e-6", "1", 1, 1_000_000],
])("rates %s and %s are exact in millionths", (input_rate, output_rate, input_micro, output_micro) => {
  const [model] = parse(fileWith({ input_rate, output_rate, cached_input_rate: "0.1" })).models;
  expect(model).toMatchObject({
    input_rate_micro: input_micro,
    output_rate_micro: output_micro,
    cached_input_rate_micro: 100_000,
  });
});

test("a route has the model's name at the provider and its upstream prices, unless it states others", () => {
  const text = fileWith({
    provider: null,
    upstream_usd_per_million: "{ input: 1, output: 2 }",
    routes:
      "[{ provider: lab, weight: 3 }, { provider: far, provider_model: small-2, upstream_usd_per_million: { input: 3, output: 4 } }]",
  })
    .replace("kind: openai-compatible", "kind: anthropic, name: far }, { name: lab, kind: openai-compatible")
    .replace("{ name: lab, kind: anthropic", "{ kind: anthropic");
  const [model] = parse(text).models;
  expect(model).toMatchObject({ provider: "lab", provider_model: "small", upstream: { input_rate_micro: 1_000_000 } });
  expect(model?.routes).toMatchObject([
    { provider: "lab", provider_model: "small", weight: 3, upstream: { input_rate_micro: 1_000_000 } },
    { provider: "far", provider_model: "small-2", weight: 1, upstream: { input_rate_micro: 3_000_000 } },
  ]);
});

test("an empty file changes nothing", () => {
  expect(parse("")).toEqual(parse("{}"));
  expect(parse("# nothing\n").limits.requests_per_minute).toBe(600);
});

const EMBEDDING = { kind: "embedding", output_rate: null, max_output_tokens: null };

test("a model of kind embedding has neither a rate nor a cap nor features of output", () => {
  const prices = "[{ valid_from: 2026-12-01, input_rate: 0.5 }]";
  const [model] = parse(fileWith({ ...EMBEDDING, prices, upstream_usd_per_million: "{ input: 2 }" })).models;
  expect(model).toMatchObject({
    model_kind: "embedding",
    input_rate_micro: 250_000,
    output_rate_micro: 0,
    max_output_tokens: 0,
    prices: [{ input_rate_micro: 500_000, output_rate_micro: 0 }],
    upstream: { input_rate_micro: 2_000_000, output_rate_micro: 0 },
    supports: { streaming: false, tools: false },
  });
});

test("a provider without embeddings cannot have a model of that kind", () => {
  const file = fileWith(EMBEDDING).replace('openai-compatible, base_url: "http://a/v1"', "anthropic");
  expect(() => parse(file)).toThrow("models[0].kind cannot be embedding: providers of kind anthropic sell none");
});

describe("a bad model is rejected with its line and the reason", () => {
  test.each<[Record<string, string | null>, string]>([
    [{ input_rate: "-0.25" }, "purser.yaml:7: models[0].input_rate must not be negative"],
    [{ output_rate: "-1" }, "purser.yaml:8: models[0].output_rate must not be negative"],
    [{ input_rate: "0.2500001" }, "purser.yaml:7: models[0].input_rate has more than 6 decimals"],
    [{ input_rate: "1e-7" }, "models[0].input_rate has more than 6 decimals"],
    [{ input_rate: "'0.25'" }, "models[0].input_rate must be a number"],
    [{ input_rate: ".inf" }, "models[0].input_rate must be a number"],
    [{ input_rate: "1000001", output_rate: "1000002" }, "models[0].input_rate must be at most 1000000"],
    [{ output_rate: "0.249999" }, "purser.yaml:8: models[0].output_rate must not be below input_rate"],
    [{ input_rate: null }, "purser.yaml:4: models[0].input_rate is missing"],
    [{ temperature: "1" }, "purser.yaml:11: models[0].temperature is an unknown key (known: id, kind, provider,"],
    [{ supports: "{ video: true }" }, "purser.yaml:11: models[0].supports.video is an unknown key"],
    [{ part_tokens: "{ image: 0 }" }, "purser.yaml:11: models[0].part_tokens.image must be at least 1"],
    [{ forward: "[n]" }, "purser.yaml:11: models[0].forward[0] cannot be forwarded"],
    [{ forward: "[messages]" }, "purser.yaml:11: models[0].forward[0] cannot be forwarded"],
    [{ forward: "['a b']" }, "purser.yaml:11: models[0].forward[0] must be the name of a field"],
    [{ provider: null }, "purser.yaml:4: models[0].provider is missing"],
    [{ provider_model: null }, "purser.yaml:4: models[0].provider_model is missing"],
    [{ routes: "[{ provider: lab }]" }, "purser.yaml:5: models[0].provider and routes exclude each other"],
    [{ provider: null, routes: "[]" }, "purser.yaml:10: models[0].routes must have at least one route"],
    [{ provider: null, routes: "{ provider: lab }" }, "purser.yaml:10: models[0].routes must be a list"],
    [
      { provider: null, routes: "[{ provider: other }]" },
      'purser.yaml:10: models[0].routes[0].provider "other" is neither built in nor among the providers of this file',
    ],
    [
      { provider: null, routes: "[{ provider: lab }, { provider: lab, weight: 2 }]" },
      'purser.yaml:10: models[0].routes[1].provider "lab" is a duplicate: for another key, list the provider again',
    ],
    [{ provider: null, routes: "[{ provider: lab, weight: -1 }]" }, "models[0].routes[0].weight must not be negative"],
    [{ provider: null, routes: "[{ provider: lab, share: 1 }]" }, "models[0].routes[0].share is an unknown key"],
    [
      { provider: null, provider_model: null, routes: "[{ provider: lab }]" },
      "models[0].routes[0].provider_model is missing",
    ],
    [
      { provider: "other" },
      'purser.yaml:5: models[0].provider "other" is neither built in nor among the providers of this file',
    ],
    [{ id: "auto" }, "purser.yaml:4: models[0].id is reserved"],
    [{ id: "purser/rehearsal" }, "models[0].id is reserved"],
    [{ id: "'a b'" }, "models[0].id must be"],
    [{ trial_eligible: "'yes'" }, "models[0].trial_eligible must be true or false"],
    [{ context_window: "1.5" }, "models[0].context_window must be a whole number"],
    [{ kind: "embeddings" }, "purser.yaml:11: models[0].kind must be chat or embedding"],
    [{ kind: "embedding" }, "purser.yaml:8: models[0].output_rate is not for models of kind embedding"],
    [{ max_output_tokens: null }, "models[0].max_output_tokens is missing"],
    [{ max_output_tokens: "128001" }, "purser.yaml:10: models[0].max_output_tokens is above context_window"],
  ])("%j", (changes, expected) => {
    expect(() => parse(fileWith(changes))).toThrow(expected);
  });
});

describe("any other error is rejected with its line and the reason", () => {
  test.each([
    ["? [a]\n: 1", "purser.yaml:1: [ a ] is an unknown key (known: providers, models"],
    ["modles: []", "purser.yaml:1: modles is an unknown key (known: providers, models"],
    ["- a list", "purser.yaml:1: must be a map"],
    ["a: [1\n", "purser.yaml:2: "],
    ["margin: 1\nmargin: 2\n", "purser.yaml:2: Map keys must be unique"],
    ["margin: 1\nmodels: *nothing\n", "purser.yaml:2: Unresolved alias"],
    [
      `trial: &a [${"1,".repeat(20)}]\nplans: &b [${"*a,".repeat(20)}]\nmodels: [${"*b,".repeat(20)}]\n`,
      "purser.yaml:2: Excessive alias count",
    ],
    ["margin: 1\n---\nmargin: 2\n", "purser.yaml:2: "],
    ["margin: 0", "purser.yaml:1: margin must be above 0"],
    ["trial:\n  days: 0", "purser.yaml:2: trial.days must be at least 1"],
    ["limits:\n  concurrent_runs: many", "purser.yaml:2: limits.concurrent_runs must be a whole number"],
    ["models: {}", "purser.yaml:1: models must be a list"],
    ["safety:\n  judge: []", "purser.yaml:2: safety.judge is an unknown key (known: judges)"],
    ...judgeFaults(),
    ["providers:\n  - { name: a, kind: cohere }", "purser.yaml:2: providers[0].kind must be openai, anthropic"],
    ["providers:\n  - { name: a, kind: openai-compatible }", "purser.yaml:2: providers[0].base_url is missing"],
    ["providers:\n  - { name: a, kind: openai, base_url: nowhere }", "providers[0].base_url must be an http"],
    [
      "providers:\n  - { name: a, kind: openai-compatible, base_url: 'http://a' }\n  - { name: a, kind: openai-compatible, base_url: 'http://b' }",
      'purser.yaml:3: providers[1].name "a" is a duplicate',
    ],
    [
      "plans:\n - { id: a, name: A, price_cents: 1, included_tokens: 1 }\n - { id: a, name: B, price_cents: 1, included_tokens: 1 }",
      'purser.yaml:3: plans[1].id "a" is a duplicate',
    ],
    [
      `${fileWith({})}  - { id: lab/small, provider: lab, provider_model: x, input_rate: 1, output_rate: 2, context_window: 9, max_output_tokens: 1 }`,
      'purser.yaml:11: models[1].id "lab/small" is a duplicate',
    ],
    [
      "plans:\n - { id: a, name: A, price_cents: 2, currency: eur, included_tokens: 1 }\n - { id: b, name: B, price_cents: 1, included_tokens: 1 }",
      "purser.yaml:3: plans[1].currency is usd, but the first plan's is eur: all plans must have the same currency",
    ],
    [
      "plans: [{ id: a, name: A, price_cents: 1505, currency: kwd, included_tokens: 1 }]",
      "purser.yaml:1: plans[0].price_cents must be a multiple of 10 in kwd: cards cannot pay smaller amounts",
    ],
    [
      "plans: [{ id: a, name: A, price_cents: 1500, currency: isk, included_tokens: 1 }, { id: b, name: B, price_cents: 1550, currency: isk, included_tokens: 1 }]",
      "plans[1].price_cents must be a multiple of 100 in isk",
    ],
    [
      "plans: [{ id: a, name: A, price_cents: 1.5, included_tokens: 1 }]",
      "plans[0].price_cents must be a whole number",
    ],
    [
      "plans: [{ id: a, name: A, price_cents: 1, included_tokens: 1, interval: year }]",
      "plans[0].interval must be month",
    ],
  ])("%j", (text, expected) => {
    expect(() => parse(text)).toThrow(expected);
  });
});

describe("prices by class", () => {
  test("rates, tiers, dated prices and the provider's prices are read exactly", () => {
    const [model] = parse(
      fileWith({
        cached_input_rate: "0.025",
        cache_write_rate: "0.3125",
        cache_write_1h_rate: "0.5",
        tiers: "[{ above_input_tokens: 200000, input_rate: 0.5, output_rate: 2 }]",
        prices:
          "[{ valid_from: 2026-12-01, valid_until: 2027-01-01T09:00:00+09:00, input_rate: 0.1, output_rate: 0.5 }]",
        upstream_usd_per_million: "{ input: 0.4, cached_input: 0.04, cache_write: 0.5, output: 2 }",
      }),
    ).models;
    const own = {
      cached_input_rate_micro: 25_000,
      cache_write_rate_micro: 312_500,
      cache_write_1h_rate_micro: 500_000,
    };
    const none = { cached_input_rate_micro: null, cache_write_rate_micro: null, cache_write_1h_rate_micro: null };
    expect(model).toMatchObject({
      input_rate_micro: 250_000,
      output_rate_micro: 1_250_000,
      ...own,
      // A tier has the model's rates for the classes that it does not state.
      tiers: [{ above_input_tokens: 200_000, input_rate_micro: 500_000, output_rate_micro: 2_000_000, ...own }],
      prices: [
        {
          valid_from: "2026-12-01T00:00:00.000Z",
          valid_until: "2027-01-01T00:00:00.000Z",
          input_rate_micro: 100_000,
          output_rate_micro: 500_000,
          ...none,
          tiers: [],
        },
      ],
      // Micro-dollars per million tokens.
      upstream: {
        input_rate_micro: 400_000,
        cached_input_rate_micro: 40_000,
        cache_write_rate_micro: 500_000,
        cache_write_1h_rate_micro: null,
        output_rate_micro: 2_000_000,
        tiers: [],
      },
    });
  });

  test.each<[changes: Record<string, string>, reason: string]>([
    [{ cache_write_rate: "-1" }, "models[0].cache_write_rate must not be negative"],
    [
      { tiers: "[{ above_input_tokens: 9, input_rate: 2 }]" },
      "models[0].tiers[0].output_rate must not be below input_rate",
    ],
    [{ tiers: "[{ above_input_tokens: 0 }]" }, "models[0].tiers[0].above_input_tokens must be at least 1"],
    [
      { tiers: "[{ above_input_tokens: 9 }, { above_input_tokens: 9 }]" },
      "models[0].tiers[1].above_input_tokens must be above that of the tier before",
    ],
    [{ tiers: "[{ above_input_tokens: 9, rate: 2 }]" }, "models[0].tiers[0].rate is an unknown key"],
    [
      { prices: "[{ valid_from: soon, input_rate: 1, output_rate: 2 }]" },
      "models[0].prices[0].valid_from must be a day",
    ],
    [
      { prices: "[{ valid_from: 2027-01-01, valid_until: 2026-01-01, input_rate: 1, output_rate: 2 }]" },
      "models[0].prices[0].valid_until must be after valid_from",
    ],
    [{ prices: "[{ input_rate: 2, output_rate: 1 }]" }, "models[0].prices[0].output_rate must not be below input_rate"],
    [{ upstream_usd_per_million: "{ input: -1, output: 1 }" }, "models[0].upstream_usd_per_million.input must not be"],
    [{ upstream_usd_per_million: "{ input: 1 }" }, "models[0].upstream_usd_per_million.output is missing"],
  ])("%j is rejected: %s", (changes, reason) => {
    expect(() => parse(fileWith(changes))).toThrow(reason);
  });

  test("cache_pricing is flat unless the operator chooses provider", () => {
    expect(parse("").cache_pricing).toBe("flat");
    expect(parse("cache_pricing: provider").cache_pricing).toBe("provider");
    expect(() => parse("cache_pricing: cheap")).toThrow("cache_pricing must be flat or provider");
  });

  test("a catalogue is a path, or a path and a mode", () => {
    expect(parse("").catalogue).toBeNull();
    expect(parse("catalogue: a.json").catalogue).toEqual({ file: "a.json", mode: "extend" });
    expect(parse("catalogue: { file: a.json, mode: replace }").catalogue).toEqual({ file: "a.json", mode: "replace" });
    expect(() => parse("catalogue: { file: a.json, mode: merge }")).toThrow("catalogue must be the path of a file");
  });
});

test("the example of judges in the guide is valid", () => {
  const guide = readFileSync(join(import.meta.dirname, "../../../docs/guides/safety.md"), "utf8");
  const [, example = ""] = /```yaml\n(safety:[\s\S]*?)```/.exec(guide) ?? [];
  expect(parse(example).safety.judges).toMatchObject([
    { kind: "tei", url: "http://tei:8080/predict", when: "doubtful" },
    { kind: "model", model: "lab/small", when: "always", on_error: "block" },
  ]);
});

/** Judges that cannot work, and the reason. */
function judgeFaults(): [string, string][] {
  const faults: [string, string][] = [
    ["{ kind: llama }", "kind must be tei, lakera, azure_prompt_shields, bedrock, litellm or model"],
    ["{ kind: tei }", "url is missing"],
    ["{ kind: tei, url: tei }", "url must be an http or https address"],
    [
      "{ kind: tei, url: 'http://tei', secret: sk-1 }",
      "secret is an unknown key (known: kind, url, secret_env, model,",
    ],
    ["{ kind: tei, url: 'http://tei', secret_env: sk-1 }", "secret_env must be the name of an environment variable"],
    ["{ kind: tei, url: 'http://tei', model: lab/a }", "model is for judges of kind model only"],
    ["{ kind: tei, url: 'http://tei', threshold: 0 }", "threshold must be above 0"],
    ["{ kind: tei, url: 'http://tei', threshold: 2 }", "threshold must be at most 1"],
    ["{ kind: tei, url: 'http://tei', timeout_ms: 90000 }", "timeout_ms must be at most 60000"],
    ["{ kind: tei, url: 'http://tei', when: never }", "when must be doubtful or always"],
    ["{ kind: tei, url: 'http://tei', on_error: fail }", "on_error must be keep_local or block"],
    ["{ kind: tei, url: 'http://tei', project_id: p }", "project_id is for judges of kind lakera only"],
    ["{ kind: lakera, url: 'http://lakera' }", "secret_env is missing"],
    ["{ kind: model }", "model is missing"],
    ["{ kind: model, model: lab/a, url: 'http://a' }", "url is not for judges of kind model"],
    ["{ kind: bedrock, url: 'https://bedrock-runtime.us-east-1.amazonaws.com' }", "url must end with /guardrail/{id}/"],
    [
      "{ kind: bedrock, url: 'https://gateway/guardrail/a/version/1/apply' }",
      "url must be at bedrock-runtime.{region}",
    ],
  ];
  return faults.map(([judge, reason]) => [
    `safety:\n  judges:\n    - ${judge}`,
    `purser.yaml:3: safety.judges[0].${reason}`,
  ]);
}
