import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ConfigError, readConfig } from "../../../src/config/config.ts";

const KEY = Buffer.alloc(32, 7).toString("base64");
const STRIPE = { STRIPE_SECRET_KEY: "sk_test_1", STRIPE_WEBHOOK_SECRET: "whsec_1" };
let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "config-"));
});
afterAll(() => rmSync(directory, { recursive: true }));

function refusal(env: Record<string, string>): string {
  try {
    readConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  throw new Error("it was accepted");
}

test("without any variable the service listens on loopback, on embedded storage, with sandbox payments", () => {
  expect(readConfig({})).toMatchObject({
    host: "127.0.0.1",
    port: 3000,
    database_url: null,
    data_dir: "./data",
    admin_key: null,
    keyring: null,
    test_clock: null,
    payments: "sandbox",
    stripe: null,
    public_url: null,
    trusted_proxies: [],
    mail: null,
    egress_allow: [],
    signup: "open",
    verification: "none",
    log_level: "info",
    provider_keys: {},
    providers: [],
    models: [],
    trial: { days: 14, tokens: 625_000 },
    rollover_months: 3,
    margin: 1,
    limits: {
      requests_per_minute: 600,
      session_requests_per_minute: 600,
      concurrent_runs_per_user: 10,
      concurrent_runs: 50,
      body_bytes: 4_194_304,
      fallback_after_seconds: 60,
      min_schedule_minutes: 5,
      trigger_requests_per_minute: 120,
    },
    warnings: [],
  });
});

test("a node has a role, which is fixed on embedded storage", () => {
  const shared = { DATABASE_URL: "postgres://localhost/purser", PURSER_KEK: `k1:${KEY}` };
  expect(readConfig({}).role).toBe("all");
  for (const role of ["all", "api", "worker"]) expect(readConfig({ ...shared, PURSER_ROLE: role }).role).toBe(role);
  expect(refusal({ ...shared, PURSER_ROLE: "workers" })).toMatch(/^PURSER_ROLE: .*all, api, worker/);
  expect(refusal({ PURSER_ROLE: "worker" })).toMatch(/^PURSER_ROLE: it is worker, and DATABASE_URL is not set/);
});

test("the default plans are the seed's table", () => {
  const rows = readConfig({}).plans.map((plan) => [plan.name, plan.price_cents, plan.included_tokens]);
  expect(rows).toEqual([
    ["Starter", 2900, 18_000_000],
    ["Professional", 4900, 30_000_000],
    ["Pro", 8900, 55_000_000],
    ["Enterprise", 14900, 93_000_000],
  ]);
});

describe("a valid value is accepted", () => {
  test.each<[Record<string, string>, object]>([
    [{ HOST: "0.0.0.0" }, { host: "0.0.0.0", payments: "none" }],
    [{ HOST: "::1" }, { host: "::1", payments: "sandbox" }],
    [{ HOST: "purser.example.com" }, { host: "purser.example.com" }],
    [{ HOST: "127.example.com" }, { host: "127.example.com", payments: "none" }],
    [{ PORT: "0" }, { port: 0 }],
    [{ PORT: "65535" }, { port: 65535 }],
    [{ PORT: "" }, { port: 3000 }],
    [{ DATABASE_URL: "postgres://u:p@db:5432/purser", PURSER_KEK: `k1:${KEY}` }, { payments: "none" }],
    [{ DATABASE_URL: "postgresql://db/purser", PURSER_KEK: `k1:${KEY}` }, { database_url: "postgresql://db/purser" }],
    [{ DATA_DIR: "/var/lib/purser" }, { data_dir: "/var/lib/purser" }],
    [{ PURSER_ADMIN_KEY: "operator" }, { admin_key: "operator" }],
    [{ PURSER_KEK: `new:${KEY},old:${KEY}` }, { keyring: [{ id: "new" }, { id: "old" }] }],
    [{ PURSER_TEST_CLOCK: "2026-01-31T09:00+05:30" }, { test_clock: "2026-01-31T03:30:00.000Z" }],
    [{ PURSER_TEST_CLOCK: "2026-01-31T09:00:00Z", PURSER_PAYMENTS: "sandbox", ...STRIPE }, { payments: "sandbox" }],
    [{ PURSER_PAYMENTS: "none" }, { payments: "none" }],
    [{ PURSER_PAYMENTS: "sandbox", HOST: "0.0.0.0" }, { payments: "sandbox" }],
    [STRIPE, { payments: "stripe", stripe: { secret_key: "sk_test_1", webhook_secret: "whsec_1", api_base: null } }],
    [{ ...STRIPE, STRIPE_API_BASE: "http://127.0.0.1:9/" }, { stripe: { api_base: "http://127.0.0.1:9" } }],
    [{ PURSER_PUBLIC_URL: "https://purser.example.com/" }, { public_url: "https://purser.example.com" }],
    [{ PURSER_TRUSTED_PROXIES: "10.0.0.0/8, fd00::/8" }, { trusted_proxies: ["10.0.0.0/8", "fd00::/8"] }],
    [{ SMTP_URL: "smtp://mail:25" }, { verification: "link" }],
    [{ HOST: "0.0.0.0" }, { verification: "link" }],
    [{ SMTP_URL: "smtp://mail:25" }, { mail: { smtp_url: "smtp://mail:25", from: "Purser <no-reply@localhost>" } }],
    [{ SMTP_URL: "smtps://u:p@mail", MAIL_FROM: "Us <us@example.com>" }, { mail: { from: "Us <us@example.com>" } }],
    [
      { PURSER_EGRESS_ALLOW: "Localhost:8080,[::1]:80,10.1.0.0/16" },
      { egress_allow: ["localhost:8080", "[::1]:80", "10.1.0.0/16"] },
    ],
    [{ PURSER_SAFETY_OFF: "allowed" }, { safety_off: "allowed" }],
    [{}, { safety_off: "refused" }],
    [{ PURSER_SIGNUP: "closed" }, { signup: "closed" }],
    [{ PURSER_METRICS_ADDRESS: "10.0.0.5:9464" }, { metrics_address: { host: "10.0.0.5", port: 9464 } }],
    [{ PURSER_METRICS_ADDRESS: "[::1]:0" }, { metrics_address: { host: "::1", port: 0 } }],
    [{ PURSER_METRICS_ADDRESS: "" }, { metrics_address: null }],
    [{ PORT: "0", PURSER_METRICS_ADDRESS: "127.0.0.1:0" }, { metrics_address: { host: "127.0.0.1", port: 0 } }],
    [{ PURSER_METRICS_ADDRESS: "[::1]:3000" }, { metrics_address: { host: "::1", port: 3000 } }],
    [{ PURSER_KEEP_RUNS_DAYS: "90" }, { keep_runs_days: 90 }],
    [{ LOG_LEVEL: "debug" }, { log_level: "debug" }],
    [{ MISTRAL_API_KEY: "m-1", XAI_API_KEY: "" }, { provider_keys: { MISTRAL_API_KEY: "m-1" } }],
  ])("%j", (env, expected) => {
    expect(readConfig(env)).toMatchObject(expected);
  });
});

describe("a bad value is rejected in one line with the variable, the fault and the accepted values", () => {
  test.each<[Record<string, string>, string]>([
    [{ HOST: "no host" }, 'HOST: "no host" is not a host; accepted: an IP address'],
    [{ HOST: "999.1.1.1" }, "HOST: "],
    [{ PORT: "abc" }, 'PORT: "abc" is not a port; accepted: a whole number from 0 to 65535'],
    [{ PORT: "65536" }, "PORT: "],
    [{ PORT: "-1" }, "PORT: "],
    [{ PORT: "80\n" }, 'PORT: "80\\n" is not a port'],
    [{ DATABASE_URL: "mysql://u:hunter2@db/x" }, 'DATABASE_URL: its scheme is "mysql:"; accepted: postgres://'],
    [{ DATABASE_URL: "db/x" }, "DATABASE_URL: it is not a URL"],
    [{ PURSER_ROUTING_BUCKETS: "0-U" }, 'PURSER_ROUTING_BUCKETS: "0-U" is not two characters, a hyphen'],
    [{ PURSER_ROUTING_BUCKETS: "V0-Uz" }, "PURSER_ROUTING_BUCKETS: V0 comes after Uz"],
    [{ PURSER_READ_DATABASE_URL: "postgres://db/x" }, "PURSER_READ_DATABASE_URL: DATABASE_URL is not set"],
    [
      { DATABASE_URL: "postgres://db/x", PURSER_READ_DATABASE_URL: "postgres://one,two/x" },
      "PURSER_READ_DATABASE_URL: it names several hosts",
    ],
    [{ DATABASE_URL: "postgres://db/x" }, "PURSER_KEK: it is not set, and DATABASE_URL is; accepted: id:base64"],
    [{ DATA_DIR: "/dev/null" }, 'DATA_DIR: "/dev/null" is not a directory'],
    [{ DATA_DIR: "/dev/null/below" }, 'DATA_DIR: "/dev/null" is not a directory'],
    [{ PURSER_CONFIG: "/nowhere.yaml" }, "PURSER_CONFIG: /nowhere.yaml cannot be read (ENOENT); accepted: the path"],
    [{ PURSER_ADMIN_KEY: "hunter 2" }, "PURSER_ADMIN_KEY: it holds a space"],
    [{ PURSER_KEK: KEY }, "PURSER_KEK: key 1 has no id"],
    [{ PURSER_KEK: "k1:hunter2!" }, "PURSER_KEK: key 1 is not valid base64; accepted: id:base64 of 32 bytes"],
    [{ PURSER_KEK: "k1:AAAA" }, "PURSER_KEK: key 1 has 3 bytes, not 32"],
    [{ PURSER_KEK: `k1:${KEY},` }, "PURSER_KEK: key 2 has no id"],
    [{ PURSER_KEK: `k1:${KEY},k1:${KEY}` }, "PURSER_KEK: the id k1 stands twice"],
    [{ PURSER_TEST_CLOCK: "2026-01-31" }, 'PURSER_TEST_CLOCK: "2026-01-31" is not an instant; accepted: an ISO 8601'],
    [{ PURSER_TEST_CLOCK: "9999-01-01T00:00Z" }, "PURSER_TEST_CLOCK: the year 9999"],
    [{ PURSER_TEST_CLOCK: "2026-01-31T09:00Z", ...STRIPE }, "PURSER_TEST_CLOCK: it is set while payments are live"],
    [
      { PURSER_TEST_CLOCK: "2026-01-31T09:00Z", PURSER_PAYMENTS: "stripe", ...STRIPE },
      "PURSER_TEST_CLOCK: it is set while payments are live",
    ],
    [{ PURSER_PAYMENTS: "paypal" }, 'PURSER_PAYMENTS: "paypal" is not one of them; accepted: stripe, sandbox or none'],
    [{ PURSER_PAYMENTS: "stripe" }, "STRIPE_SECRET_KEY: it is not set"],
    [{ STRIPE_SECRET_KEY: "sk_1" }, "STRIPE_WEBHOOK_SECRET: it is not set"],
    [{ STRIPE_WEBHOOK_SECRET: "whsec_1" }, "STRIPE_SECRET_KEY: it is not set"],
    [{ STRIPE_SECRET_KEY: "hunter2\n" }, "STRIPE_SECRET_KEY: it holds a space"],
    [{ ...STRIPE, STRIPE_API_BASE: "ftp://x" }, "STRIPE_API_BASE: it is not an http address"],
    [{ PURSER_PUBLIC_URL: "purser.example.com" }, "PURSER_PUBLIC_URL: "],
    [{ PURSER_PUBLIC_URL: "ftp://a" }, 'PURSER_PUBLIC_URL: its scheme is "ftp:"'],
    [{ PURSER_PUBLIC_URL: "https://u:hunter2@a" }, "PURSER_PUBLIC_URL: it holds credentials"],
    [{ PURSER_PUBLIC_URL: "https://a/purser" }, "PURSER_PUBLIC_URL: it goes on after the host"],
    [{ PURSER_TRUSTED_PROXIES: "10.0.0.1" }, 'PURSER_TRUSTED_PROXIES: "10.0.0.1" is not a CIDR; accepted: CIDRs'],
    [{ PURSER_TRUSTED_PROXIES: "10/8" }, "PURSER_TRUSTED_PROXIES: "],
    [{ PURSER_TRUSTED_PROXIES: "10.0.0.0/33" }, "PURSER_TRUSTED_PROXIES: "],
    [{ SMTP_URL: "http://u:hunter2@mail" }, 'SMTP_URL: its scheme is "http:"'],
    [{ MAIL_FROM: "nobody" }, 'MAIL_FROM: "nobody" is not a mail address'],
    [{ PURSER_EGRESS_ALLOW: "localhost" }, 'PURSER_EGRESS_ALLOW: "localhost" is neither host:port nor a CIDR'],
    [{ PURSER_EGRESS_ALLOW: "*.internal:80" }, "PURSER_EGRESS_ALLOW: "],
    [{ PURSER_EGRESS_ALLOW: "localhost:99999" }, "PURSER_EGRESS_ALLOW: "],
    [{ PURSER_EGRESS_ALLOW: "a:80,,b:80" }, "PURSER_EGRESS_ALLOW: "],
    [
      { PURSER_KEEP_RUNS_DAYS: "0" },
      'PURSER_KEEP_RUNS_DAYS: "0" is not one; accepted: a whole number of days from 1 to 36500',
    ],
    [
      { PURSER_METRICS_ADDRESS: "9464" },
      'PURSER_METRICS_ADDRESS: "9464" is not host:port; accepted: host:port, such as',
    ],
    [{ PURSER_METRICS_ADDRESS: "::1:9464" }, 'PURSER_METRICS_ADDRESS: "::1:9464" is not host:port'],
    [{ PURSER_METRICS_ADDRESS: "[a]:9464" }, 'PURSER_METRICS_ADDRESS: "a" is not an IPv6 address'],
    [{ PURSER_METRICS_ADDRESS: "a b:9464" }, 'PURSER_METRICS_ADDRESS: "a b" is not a host'],
    [
      { PURSER_METRICS_ADDRESS: "127.0.0.1:3000" },
      "PURSER_METRICS_ADDRESS: port 3000 is the one of HOST and PORT; acc",
    ],
    [
      { HOST: "0.0.0.0", PORT: "80", PURSER_METRICS_ADDRESS: "10.0.0.5:80" },
      "PURSER_METRICS_ADDRESS: port 80 is the one of HOST and PORT; accepted: host:port, such as",
    ],
    [{ PURSER_METRICS_ADDRESS: "localhost:65536" }, 'PURSER_METRICS_ADDRESS: "65536" is not a port'],
    [{ PURSER_SIGNUP: "yes" }, 'PURSER_SIGNUP: "yes" is not one of them; accepted: open or closed'],
    [{ LOG_LEVEL: "loud" }, 'LOG_LEVEL: "loud" is not one of them; accepted: silent, fatal'],
    [{ OPENAI_API_KEY: "hunter2\n" }, "OPENAI_API_KEY: it holds a space"],
  ])("%j", (env, expected) => {
    const message = refusal(env);
    expect(message).toContain(expected);
    expect(message).toContain("; accepted: ");
    expect(message).not.toContain("\n");
    expect(message).not.toContain("hunter");
  });
});

test("a short admin key is accepted with a warning that does not show it", () => {
  const { warnings } = readConfig({ PURSER_ADMIN_KEY: "operator" });
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).not.toContain("operator");
});

