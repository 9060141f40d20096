import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BrowserContext, Page } from "playwright-core";
import { startSite } from "../demo/site.ts";
import { tellStory } from "../demo/story.ts";
import { createLedger } from "../src/account/ledger/ledger.service.ts";
import { listen } from "../src/api/http/listen.ts";
import { createApp } from "../src/app/app.ts";
import { readConfig } from "../src/config/config.ts";
import type { Db } from "../src/platform/db/db.ts";
import { openDb } from "../src/platform/db/open-db.ts";
import { newId } from "../src/platform/lib/ids.ts";
import { createLog } from "../src/platform/telemetry/log.ts";
import { startChromium } from "../test/support/chromium.ts";
import { startCrm } from "../test/support/crm.ts";
import { calling, completion, json, startUpstream } from "../test/support/upstream.ts";

// `npm run pictures`: takes the pictures of the README and the guides in Chromium, of a service with the demo's story and
// three weeks of runs before it. Name pictures to take only these: npm run pictures run ledger

const FOLDER = join(import.meta.dirname, "pictures");
const MOST_BYTES = 120 * 1024;
const DAYS = 21;
const EMAIL = "ada@example.com";
const PASSWORD = "a long enough password";
const ADMIN_KEY = randomBytes(24).toString("hex");
const MODEL = { provider: "acme", trial_eligible: true, context_window: 200_000, max_output_tokens: 16_000 };
const log = createLog("silent");

// biome-ignore lint/suspicious/noExplicitAny: the pictures' data is any answer of the API
type Json = any;
/** With an API key, or as the person who is signed in. */
type Call = (method: string, path: string, body?: unknown, key?: string) => Promise<Json>;

/** The other agents of the account: what their runs answer, and how many tokens each reads. */
const AGENTS = [
  {
    name: "Competitor digest",
    run_prompt: "Read the three shops' news, and say what changed since yesterday.",
    model_id: "acme/large",
    times: ["07:30"],
    tokens: 21_000,
    outputs: [
      "Two shops lowered the price of anchors; Northwind now delivers on Saturdays.",
      "No prices changed. Southport announced a shop in Lisbon.",
      "Northwind sells life jackets again, 4 euros above ours.",
    ],
  },
  {
    name: "Inbox triage",
    run_prompt: "Sort the mails of the last hour, and add new senders to the CRM.",
    model_id: "acme/small",
    times: ["08:00", "11:00", "14:00", "17:00"],
    tokens: 6000,
    outputs: [
      "9 mails: 2 offers, 1 complaint (berth 14), 6 newsletters.",
      "3 mails: all answered. Nothing is open.",
      "5 mails: 1 invoice over 1,240 euros, due on Friday.",
    ],
  },
  {
    name: "Price check",
    run_prompt: "Compare the berth prices of five harbours.",
    model_id: "acme/small",
    times: ["06:00", "18:00"],
    tokens: 9000,
    outputs: ["Berths cost 31 to 44 euros a night; ours is third.", "Kiel raised its price to 41 euros a night."],
  },
] as const;

const site = await startSite();
const crm = await startCrm();
const upstream = await startUpstream();
const data_dir = mkdtempSync(join(tmpdir(), "purser-pictures-"));
const config = join(data_dir, "purser.json");
const models = (["small", "large"] as const).map((name) => ({
  ...MODEL,
  id: `acme/${name}`,
  provider_model: name,
  name: `Acme ${name}`,
  ...(name === "small" ? { input_rate: 0.4, output_rate: 1.6 } : { input_rate: 2, output_rate: 8 }),
  supports: { tools: true, streaming: true, json_schema: true },
}));
writeFileSync(
  config,
  JSON.stringify({ providers: [{ name: "acme", kind: "openai-compatible", base_url: upstream.url }], models }),
);
const env = {
  DATA_DIR: data_dir,
  PORT: "0",
  LOG_LEVEL: "silent",
  PURSER_CONFIG: config,
  PURSER_ADMIN_KEY: ADMIN_KEY,
  PURSER_EGRESS_ALLOW: `${new URL(site.origin).host},${crm.host}`,
};

