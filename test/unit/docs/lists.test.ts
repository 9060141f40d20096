import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { EVENT_TYPES } from "../../../src/account/billing/stripe-events.ts";
import { toolsConfigSchema } from "../../../src/api/contract/tools.ts";
import { readConfig } from "../../../src/config/config.ts";
import { FILE_KEYS } from "../../../src/config/file.schema.ts";
import { LIMITS } from "../../../src/kernel/constants.ts";

const text = (file: string) => readFileSync(file, "utf8");

/** The documented names of settings agree with the names that the code reads. */
function settings(): string[] {
  const names = new Set<string>();
  readConfig(new Proxy({}, { get: (_, name) => void names.add(String(name)) }));
  return [...names].filter((name) => !/^OTEL_|_API_KEY$|_FILE$/.test(name));
}

it("the operator's guide has each setting", () => {
  const guide = text("docs/operating/README.md");
  expect(settings().filter((name) => !guide.includes(name))).toEqual([]);
});

it("the operator's guide has each key of PURSER_CONFIG and each of its limits", () => {
  const guide = text("docs/operating/README.md");
  const keys = [...FILE_KEYS, ...Object.keys(LIMITS)];
  expect(keys.filter((key) => !new RegExp(`\\b${key}: `).test(guide.replaceAll("\n", " ")))).toEqual([]);
});

it.each(Object.keys(toolsConfigSchema.shape))("the tool %s is in the guide and in the console's form", (name) => {
  expect(text("docs/guides/tools.md")).toContain(`\n## ${name}\n`);
  expect(text("console/src/parts/tool-fields.tsx")).toContain(`"tools_config.${name}.max_calls"`);
});

it("the addresses that messages of src name are in the reference", () => {
  const address = /\b(?:GET|POST|PUT|PATCH|DELETE) \/api\/v1\/[\w/{}.-]+/g;
  const shape = (named: string) => named.replace(/\.$/, "").replaceAll(/\{\w+\}/g, "{}");
  const known = new Set((text("docs/reference/api.md").match(address) ?? []).map(shape));
  const files = execFileSync("git", ["ls-files", "src/*.ts"], { encoding: "utf8" })
    .trim()
    .split("\n")
    .filter(existsSync);
  const code = files.map((file) => text(file).replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, "")).join("\n");
  const named = (code.match(address) ?? []).map(shape);
  expect(named.length).toBeGreaterThan(30);
  expect(named.filter((each) => !known.has(each))).toEqual([]);
});

it("the operator's guide names each of Stripe's events that Purser handles, and Stripe can filter its list by them", () => {
  const listed =
    /send these events to [^:]+: ([^.]+(?:\.[^.]+)*?)\. Stripe needs/.exec(text("docs/operating/README.md"))?.[1] ?? "";
  expect([...listed.matchAll(/`([^`]+)`/g)].map(([, name]) => name).sort()).toEqual([...EVENT_TYPES].sort());
  expect(EVENT_TYPES.length).toBeLessThanOrEqual(20);
});

it("the operator's guide to causes quotes lines that the code logs", () => {
  const section = text("docs/operating/README.md").split("### Find the cause")[1]?.split("\n### ")[0] ?? "";
  const quoted = [...section.matchAll(/`((?:a|the) [^`]+?)(?: …)?`/g)].map((match) => match[1] ?? "");
  const files = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  const source = files.map((file) => text(`src/${file}`)).join("\n");
  expect(quoted.length).toBeGreaterThan(3);
  expect(quoted.filter((line) => !source.includes(line))).toEqual([]);
});

it("each journey that the guide to tasks in the console names is a test", () => {
  const rows = text("docs/guides/console-tasks.md").match(/^\| \d.*$/gm) ?? [];
  const named = rows.map((row) => row.split("|")[5]?.trim() ?? "").filter((title) => title !== "");
  const journeys = readdirSync("test/journeys").map((file) => text(`test/journeys/${file}`));
  expect(rows).toHaveLength(30);
  expect(named.filter((title) => !journeys.some((journey) => journey.includes(`it("${title}`)))).toEqual([]);
});