test("a provider without its key is not offered, and a warning says so", () => {
  const file = join(directory, "hidden.yaml");
  writeFileSync(file, "providers:\n  - { name: lab, kind: openai, api_key_env: LAB_KEY }\n");
  expect(readConfig({ PURSER_CONFIG: file }).warnings).toEqual([
    "The provider lab and its models are hidden: its key LAB_KEY is not set.",
  ]);
  expect(readConfig({ PURSER_CONFIG: file, LAB_KEY: "lab-1" }).warnings).toEqual([]);
});

test("PURSER_CONFIG may be YAML or JSON, and its providers' keys are found by the variables it names", () => {
  const yaml = join(directory, "purser.yaml");
  const json = join(directory, "purser.json");
  const provider = {
    name: "lab",
    kind: "openai-compatible",
    base_url: "http://127.0.0.1:9999/v1",
    api_key_env: "LAB_KEY",
  };
  writeFileSync(
    yaml,
    "providers:\n  - { name: lab, kind: openai-compatible, base_url: 'http://127.0.0.1:9999/v1', api_key_env: LAB_KEY }\n",
  );
  writeFileSync(json, JSON.stringify({ providers: [provider] }, null, "\t"));
  for (const path of [yaml, json]) {
    const config = readConfig({ PURSER_CONFIG: path, LAB_KEY: "lab-1" });
    expect(config.providers).toMatchObject([provider]);
    expect(config.provider_keys).toEqual({ LAB_KEY: "lab-1" });
  }
});