/** Starts the service, and stops it after the work. */
async function withService(work: (url: string) => Promise<void>): Promise<void> {
  const app = await createApp(readConfig(env), log);
  const server = await listen(app.http, { host: "127.0.0.1", port: 0 });
  app.listeningAt(server.url);
  await work(server.url);
  app.beginStop();
  await server.stop();
  await app.stop();
}

function callerOf(context: BrowserContext, url: string): Call {
  return async (method, path, body, key) => {
    const sent = body === undefined ? {} : { data: body };
    const headers: Record<string, string> = key === undefined ? { Origin: url } : { Authorization: `Bearer ${key}` };
    const response = await context.request.fetch(`${url}/api/v1${path}`, { method, headers, ...sent });
    const text = await response.text();
    if (!response.ok()) throw new Error(`${method} ${path}: ${response.status()} ${text}`);
    return text === "" ? null : JSON.parse(text);
  };
}

interface Made {
  user_id: string;
  harbour: string;
  agents: { id: string; tokens: number; outputs: readonly string[]; model_id: string; times: readonly string[] }[];
}

/** The account with its agents, secret, plan and key. */
async function make(call: Call): Promise<Made> {
  await call("POST", "/auth/sign-up/email", { email: EMAIL, password: PASSWORD });
  await call("POST", "/billing/subscription", { plan_id: "starter" });
  await call("POST", "/billing/purchase", { amount_cents: 2500 });
  await call("POST", "/api-keys", { name: "Website", scopes: ["chat:read", "chat:write"], budget_tokens: 5_000_000 });
  const story = tellStory(site.origin);
  await call("POST", "/secrets", story.secret);
  await call("POST", "/secrets", { name: "SHOP_TOKEN", value: "shop_4eC39HqLyjWDarjtT1zdp7dc" });
  const agents: Made["agents"] = [];
  for (const { name, run_prompt, model_id, times, ...history } of AGENTS) {
    const [schedule_time] = times;
    const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time, schedule_timezone: "UTC" };
    const servers = [{ name: "crm", url: crm.crm_url, permission_policy: "always_ask" }];
    const tools_config = name === "Inbox triage" ? { mcp: { enabled: true, servers } } : {};
    const { id } = await call("POST", "/agents", { name, run_prompt, model_id, tools_config, ...daily });
    agents.push({ id, model_id, times, ...history });
  }
  const harbour = (await call("POST", "/agents", story.agent)).id;
  return { user_id: (await call("GET", "/users/me")).id, harbour, agents };
}

/** Makes the account three weeks older, and gives it the runs and charges of this time. */
async function addHistory(db: Db, { user_id, agents }: Made): Promise<void> {
  for (const [table, column] of Object.entries(BEGINNINGS)) {
    const of_user = table === "users" ? "id" : "user_id";
    for (const name of column) {
      const text = `update ${table} set ${name} = ${name} - interval '${DAYS} days' where ${of_user} = $1`;
      await db.query({ text, values: [user_id] });
    }
  }
  const now = Date.now();
  const planned = agents.flatMap((agent) =>
    agent.times.flatMap((time) =>
      Array.from({ length: DAYS }, (_, day) => ({ ...agent, at: atTime(now, DAYS - 1 - day, time), day })),
    ),
  );
  const due = planned.filter(({ at }) => at < now - 60_000).sort((a, b) => a.at - b.at);
  for (const [place, run] of due.entries()) await addRun(db, user_id, run, place);
}

/** The columns with the times at which the account was made. */
const BEGINNINGS: Readonly<Record<string, readonly string[]>> = {
  users: ["created_at"],
  bucket: ["granted_at", "expires_at"],
  entry: ["created_at"],
  payment: ["created_at"],
  agent: ["created_at", "updated_at"],
  agent_version: ["created_at"],
  api_key: ["created_at"],
};

