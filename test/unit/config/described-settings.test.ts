import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { readConfig } from "../../../src/config/config.ts";
import { listDefaults } from "../../../src/config/file.ts";
import { listPricedModels } from "../../../src/config/model-entry.ts";
import { createModels } from "../../../src/gateway/models/models.service.ts";
import { PROVIDER_KEYS } from "../../../src/gateway/models/providers.ts";

// What an operator sees of the settings: contract 8.13.

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "settings-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const write = (name: string, text: string) => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};

test("of variables that may hold a secret only whether they are set is shown; the others have their value and its origin", () => {
  const secrets = {
    PURSER_ADMIN_KEY: "admin-key-of-the-operator",
    DATABASE_URL: "postgres://purser:hunter2@db/purser",
    PURSER_KEK: `k1:${Buffer.alloc(32, 7).toString("base64")}`,
    SMTP_URL: "smtp://purser:hunter2@mail:587",
    OPENAI_API_KEY: "sk-of-openai",
    STRIPE_SECRET_KEY: "sk_test_1",
    STRIPE_WEBHOOK_SECRET: "whsec_1",
    OTEL_EXPORTER_OTLP_HEADERS: "authorization=hunter2",
  };
  const { variables } = readConfig({
    ...secrets,
    OTEL_EXPORTER_OTLP_ENDPOINT: "https://me:hunter2@collector:4318",
    PURSER_SIGNUP_FILE: write("signup", "closed\n"),
    LOG_LEVEL: "warn",
  });
  const byName = (name: string) => variables.find((variable) => variable.name === name);
  for (const name of Object.keys(secrets)) {
    expect(byName(name)).toEqual({ name, is_secret: true, is_set: true, from: "environment", value: null });
  }
  expect(byName("XAI_API_KEY")).toMatchObject({ is_secret: true, is_set: false, value: null });
  expect(byName("PURSER_SIGNUP")).toMatchObject({ is_set: true, from: "file", value: "closed" });
  expect(byName("LOG_LEVEL")).toMatchObject({ is_set: true, from: "environment", value: "warn" });
  expect(byName("PORT")).toMatchObject({ is_set: false, from: "default", value: "3000" });
  expect(byName("PURSER_PUBLIC_URL")).toMatchObject({ is_set: false, from: "default", value: null });
  expect(byName("OTEL_EXPORTER_OTLP_ENDPOINT")?.value).toBe("https://collector:4318");
  const shown = JSON.stringify(variables);
  for (const secret of [...Object.values(secrets), "hunter2"]) expect(shown).not.toContain(secret);
});

const FILE = `# the models of the lab
providers:
  - { name: lab, kind: openai-compatible, base_url: "http://me:hunter2@127.0.0.1:9999/v1", api_key_env: LAB_KEY }
models:
  - id: lab/small
    provider: lab
    provider_model: small
    input_rate: 0.25
    output_rate: 1.25
    context_window: 128000
    max_output_tokens: 4096
limits: { requests_per_minute: 777 }
`;

test("the file's values have their lines, and what it leaves out has its default", () => {
  const { file } = readConfig({ PURSER_CONFIG: write("purser.yaml", FILE), LAB_KEY: "lab-1" });
  const written = Object.fromEntries(file?.settings.map(({ path, value, line }) => [path, [value, line]]) ?? []);
  expect(written).toMatchObject({
    "providers.lab.base_url": ["http://127.0.0.1:9999/v1", 3],
    "models.lab/small.id": ["lab/small", 5],
    "models.lab/small.input_rate": [0.25, 8],
    "limits.requests_per_minute": [777, 12],
  });
  const defaults = Object.fromEntries(listDefaults(file?.settings ?? []).map(({ path, value }) => [path, value]));
  expect(defaults).toMatchObject({ margin: 1, "trial.days": 14, "limits.concurrent_runs": 50 });
  expect(defaults).toHaveProperty(["plans.starter.price_cents"], 2_900);
  for (const path of ["limits.requests_per_minute", "providers", "models"]) expect(defaults).not.toHaveProperty([path]);
});

const RATES = ["input_rate_micro", "cached_input_rate_micro", "cache_write_rate_micro", "output_rate_micro"] as const;

test.each(["flat", "provider"])(
  "each model's lines, pasted into the file, leave its price, its limits and its cost as they are (cache_pricing: %s)",
  (cache_pricing) => {
    const keys = Object.fromEntries(PROVIDER_KEYS.map((name) => [name, "key-of-a-test"]));
    const offeredWith = (text: string) => {
      const config = readConfig({ ...keys, PURSER_CONFIG: write("prices.yaml", text) });
      const models = createModels({ config });
      return { config, offered: [...models.list(), ...models.embeddings()] };
    };
    const before = offeredWith(`margin: 1.37\ncache_pricing: ${cache_pricing}\n`);
    const priced = listPricedModels(before.offered, before.config);
    const entries = priced.flatMap(({ lines }) => (lines === null ? [] : parse(lines).models));
    expect(entries.length).toBeGreaterThan(10);
    const pasted = offeredWith(JSON.stringify({ cache_pricing, models: entries }));
    for (const model of before.offered) {
      const same = pasted.offered.find(({ id }) => id === model.id);
      for (const rate of RATES) expect([model.id, rate, same?.[rate]]).toEqual([model.id, rate, model[rate]]);
      const { tiers, context_window, max_output_tokens, supports, part_tokens, trial_eligible, name } = model;
      expect(same).toMatchObject({ context_window, max_output_tokens, supports, part_tokens, trial_eligible, name });
      expect(same?.tiers).toEqual(tiers);
      expect(same?.upstream?.input_rate_micro).toBe(model.upstream?.input_rate_micro);
    }
    const sources = listPricedModels(pasted.offered, pasted.config).map(({ source }) => source);
    expect(new Set(sources)).toEqual(new Set(["file", "built_in"]));
  },
);

test("a model's price is in dollars per million tokens, and the file's entry is as it is written", () => {
  const path = write("purser.yaml", FILE);
  const config = readConfig({ PURSER_CONFIG: path, LAB_KEY: "lab-1" });
  const models = createModels({ config });
  const [, small] = listPricedModels(models.list(), config);
  expect(small).toMatchObject({
    model_id: "lab/small",
    source: "file",
    line: 5,
    input_usd_per_million: 0.4,
    output_usd_per_million: 2,
    upstream_input_usd_per_million: null,
  });
  expect(parse(small?.lines ?? "")).toEqual({ models: [parse(FILE).models[0]] });
});