const PROXIES = "127.0.0.1/32";
const PUBLIC = { PURSER_PUBLIC_URL: "https://purser.example", PURSER_TRUSTED_PROXIES: PROXIES };

test.each([
  ["a console that people would open at another address", { HOST: "0.0.0.0" }, /^PURSER_PUBLIC_URL/],
  ["tokens that cost nothing, for everyone", { ...PUBLIC, PURSER_PAYMENTS: "sandbox" }, /^PURSER_PAYMENTS is sandbox/],
  [
    "tokens that cost nothing behind a proxy",
    { PURSER_TRUSTED_PROXIES: PROXIES, PURSER_PAYMENTS: "sandbox" },
    /^PURSER_PAYMENTS is sandbox/,
  ],
  [
    "clients that cannot be told apart behind a TLS proxy",
    { HOST: "0.0.0.0", PURSER_PUBLIC_URL: "https://purser.example" },
    /^PURSER_TRUSTED_PROXIES/,
  ],
  [
    "clients that cannot be told apart behind a proxy on this machine",
    { PURSER_PUBLIC_URL: "http://purser.example" },
    /^PURSER_TRUSTED_PROXIES/,
  ],
  [
    "clients that may all name themselves another address",
    { ...PUBLIC, PURSER_TRUSTED_PROXIES: "0.0.0.0/0" },
    /^PURSER_TRUSTED_PROXIES names every address/,
  ],
])("warns of %s", (_, env, warning) => {
  expect(readConfig(env).warnings).toEqual([expect.stringMatching(warning)]);
});

