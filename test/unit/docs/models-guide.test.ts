import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseConfigFile } from "../../../src/config-file.ts";
import { parseCatalogue } from "../../../src/models/catalogue.ts";

// The examples of docs/guides/models.md are what the service reads.

const guide = readFileSync("docs/guides/models.md", "utf8");
const blocks = (language: string) =>
  [...guide.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gms"))].map(([, text]) => text ?? "");

test("the guide's model is read with every field that it shows", () => {
  const example = blocks("yaml").find((block) => block.startsWith("cache_pricing")) ?? "";
  const provider = 'providers: [{ name: lab, kind: openai-compatible, base_url: "http://a/v1" }]\n';
  const { cache_pricing, models } = parseConfigFile(provider + example, "purser.yaml");
  expect(cache_pricing).toBe("provider");
  expect(models).toMatchObject([
    {
      ...{ cached_input_rate_micro: 125_000, cache_write_1h_rate_micro: 2_500_000 },
      tiers: [{ above_input_tokens: 200_000, output_rate_micro: 9_375_000 }],
      prices: [{ valid_from: "2026-12-01T00:00:00.000Z", input_rate_micro: 625_000 }],
      upstream: { cache_write_1h_rate_micro: 4_000_000 },
    },
  ]);
});

test("the guide's model with routes is read", () => {
  const example = blocks("yaml").find((block) => block.includes("routes:")) ?? "";
  const [model] = parseConfigFile(example, "purser.yaml").models;
  expect(model?.routes).toMatchObject([
    { provider: "openai-eu", provider_model: "gpt-6.1-terra", weight: 3, upstream: null },
    { provider: "openai-us", weight: 1 },
    {
      provider: "relay",
      provider_model: "openai/gpt-6.1-terra",
      weight: 0,
      upstream: { output_rate_micro: 11_000_000 },
    },
  ]);
});

test("the guide's settings of a catalogue are read, each of its lines", () => {
  const lines = (blocks("yaml").find((block) => block.startsWith("catalogue")) ?? "").trim().split("\n");
  expect(lines.map((line) => parseConfigFile(line, "purser.yaml").catalogue)).toEqual([
    { file: "my-models.json", mode: "extend" },
    { file: "my-models.json", mode: "replace" },
  ]);
});

test("the guide's entry of a catalogue is read", () => {
  const example = blocks("json").find((block) => block.includes('"models"')) ?? "";
  expect(parseCatalogue(example)).toMatchObject([
    {
      ...{ id: "example-1", part_tokens: { image: 1_445, file: null } },
      deprecation: { retires_on: "2027-06-30", replacement: "example-2" },
    },
  ]);
});
