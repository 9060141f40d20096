import { existsSync, globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { RELEASE } from "../../../src/platform/lib/release.ts";

// What a public host reads of this repository.

const read = (file: string) => parse(readFileSync(file, "utf8"));

it.each(globSync(".github/ISSUE_TEMPLATE/{bug,idea}.yml"))("the form %s asks under names of its own", (file) => {
  const { name, description, body } = read(file);
  expect([name, description]).toEqual([expect.any(String), expect.any(String)]);
  const asked = body.filter(({ type }: { type: string }) => type !== "markdown");
  const ids = asked.map(({ id }: { id: string }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { attributes } of asked) expect(attributes.label).toEqual(expect.any(String));
});

it.each(globSync(".github/workflows/*.yml"))("each script that %s runs is there", (file) => {
  const { jobs } = read(file);
  const steps = Object.values<{ steps: { run?: string }[] }>(jobs).flatMap((job) => job.steps);
  const commands = steps.flatMap(({ run = "" }) => run.split("\n"));
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8"));
  for (const command of commands) {
    const [, script] = /^npm run ([\w:-]+)/.exec(command) ?? [];
    if (script !== undefined) expect(scripts).toHaveProperty(script);
    if (command.startsWith(".ci/")) expect(existsSync(command)).toBe(true);
  }
  expect(commands.length).toBeGreaterThan(0);
});

it("the client, the notes, the changelog and the example of an image have the version of package.json", () => {
  const client = JSON.parse(readFileSync("clients/typescript/package.json", "utf8"));
  expect(client.version).toBe(RELEASE);
  expect(readFileSync(`docs/release-notes-${RELEASE}.md`, "utf8")).toMatch(`# Purser ${RELEASE}\n`);
  expect(readFileSync("CHANGELOG.md", "utf8")).toMatch(new RegExp(`^## ${RELEASE} \\(\\d{4}-\\d\\d-\\d\\d\\)$`, "m"));
  expect(readFileSync("deploy/compose.yaml", "utf8")).toContain(`/purser:${RELEASE}}`);
});

it("Renovate's rules name files that are there", () => {
  const { packageRules } = read("renovate.json");
  const files = packageRules.flatMap(({ matchFileNames = [] }: { matchFileNames?: string[] }) => matchFileNames);
  expect(files.filter((file: string) => !existsSync(file))).toEqual([]);
});