const JUDGES = "safety: { judges: [{ kind: tei, url: 'http://tei:8080', secret_env: TEI_KEY }] }";

test("a judge has its key, the address that its kind completes, and the defaults", () => {
  const file = join(directory, "judges.yaml");
  writeFileSync(file, JUDGES);
  expect(readConfig({ PURSER_CONFIG: file, TEI_KEY: "key-1" }).safety.judges).toEqual([
    {
      kind: "tei",
      url: "http://tei:8080/predict",
      model: null,
      project_id: null,
      secret: "key-1",
      threshold: 0.5,
      timeout_ms: 5_000,
      when: "doubtful",
      on_error: "keep_local",
    },
  ]);
  expect(readConfig({}).safety.judges).toEqual([]);
});

test.each([
  [JUDGES, {}, "judges.yaml: safety.judges[0].secret_env names TEI_KEY, which is not set; accepted: TEI_KEY with"],
  [JUDGES, { TEI_KEY: "a key" }, "TEI_KEY: it holds a space"],
  [
    "safety: { judges: [{ kind: model, model: lab/nowhere }] }",
    {},
    'safety.judges[0].model "lab/nowhere" is no chat model of this file or of the catalogue; accepted: the id of a chat model',
  ],
  [
    "safety: { judges: [{ kind: model, model: text-embedding-3-small }] }",
    {},
    'safety.judges[0].model "text-embedding-3-small" is no chat model',
  ],
])("a judge that cannot work is rejected at the start: %s", (text, env, reason) => {
  const file = join(directory, "judges.yaml");
  writeFileSync(file, text);
  expect(refusal({ PURSER_CONFIG: file, ...env })).toContain(reason);
});

