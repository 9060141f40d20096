import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { newApiKey } from "../../../src/account/users/tokens.ts";
import { createLog, describeUnexpected } from "../../../src/platform/telemetry/log.ts";

const ROOT = join(import.meta.dirname, "../../..");

test("no log line contains an API key, in any part of its fields", () => {
  const key = newApiKey("00");
  const script = `
    const { createLog } = await import("./src/platform/telemetry/log.ts");
    const log = createLog("debug");
    log.info("told " + process.argv[1]);
    log.debug({ error: "401 for Bearer " + process.argv[1], deep: { er: [process.argv[1]] } }, "failed");
    log.error({ error: new Error(process.argv[1]) }, "failed");
  `;
  const { stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", script, key], {
    cwd: ROOT,
    encoding: "utf8",
  });
  expect(status).toBe(0);
  expect(stderr.trim().split("\n")).toHaveLength(3);
  for (const line of stderr.trim().split("\n")) expect(JSON.parse(line).level).toBeGreaterThan(10);
  expect(stderr).not.toContain(key.slice("purser_live_".length, -6));
  expect(stderr).toContain("purser_live_[redacted]");
});

test("the fields of an unexpected error have its kind and its location, and no line of its message", () => {
  const error = new TypeError("a prompt\n    at marzipan (of the caller)");
  const { cause, stack } = describeUnexpected(error);
  expect(cause).toBe("TypeError");
  expect(stack).toContain("log.test.ts");
  expect(stack).not.toContain("marzipan");
});

/** The line with these fields, without its level and time. */
function lineOf(fields: object): Record<string, unknown> {
  const lines: string[] = [];
  createLog("info", null, { write: (line) => void lines.push(line) }).info(fields, "told");
  const { level: _level, time: _time, ...told } = JSON.parse(lines.join(""));
  return told;
}

test.each<[string, object, object]>([
  ["an error is its message", { error: new Error("refused") }, { error: "refused" }],
  [
    "a database's error is its code",
    { error: Object.assign(new Error("a row"), { code: "23505" }) },
    { error: "database error 23505" },
  ],
  [
    "secrets of objects are hidden",
    { headers: { cookie: "c", host: "h" } },
    { headers: { cookie: "[redacted]", host: "h" } },
  ],
  ["absent fields are omitted", { none: undefined }, {}],
])("in a line of the log, %s", (_name, fields, told) => {
  expect(lineOf(fields)).toEqual({ ...told, msg: "told" });
});

test("a process that ends has written all its lines", () => {
  const script = `
    const { createLog } = await import("./src/platform/telemetry/log.ts");
    const log = createLog("info");
    for (let line = 0; line < 1_000; line += 1) log.info({ line }, "many");
    process.exit(3);
  `;
  const { stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    cwd: ROOT,
    encoding: "utf8",
  });
  expect(status).toBe(3);
  expect(
    stderr
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).line),
  ).toEqual(Array.from({ length: 1_000 }, (_, line) => line));
});
