import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { newApiKey } from "../../../src/account/users/tokens.ts";
import { createLineWriter, createLog, describeUnexpected } from "../../../src/platform/telemetry/log.ts";

afterEach(() => void vi.useRealTimers());

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
function lineOf(fields: unknown): Record<string, unknown> {
  const lines: string[] = [];
  createLog("info", null, (line) => void lines.push(line)).info(fields as object, "told");
  const { level: _level, time: _time, ...told } = JSON.parse(lines.join(""));
  return told;
}

const CYCLE: Record<string, unknown> = {};
CYCLE.own = CYCLE;

test.each([
  ["a BigInt", { amount: 1n }, { amount: "[not JSON]" }],
  ["a cycle", { CYCLE }, { CYCLE: "[not JSON]" }],
  [
    "a getter that throws",
    Object.defineProperty({}, "error", { enumerable: true, get: fail }),
    { error: "[not JSON]" },
  ],
])("%s does not affect other fields, and secrets stay hidden", (_name, bad, told) => {
  const fields = Object.defineProperties(
    { request_id: "r1", none: undefined, headers: { cookie: "c" } },
    Object.getOwnPropertyDescriptors(bad),
  );
  expect(lineOf(fields)).toEqual({ request_id: "r1", headers: { cookie: "[redacted]" }, ...told, msg: "told" });
});

test.each([[["a"]], [new Date(0)], [new Error("x")], [{ toJSON: () => "x" }], ["text"], [1]])(
  "fields can be other values than plain objects: %s",
  (fields) => {
    expect(lineOf(fields)).toEqual({ fields: "[not a plain object]", msg: "told" });
  },
);

test("absent fields are omitted, and the log never throws", () => {
  expect(lineOf(undefined)).toEqual({ msg: "told" });
  expect(lineOf(Object.create(null))).toEqual({ msg: "told" });
  const unreadable = new Proxy({}, { getPrototypeOf: fail });
  expect(() => createLog("info", null, () => {}).warn(unreadable, "told")).not.toThrow();
  expect(() => createLog("info", null, fail).warn("told")).not.toThrow();
});

test("a line that a full pipe cuts does not damage later lines, and a stalled pipe blocks the process once in five seconds", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "performance"] });
  /** A pipe with room for `free` bytes. */
  const pipe = { free: 20, tries: 0, text: "" };
  const { write } = createLineWriter((bytes, from) => {
    pipe.tries += 1;
    const taken = bytes.subarray(from, from + pipe.free);
    if (taken.length === 0) throw Object.assign(new Error("full"), { code: "EAGAIN" });
    pipe.free -= taken.length;
    pipe.text += taken;
    return taken.length;
  });
  const log = createLog("info", null, write);
  log.warn("cut");
  expect(pipe.tries).toBe(101);
  log.warn("dropped");
  log.info("dropped");
  vi.advanceTimersByTime(100);
  expect(pipe.tries).toBe(103);
  pipe.free = 10_000;
  log.warn("whole");
  log.info("held back");
  vi.advanceTimersByTime(100);
  const [cut = "", ...lines] = pipe.text.trimEnd().split("\n");
  expect(cut).toHaveLength(20);
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual(["whole", "held back"]);
  Object.assign(pipe, { free: 0, tries: 0 });
  vi.advanceTimersByTime(5_000);
  log.warn("waited for");
  expect(pipe.tries).toBe(100);
});

function fail(): never {
  throw new Error("unreadable");
}