/** The time of a day, so many days ago, in UTC. */
function atTime(now: number, days_ago: number, time: string): number {
  const date = new Date(now - days_ago * 86_400_000).toISOString().slice(0, 10);
  return Date.parse(`${date}T${time}:07Z`);
}

/** A new id of this time, because lists are sorted by their ids. */
function idOf(at: number): string {
  const time = at.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}${newId().slice(13)}`;
}

type PlannedRun = Made["agents"][number] & { at: number; day: number };

/** A finished run with its charge. Every 17th failed, every 11th had a failed call. */
async function addRun(db: Db, user_id: string, run: PlannedRun, place: number): Promise<void> {
  const fails = place % 17 === 9;
  const recent = run.day >= DAYS - 2 && run.model_id === "acme/large" ? 4 : 1;
  const input_tokens = Math.round(run.tokens * recent * (0.8 + ((place * 37) % 50) / 100));
  const output_tokens = Math.round(input_tokens / 12);
  const [input_rate, output_rate] = run.model_id === "acme/large" ? [2, 8] : [0.4, 1.6];
  const cost_tokens = Math.ceil(input_tokens * input_rate + output_tokens * output_rate);
  const at = new Date(run.at).toISOString();
  const run_id = idOf(run.at);
  await db.query({
    text: `insert into run (user_id, id, agent_id, agent_version, trigger, status, queued_at, started_at, finished_at,
        model_id, input_tokens, output_tokens, cost_tokens, steps_count, error, output, engine_input, priority,
        failed_calls, scheduled_for, schedule_id)
      select $1, $2, $3, 1, 'schedule', $4, $5::timestamptz, $5::timestamptz + interval '1 second', $5::timestamptz + interval '1 second' * $6::integer,
        $7, $8, $9, $10, 2, $11::jsonb, $12, '{}', 1, $13, $5::timestamptz,
        (select id from schedule where user_id = $1 and agent_id = $3 and name = 'default')`,
    values: [
      user_id,
      run_id,
      run.id,
      fails ? "failed" : "succeeded",
      at,
      8 + (place % 23),
      run.model_id,
      input_tokens,
      output_tokens,
      cost_tokens,
      fails ? JSON.stringify({ code: "model_unavailable", message: "The model's provider did not answer." }) : null,
      fails ? null : run.outputs[place % run.outputs.length],
      !fails && place % 11 === 4 ? 1 : 0,
    ],
  });
  const ledger = createLedger({ db, clock: { now: () => at } });
  const call = {
    hold_id: newId(),
    request_id: newId(),
    user_id,
    api_key_id: null,
    agent_id: run.id,
    run_id,
    key_budget_tokens: null,
  };
  await ledger.hold({ ...call, amount_tokens: cost_tokens, minimum_tokens: cost_tokens });
  await ledger.settle({
    ...call,
    model: run.model_id,
    input_rate_micro: input_rate * 1_000_000,
    output_rate_micro: output_rate * 1_000_000,
    input_tokens,
    output_tokens,
    cached_input_tokens: 0,
    cache_write_tokens: 0,
    cache_write_1h_tokens: 0,
    cost_tokens,
    upstream_cost_micro_usd: Math.round(cost_tokens * 0.9),
  });
}

/** What is under way now: the demo's run, a run that waits for a decision, and an agent that spends more since its version. */
async function goOn(call: Call, { user_id, harbour, agents }: Made): Promise<Record<string, string>> {
  const [digest, inbox] = agents;
  if (digest === undefined || inbox === undefined) throw new Error("an agent is missing");
  const until = async (run_id: string, statuses: readonly string[]) => {
    for (;;) {
      const { status } = await call("GET", `/runs/${run_id}`);
      if (statuses.includes(status)) return status;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  await call("PATCH", `/admin/users/${user_id}`, { operator_role: "admin" }, ADMIN_KEY);
  await call("POST", "/auth/confirm-password", { password: PASSWORD });
  await call("PUT", `/agents/${digest.id}`, { description: "Reads three shops each morning." });
  const { id: story } = await call("POST", `/agents/${harbour}/runs`);
  if ((await until(story, ["succeeded", "failed"])) === "failed") throw new Error("the demo's run failed");
  upstream.answer(json({ error: { message: "The provider is overloaded." } }, 503));
  const { id: failed } = await call("POST", `/agents/${agents[2]?.id}/runs`);
  await until(failed, ["failed"]);
  upstream.answer(
    calling("crm__create_contact", { name: "Ada Lovelace", phone: "0123 456" }),
    completion("The sender is in the CRM."),
  );
  const { id: waiting } = await call("POST", `/agents/${inbox.id}/runs`);
  await until(waiting, ["requires_action"]);
  upstream.answer(completion("Two shops lowered the price of anchors."));
  const messages = [{ role: "user", content: "Name three harbours." }];
  for (const user of ["guest-17", "guest-4", "guest-17"]) {
    await call("POST", "/chat/completions", { model: "acme/small", messages, user, max_tokens: 200 });
  }
  return { harbour, story, digest: digest.id, inbox: inbox.id, waiting };
}

interface Picture {
  path: string;
  /** A phone; otherwise a window that is 1280 pixels wide. */
  phone?: true;
  /** 800, if it is absent. */
  height?: number;
  /** A text that the complete page shows. */
  shows: string;
  /** What a person does before the picture. */
  before?: (page: Page) => Promise<unknown>;
}

/** The pictures by their names in docs/pictures. */
const PICTURES: Readonly<Record<string, Picture>> = {
  home: { path: "/", height: 960, shows: "Last 7 days" },
  runs: { path: "/runs?run={story}", shows: "Output or error" },
  run: { path: "/agents/{harbour}/runs/{story}", height: 1280, shows: "Timeline" },
  safety: {
    path: "/agents/{harbour}/runs/{story}",
    height: 600,
    shows: "Timeline",
    before: (page) => page.getByRole("link", { name: /^4\. web_fetch/ }).click(),
  },
  approvals: { path: "/agents/{inbox}/runs/{waiting}/decide", phone: true, shows: "Approve call" },
  usage: { path: "/usage", shows: "Usage" },
  ledger: { path: "/billing?tab=ledger", shows: "Competitor digest" },
  agent: { path: "/agents/{harbour}/edit", shows: "Save agent" },
  operator: { path: "/operator", shows: "Operator" },
};

async function take(url: string, context: BrowserContext, records: Readonly<Record<string, string>>): Promise<void> {
  const wanted = process.argv.slice(2);
  for (const [name, { path, phone, height = 800, shows, before }] of Object.entries(PICTURES)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    const page = await context.newPage();
    await page.setViewportSize(phone === true ? { width: 390, height: 844 } : { width: 1280, height });
    await page.goto(url + path.replaceAll(/\{(\w+)\}/g, (_, record: string) => records[record] ?? ""));
    await page.getByText(shows).first().waitFor();
    await before?.(page);
    await page.waitForLoadState("networkidle");
    const session = await context.newCDPSession(page);
    const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 88 });
    const bytes = Buffer.from(data, "base64");
    if (bytes.length > MOST_BYTES) throw new Error(`${name} has ${bytes.length} bytes, more than ${MOST_BYTES}`);
    writeFileSync(join(FOLDER, `${name}.webp`), bytes);
    console.log(`${name}.webp: ${Math.round(bytes.length / 1024)} KB`);
    await page.close();
  }
}

const browser = await startChromium();
try {
  const context = await browser.newContext({ locale: "en-US", timezoneId: "UTC", reducedMotion: "reduce" });
  let made: Made | undefined;
  await withService(async (url) => {
    made = await make(callerOf(context, url));
  });
  if (made === undefined) throw new Error("the account was not made");
  const db = await openDb({ database_url: null, data_dir, log });
  await addHistory(db, made);
  await db.close();
  await withService(async (url) => {
    const records = await goOn(callerOf(context, url), made as Made);
    await take(url, context, records);
  });
} finally {
  await browser.close();
  await upstream.close();
  await crm.close();
  site.stop();
  rmSync(data_dir, { recursive: true, force: true });
}
