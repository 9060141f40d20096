import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseCatalogue } from "../../../src/gateway/models/catalogue.ts";
import { catalogueOfModelsDev } from "../../../src/gateway/models/models-dev.ts";

// The published format of models.dev: https://models.dev/api.json, providers with their models by id.

const TEXT = { input: ["text"], output: ["text"] };
const listing = (id: string, fields: object = {}) => ({
  id,
  name: id.toUpperCase(),
  attachment: false,
  reasoning: false,
  tool_call: true,
  release_date: "2026-01-01",
  cost: { input: 2, output: 10 },
  limit: { context: 200_000, output: 8_000 },
  modalities: TEXT,
  ...fields,
});
const providerOf = (id: string, ...models: { id: string }[]) => ({
  id,
  name: id,
  env: [],
  npm: "@ai-sdk/x",
  doc: "https://a.test",
  models: Object.fromEntries(models.map((model) => [model.id, model])),
});
const API = {
  openai: providerOf(
    "openai",
    listing("big", {
      cost: {
        input: 5,
        output: 30,
        cache_read: 0.5,
        cache_write: 6.25,
        tiers: [{ input: 10, output: 45, cache_read: 1, tier: { type: "context", size: 272_000 } }],
        context_over_200k: { input: 10, output: 45, cache_read: 1 },
      },
      limit: { context: 1_050_000, input: 922_000, output: 128_000 },
      modalities: { input: ["text", "image", "pdf"], output: ["text"] },
      structured_output: true,
    }),
    listing("old", {
      status: "deprecated",
      cost: { input: 1.25, output: 10, context_over_200k: { input: 2.5, output: 15 } },
    }),
    listing("tiny", { cost: { input: 1e-7, output: 3e-7 } }),
    listing("gpt-4.1-mini"),
  ),
  anthropic: providerOf(
    "anthropic",
    listing("claude", { cost: { input: 4, output: 20, cache_read: 0.2, cache_write: 5 } }),
  ),
  elsewhere: providerOf("elsewhere", listing("other")),
};
const known = [
  {
    id: "gpt-4.1-mini",
    trial_eligible: true,
    part_tokens: { image: 9, file: null, audio: null },
    supports: { tools: false, streaming: true, json_schema: true, vision: true, files: false, audio: false },
  },
];
const imported = (api: object, providers = ["openai", "anthropic"]) => {
  const { models, skipped } = catalogueOfModelsDev(JSON.stringify(api), { providers, as_of: "2026-11-22", known });
  return { models: parseCatalogue(JSON.stringify({ models })), skipped };
};

describe("the import of models.dev", () => {
  const { models } = imported(API);
  const model = (id: string) => models.find((each) => each.id === id);

  it("imports prices by class, tiers, limits and part types of the named providers", () => {
    expect(models.map(({ id }) => id)).toEqual(["big", "old", "tiny", "gpt-4.1-mini", "claude"]);
    expect(model("big")).toMatchObject({
      provider: "openai",
      name: "BIG",
      context_window: 1_050_000,
      max_output_tokens: 128_000,
      supports: { tools: true, json_schema: true, vision: true, files: true, audio: false },
      prices: [
        {
          usd_per_million: { input: "5", cached_input: "0.5", cache_write: "6.25", output: "30" },
          tiers: [{ above_input_tokens: 272_000, input: "10", cached_input: "1", cache_write: "10", output: "45" }],
          source: "https://models.dev/api.json",
          as_of: "2026-11-22",
        },
      ],
    });
  });

  it("reads the older form of a tier, writes small prices without an exponent, and notes deprecations", () => {
    expect(model("old")?.prices[0]?.tiers).toEqual([{ above_input_tokens: 200_000, input: "2.5", output: "15" }]);
    expect(model("old")?.deprecation).toEqual({ retires_on: null, replacement: null });
    expect(model("tiny")?.prices[0]?.usd_per_million).toEqual({ input: "0.0000001", output: "0.0000003" });
  });

  it("adds Anthropic's price of writes for an hour, which models.dev omits", () => {
    expect(model("claude")?.prices[0]?.usd_per_million).toMatchObject({ cache_write: "5", cache_write_1h: "8" });
  });

  it("keeps the built-in catalogue's own fields: trial, features and bounds of parts", () => {
    expect(model("gpt-4.1-mini")).toMatchObject({
      trial_eligible: true,
      part_tokens: { image: 9 },
      supports: { tools: false, vision: true },
    });
  });

  it("also reads the form with `providers` around", () => {
    expect(imported({ providers: API }).models).toEqual(models);
  });

  it.each<[reason: string, fields: object]>([
    ["it has no price", { cost: undefined }],
    ["it does not answer text with text", { modalities: { input: ["text"], output: ["image"] } }],
    ["its output costs no more than its input", { cost: { input: 1, output: 0 } }],
    ["its reasoning has a price of its own", { cost: { input: 1, output: 2, reasoning: 3 } }],
    ["its limits are unknown", { limit: { context: 0, output: 0 } }],
    [
      "it has a tier that is not by context",
      { cost: { input: 1, output: 2, tiers: [{ tier: { type: "hour", size: 1 } }] } },
    ],
    ["its format is unknown", { limit: "long" }],
  ])("skips a model and gives the reason: %s", (reason, fields) => {
    const { models, skipped } = imported({ openai: providerOf("openai", listing("a", fields), listing("b")) });
    expect(models.map(({ id }) => id)).toEqual(["b"]);
    expect(skipped).toEqual([{ id: "a", reason }]);
  });

  it.each(["[]", "no JSON", '{"openai": {"models": 1}}'])("rejects %j", (text) => {
    expect(() => catalogueOfModelsDev(text, { providers: ["openai"], as_of: "2026-11-22", known })).toThrow(RangeError);
  });
});

describe("npm run catalogue", () => {
  const run = (...given: string[]) => {
    const { status, stdout, stderr } = spawnSync("node_modules/.bin/node", ["src/cli/catalogue.ts", ...given], {
      encoding: "utf8",
    });
    return { status, stdout, stderr };
  };

  it("writes a catalogue file with the date of the imported one, and lists the skipped models", () => {
    const folder = mkdtempSync(join(tmpdir(), "purser-catalogue-"));
    const [from, to] = [join(folder, "api.json"), join(folder, "mine.json")];
    writeFileSync(from, JSON.stringify({ ...API, xai: providerOf("xai", listing("dear", { cost: {} })) }));
    utimesSync(from, new Date("2026-05-06"), new Date("2026-05-06"));
    const { status, stderr } = run("--from", from, "--to", to);
    expect([status, stderr]).toEqual([
      0,
      "skipped dear: it has no price\n5 models of openai, anthropic, google, mistral, xai, groq; 1 skipped\n",
    ]);
    const [first] = parseCatalogue(readFileSync(to, "utf8"));
    expect(first?.prices[0]?.as_of).toBe("2026-05-06");
    const { stdout } = run("--from", from, "--provider", "anthropic");
    expect(parseCatalogue(stdout).map(({ id }) => id)).toEqual(["claude"]);
    rmSync(folder, { recursive: true });
  });

  it("exits with 2 without a file and with 1 for an unusable one, and writes nothing", () => {
    expect(run()).toMatchObject({ status: 2, stdout: "", stderr: expect.stringContaining("--from is missing") });
    expect(run("--from", "package.json")).toMatchObject({ status: 1, stdout: "" });
    expect(run("--from", "nowhere.json")).toMatchObject({ status: 1, stdout: "" });
  });
});