const SOLD_MODEL =
  "{ id: lab/a, provider: lab, provider_model: a, name: A, context_window: 9000, max_output_tokens: 900,";
const LAB = "providers: [{ name: lab, kind: openai-compatible, base_url: 'http://127.0.0.1:9/v1' }]\n";

test.each([
  ["margin: 0.2", [/^The margin in PURSER_CONFIG is 0.2: .* sold below their price/]],
  ["margin: 20", [/^The margin in PURSER_CONFIG is 20: .* It is a factor: 1.2 adds 20%/]],
  ["margin: 1", []],
  ["margin: 2", []],
  [
    `models: [${SOLD_MODEL} input_rate: 1, output_rate: 2, upstream_usd_per_million: { input: 1.61, output: 2 } }]`,
    [/^The model lab\/a is sold below its upstream price/],
  ],
  [
    `models: [${SOLD_MODEL} input_rate: 1, output_rate: 2, upstream_usd_per_million: { input: 1.6, output: 3.2 } }]`,
    [],
  ],
])("prices that lose money, or that only a mistake explains, are a warning: %s", (prices, warnings) => {
  const path = join(directory, "prices.yaml");
  writeFileSync(path, `${LAB}${prices}\n`);
  expect(readConfig({ PURSER_CONFIG: path }).warnings).toEqual(warnings.map((each) => expect.stringMatching(each)));
});

