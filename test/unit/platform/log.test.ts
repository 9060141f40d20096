import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { newApiKey } from "../../../src/accounts/tokens.ts";
import { describeUnexpected } from "../../../src/platform/log.ts";

const ROOT = join(import.meta.dirname, "../../..");

test("an API key stands in no log line, whatever part of it somebody put it into", () => {
  const key = newApiKey("00");
  const script = `
    const { createLog } = await import("./src/platform/log.ts");
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

test("the fields of an unexpected error have its kind and its place, and no line of its message", () => {
  const error = new TypeError("a prompt\n    at marzipan (of the caller)");
  const { cause, stack } = describeUnexpected(error);
  expect(cause).toBe("TypeError");
  expect(stack).toContain("log.test.ts");
  expect(stack).not.toContain("marzipan");
});
