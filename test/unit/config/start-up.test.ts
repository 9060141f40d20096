import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { type RunningProcess, startProcess } from "../../support/process.ts";

// What does not depend on the suite's storage: settings are refused before any is reached, and a folder is embedded's.

const KEK = `test:${Buffer.alloc(32, 7).toString("base64")}`;
const folder = mkdtempSync(join(tmpdir(), "purser-start-"));
afterAll(() => rmSync(folder, { recursive: true }));

const running: RunningProcess[] = [];
const start = (env: Record<string, string>) => {
  const child = startProcess(env);
  running.push(child);
  return child;
};
afterEach(async () => {
  for (const child of running.splice(0)) {
    child.signal("SIGKILL");
    await child.ended;
  }
});

describe("DATA_DIR (contract 1)", () => {
  const place = { PORT: "0", DATA_DIR: join(folder, "data") };

  it("keeps a keyring of its own, for its owner's eyes, says so once, and keeps it", async () => {
    const first = start(place);
    await first.listening;
    const { mode, mtimeMs } = statSync(join(place.DATA_DIR, "keyring"));
    expect(mode & 0o777).toBe(0o600);
    first.signal("SIGTERM");
    const ended = await first.ended;
    expect(ended.stdout + ended.stderr).toContain("keyring");
    const second = start(place);
    await second.listening;
    expect(statSync(join(place.DATA_DIR, "keyring")).mtimeMs).toBe(mtimeMs);
    second.signal("SIGTERM");
    const again = await second.ended;
    expect(again.stdout + again.stderr).not.toContain("keyring");
  });

  it("refuses a folder that another process serves from, in a sentence, and harms neither", async () => {
    const first = start(place);
    const url = await first.listening;
    const { code, stderr } = await start(place).ended;
    expect(code).not.toBe(0);
    expect(stderr.trim().split("\n")).toHaveLength(1);
    expect(stderr).toContain(place.DATA_DIR);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    first.signal("SIGKILL"); // the lock does not outlive the process
    await first.ended;
    await start(place).listening;
  });
});

describe("a bad setting: one line that names it, exit 2, nothing started (contract 1)", () => {
  const stripe = { STRIPE_SECRET_KEY: "sk_test_x", STRIPE_WEBHOOK_SECRET: "whsec_x" };
  it.concurrent.each<[string, Record<string, string>]>([
    ["PORT", { PORT: "70000" }],
    ["HOST", { HOST: "not a host" }],
    ["DATABASE_URL", { DATABASE_URL: "mysql://root:hunter2@localhost/x", PURSER_KEK: KEK }],
    ["PURSER_KEK", { DATABASE_URL: "postgres://localhost/x" }],
    ["PURSER_KEK", { PURSER_KEK: "hunter2:c2hvcnQ=" }],
    ["PURSER_TEST_CLOCK", { PURSER_TEST_CLOCK: "yesterday" }],
    ["PURSER_TEST_CLOCK", { PURSER_TEST_CLOCK: "2026-01-01T00:00:00Z", PURSER_PAYMENTS: "stripe", ...stripe }],
    ["PURSER_PAYMENTS", { PURSER_PAYMENTS: "cash" }],
    ["STRIPE_SECRET_KEY", { PURSER_PAYMENTS: "stripe" }],
    ["PURSER_PUBLIC_URL", { PURSER_PUBLIC_URL: "ftp://example.com" }],
    ["PURSER_TRUSTED_PROXIES", { PURSER_TRUSTED_PROXIES: "10.0.0.0/33" }],
    ["PURSER_EGRESS_ALLOW", { PURSER_EGRESS_ALLOW: "localhost" }],
    ["PURSER_SAFETY_OFF", { PURSER_SAFETY_OFF: "yes" }],
    ["PURSER_SIGNUP", { PURSER_SIGNUP: "maybe" }],
    ["SMTP_URL", { SMTP_URL: "http://mail" }],
    ["OPENAI_API_KEY", { OPENAI_API_KEY: "two words" }],
    ["PURSER_CONFIG", { PURSER_CONFIG: "/nowhere/purser.yaml" }],
  ])("%s: %o", async (variable, env) => {
    const DATA_DIR = join(mkdtempSync(join(folder, "bad-")), "data");
    const { code, stdout, stderr } = await startProcess({ PORT: "0", DATA_DIR, ...env }).ended;
    expect(code).toBe(2);
    expect(stdout).toBe("");
    expect(stderr).toMatch(new RegExp(`^${variable}\\b[^\\n]+\\n$`));
    expect(stderr).not.toContain("hunter2");
    expect(existsSync(DATA_DIR)).toBe(false);
  });

  it.concurrent.each([
    ["an unknown key", "trial: { days: 14 }\nmodles: []\n", 2, "modles"],
    ["an unknown nested key", "limits:\n  requests_per_minute: 5\n  request_per_hour: 5\n", 3, "request_per_hour"],
    [
      "a model without its provider",
      "models:\n  - { id: a/b, provider: none, provider_model: b, input_rate: 1, output_rate: 2, context_window: 10, max_output_tokens: 5 }\n",
      2,
      "provider",
    ],
    [
      "a negative rate",
      "providers:\n  - { name: p, kind: openai-compatible, base_url: 'http://x/v1' }\nmodels:\n  - id: a/b\n    provider: p\n    provider_model: b\n    input_rate: -1\n    output_rate: 2\n    context_window: 10\n    max_output_tokens: 5\n",
      7,
      "input_rate",
    ],
    ["broken YAML", "trial: { days: 14\n", 2, ""],
  ])("PURSER_CONFIG with %s: file, line and reason", async (_, text, line, reason) => {
    const own = mkdtempSync(join(folder, "config-"));
    const file = join(own, "purser.yaml");
    writeFileSync(file, text);
    const { code, stderr } = await startProcess({ PORT: "0", DATA_DIR: join(own, "data"), PURSER_CONFIG: file }).ended;
    expect(code).toBe(2);
    expect(stderr).toMatch(/^PURSER_CONFIG[^\n]+\n$/);
    expect(stderr).toContain(`${file}:${line}:`);
    expect(stderr).toContain(reason);
    expect(readdirSync(own)).toEqual(["purser.yaml"]);
  });
});