test.each([
  { PURSER_PUBLIC_URL: "http://localhost:8080" },
  { PURSER_PUBLIC_URL: "http://localhost:8080", PURSER_PAYMENTS: "sandbox" },
  PUBLIC,
  { ...PUBLIC, SMTP_URL: "smtp://mail" },
  { HOST: "0.0.0.0", PURSER_PUBLIC_URL: "http://purser.example:3000" },
])("gives no warning for %o", (env) => {
  expect(readConfig(env).warnings).toEqual([]);
});

const POSTGRES = { DATABASE_URL: "postgres://db/purser", PURSER_KEK: `k1:${KEY}` };

describe("the attack with free tokens: simulated payments and sign-ups without a link only on this machine", () => {
  test.each<[string, Record<string, string>]>([
    ["a public address in front of loopback, embedded storage", { PURSER_PUBLIC_URL: "https://purser.example" }],
    ["the same with a provider's key", { PURSER_PUBLIC_URL: "https://purser.example", OPENAI_API_KEY: "sk-1" }],
    ["a public address whose name begins like loopback", { PURSER_PUBLIC_URL: "https://127.purser.example" }],
    ["a proxy, though the public address is loopback", { PURSER_TRUSTED_PROXIES: PROXIES }],
    ["HOST on all interfaces", { HOST: "0.0.0.0", PURSER_PUBLIC_URL: "http://localhost:3000" }],
    ["PostgreSQL, on loopback", POSTGRES],
  ])("%s: no payments, and a link", (_, env) => {
    expect(readConfig(env)).toMatchObject({ payments: "none", verification: "link" });
  });

  test.each<[Record<string, string>]>([
    [{}],
    [{ PURSER_PUBLIC_URL: "http://localhost:8080" }],
    [{ HOST: "::1", PURSER_PUBLIC_URL: "http://[::1]:3000" }],
    [{ HOST: "localhost", PURSER_PUBLIC_URL: "http://127.0.0.2" }],
  ])("%o: simulated, and at once", (env) => {
    expect(readConfig(env)).toMatchObject({ payments: "sandbox", verification: "none" });
    expect(readConfig({ ...env, SMTP_URL: "smtp://mail" })).toMatchObject({
      payments: "sandbox",
      verification: "link",
    });
  });
});

