import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseConfigFile } from "../../../src/config/file.ts";
import { parseCatalogue } from "../../../src/gateway/models/catalogue.ts";

// The service reads the examples of docs/guides/models.md.

const guide = readFileSync("docs/guides/models.md", "utf8");
const blockWith = (language: string, text: string) =>
  [...guide.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gms"))]
    .map(([, block]) => block ?? "")
    .find((block) => block.includes(text)) ?? "";

test("the guide's model is read with every field that it shows", () => {
  const example = blockWith("yaml", "cache_pricing");
  const provider = 'providers: [{ name: lab, kind: openai-compatible, base_url: "http://a/v1" }]\n';
  const { cache_pricing, models } = parseConfigFile(provider + example, "purser.yaml");
  expect(cache_pricing).toBe("provider");
  expect(models).toMatchObject([
    {
      cached_input_rate_micro: 125_000,
      cache_write_1h_rate_micro: 2_500_000,
      tiers: [{ above_input_tokens: 200_000, output_rate_micro: 9_375_000 }],
      prices: [{ valid_from: "2026-12-01T00:00:00.000Z", input_rate_micro: 625_000 }],
      upstream: { cache_write_1h_rate_micro: 4_000_000 },
    },
  ]);
});

test("the guide's routes of a model are read", () => {
  const { models } = parseConfigFile(blockWith("yaml", "routes:"), "purser.yaml");
  expect(models[0]?.routes.map(({ provider, weight }) => [provider, weight])).toEqual([
    ["openai-eu", 3],
    ["openai-us", 1],
    ["relay", 0],
  ]);
});

test("the guide's embedding model is read", () => {
  const provider = '"providers": [{"name": "lab", "kind": "openai-compatible", "base_url": "http://a/v1"}]';
  const model = blockWith("json", '"kind": "embedding"');
  expect(parseConfigFile(`{${provider}, "models": [${model}]}`, "purser.json").models).toMatchObject([
    { id: "lab/vectors", model_kind: "embedding", output_rate_micro: 0 },
  ]);
});

test("each line of the guide's catalogue settings is read", () => {
  const lines = blockWith("yaml", "catalogue").trim().split("\n");
  expect(lines.map((line) => parseConfigFile(line, "purser.yaml").catalogue)).toEqual([
    { file: "my-models.json", mode: "extend" },
    { file: "my-models.json", mode: "replace" },
  ]);
});

test("the guide's entry of a catalogue is read", () => {
  const example = blockWith("json", '"models"');
  expect(parseCatalogue(example)).toMatchObject([
    {
      id: "example-1",
      part_tokens: { image: 1_445, file: null },
      deprecation: { retires_on: "2027-06-30", replacement: "example-2" },
    },
  ]);
});