describe("a secret in a file", () => {
  const fileWith = (name: string, text: string) => {
    const path = join(directory, name);
    writeFileSync(path, text);
    return path;
  };

  test("is the text of the file that NAME_FILE names, without the line break at its end", () => {
    const config_file = fileWith("with-key.yaml", "providers: [{ name: lab, kind: openai, api_key_env: LAB_KEY }]\n");
    const config = readConfig({
      PURSER_ADMIN_KEY_FILE: fileWith("admin", "operator-key-of-the-house\n"),
      DATABASE_URL_FILE: fileWith("url", "postgres://purser:secret@db.example/purser\r\n"),
      PURSER_KEK_FILE: fileWith("kek", `k2:${KEY}\nk1:${KEY}\n`),
      STRIPE_SECRET_KEY_FILE: fileWith("stripe", "sk_test_1"),
      STRIPE_WEBHOOK_SECRET_FILE: fileWith("webhook", "whsec_1"),
      SMTP_URL_FILE: fileWith("smtp", "smtp://ada:secret@mail.example:587\n"),
      OPENAI_API_KEY_FILE: fileWith("openai", "sk-openai\n"),
      LAB_KEY_FILE: fileWith("lab", "sk-lab\n"),
      PURSER_CONFIG: config_file,
    });
    expect(config).toMatchObject({
      admin_key: "operator-key-of-the-house",
      database_url: "postgres://purser:secret@db.example/purser",
      keyring: [{ id: "k2" }, { id: "k1" }],
      stripe: { secret_key: "sk_test_1", webhook_secret: "whsec_1" },
      mail: { smtp_url: "smtp://ada:secret@mail.example:587" },
      provider_keys: { OPENAI_API_KEY: "sk-openai", LAB_KEY: "sk-lab" },
      warnings: [],
    });
  });

  test("is read again by a reload", () => {
    const path = fileWith("rotated", "first-operator-key");
    const config = readConfig({ PURSER_ADMIN_KEY_FILE: path });
    writeFileSync(path, "second-operator-key");
    expect(config.reread().admin_key).toBe("second-operator-key");
  });

  test.each([
    [
      "both are set",
      { SMTP_URL: "smtp://mail", SMTP_URL_FILE: "/run/smtp" },
      "SMTP_URL: SMTP_URL_FILE is set too: remove one of them; accepted: SMTP_URL, or SMTP_URL_FILE with the path of a file",
    ],
    [
      "the file is missing",
      { SMTP_URL_FILE: "/nowhere/smtp" },
      'SMTP_URL: SMTP_URL_FILE names "/nowhere/smtp", which cannot be read (ENOENT)',
    ],
    ["it is a folder", { SMTP_URL_FILE: "/" }, 'SMTP_URL: SMTP_URL_FILE names "/", which cannot be read (EISDIR)'],
    ["the file is empty", { SMTP_URL_FILE: "/dev/null" }, 'SMTP_URL: SMTP_URL_FILE names "/dev/null", which is empty'],
  ])("prevents the start if %s", (_, env, message) => {
    expect(refusal(env as Record<string, string>)).toContain(message);
  });

  test("is not repeated by the message about a value that cannot be used", () => {
    const message = refusal({ OPENAI_API_KEY_FILE: fileWith("two-words", "secret words") });
    expect(message).toMatch(/^OPENAI_API_KEY: it holds a space/);
    expect(message).not.toContain("secret");
  });
});

describe("each default, by the service's address", () => {
  const same = {
    role: "all",
    host: "127.0.0.1",
    port: 3000,
    data_dir: "./data",
    admin_key: null,
    test_clock: null,
    stripe: null,
    mail: null,
    egress_allow: [],
    safety_off: "refused",
    keep_runs_days: null,
    signup: "open",
    log_level: "info",
    provider_keys: {},
    providers: [],
    models: [],
    warnings: [],
  };
  test.each<[string, Record<string, string>, object]>([
    [
      "on a person's own machine",
      {},
      { ...same, database_url: null, keyring: null, payments: "sandbox", verification: "none", public_url: null },
    ],
    [
      "embedded, behind a TLS proxy",
      PUBLIC,
      {
        ...same,
        database_url: null,
        keyring: null,
        payments: "none",
        verification: "link",
        trusted_proxies: [PROXIES],
      },
    ],
    [
      "PostgreSQL, two nodes, behind a proxy",
      { ...POSTGRES, ...PUBLIC, HOST: "0.0.0.0" },
      { ...same, host: "0.0.0.0", keyring: [{ id: "k1" }], payments: "none", verification: "link" },
    ],
  ])("%s", (_, env, expected) => {
    expect(readConfig(env)).toMatchObject(expected);
  });
});
