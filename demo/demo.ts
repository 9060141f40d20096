import { randomBytes } from "node:crypto";
import { styleText } from "node:util";
import { type Listening, listen } from "../src/api/http/listen.ts";
import { createApp } from "../src/app/app.ts";
import { readConfig } from "../src/config/config.ts";
import { createLog } from "../src/platform/telemetry/log.ts";
import { block, grouped, heading, line, table } from "./print.ts";
import { type DemoSite, startSite } from "./site.ts";
import { tellStory } from "./story.ts";

// `npm run demo`: the main use case from end to end, offline, through the public API. `--once` exits at the end instead
// of keeping the service running.

const once = process.argv.includes("--once");
const admin_key = process.env.PURSER_ADMIN_KEY ?? `demo-${randomBytes(12).toString("hex")}`;

// biome-ignore lint/suspicious/noExplicitAny: the demo prints any answer of the API
type Json = any;

function clientOf(url: string, key: string) {
  return async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Json> => {
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const answer = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
    return answer;
  };
}

function showStep(step: Json): void {
  const cost = step.usage === null ? "" : `, ${grouped(step.usage.cost_tokens)} tokens`;
  line(`${step.index + 1}. ${styleText("cyan", step.type)} ${step.name}: ${step.status}${cost}`);
  if (step.type === "tool") line(styleText("dim", `   ${JSON.stringify(step.arguments)}`));
  for (const removed of step.safety?.removed ?? []) {
    const excerpt = String(removed.excerpt).replace(/\s+/g, " ").slice(0, 90);
    line(styleText("yellow", `   removed (${removed.technique}): ${excerpt}`));
  }
}

async function storeSecret(call: ReturnType<typeof clientOf>, origin: string): Promise<void> {
  heading("1. A secret, given to the vault once");
  const secret = await call("POST", "/secrets", tellStory(origin).secret);
  line(`${secret.name}, shown as ${secret.masked_value} from here on, sent to ${secret.allowed_hosts} only`);
}

async function runAgent(call: ReturnType<typeof clientOf>, { origin, received }: DemoSite): Promise<void> {
  heading("2. An agent that reads the web, signs in with the secret where it is bound, and sends a webhook");
  const agent = await call("POST", "/agents", tellStory(origin).agent);
  line(`agent ${agent.id}, next run ${agent.next_run_at} (09:00 in Kolkata)`);

  heading("3. One run of it: every step, and what the safety layer took out of the pages");
  const run = await call("POST", `/agents/${agent.id}/runs`, undefined, { Prefer: "wait=60" });
  const detail = await call("GET", `/agents/${agent.id}/runs/${run.id}`);
  detail.steps.forEach(showStep);
  line(`run ${detail.status}; its output:`);
  block(detail.output ?? JSON.stringify(detail.error));

  for (const { body, signed } of received) line(`the webhook came${signed ? ", signed" : ""}: ${body.slice(0, 90)} …`);
  const { uses } = await call("GET", `/secrets/${(await call("GET", "/secrets")).secrets[0].id}/uses`);
  for (const use of uses) line(`the secret was ${use.outcome} for ${use.host} by ${use.tool}, and is in no step above`);

  heading("4. What it cost");
  const { input_tokens, output_tokens, cost_tokens } = detail.usage;
  const dollars = (cost_tokens / 625_000).toFixed(6);
  line(
    `${grouped(input_tokens)} tokens in, ${grouped(output_tokens)} out: ${grouped(cost_tokens)} tokens billed ($${dollars})`,
  );
  const { input_rate, output_rate } = await call("GET", "/models/purser%2Frehearsal");
  line(`because this model bills ${input_rate} per token in and ${output_rate} per token out, each call rounded up`);
}

async function showAccount(call: ReturnType<typeof clientOf>): Promise<void> {
  heading("5. The ledger: every token granted and spent");
  const { transactions } = await call("GET", "/users/me/transactions");
  table(
    ["#", "type", "amount", "balance", "what for"],
    transactions.map((entry: Json) => [
      entry.seq,
      entry.type,
      entry.amount,
      entry.balance_after,
      entry.model ?? entry.description,
    ]),
  );
  heading("6. The buckets they are taken from, oldest first");
  const { buckets } = await call("GET", "/users/me/buckets");
  table(
    ["source", "remaining", "of", "expires", "note"],
    buckets.map((bucket: Json) => [
      bucket.source,
      bucket.remaining,
      bucket.original_amount,
      bucket.expires_at.slice(0, 10),
      bucket.note ?? "",
    ]),
  );
}

function showNext(url: string, key: string): void {
  heading("Go on");
  line(`curl ${url}/api/v1/chat/completions -H "Authorization: Bearer ${key}" \\`);
  line(
    `  -H "Content-Type: application/json" -d '{"model": "auto", "messages": [{"role": "user", "content": "Say hello"}]}'`,
  );
  line(`audit: curl ${url}/api/v1/admin/audit -H "Authorization: Bearer ${admin_key}"`);
  console.log("");
  console.log(`Console   ${url}/`);
  console.log(`Reference ${url}/docs`);
  console.log(`API key   ${key}`);
}

async function main(): Promise<void> {
  const started = performance.now();
  const site = await startSite();
  const config = readConfig({
    DATA_DIR: "./data/demo",
    ...process.env,
    PURSER_ADMIN_KEY: admin_key,
    PURSER_EGRESS_ALLOW: new URL(site.origin).host,
    LOG_LEVEL: process.env.LOG_LEVEL ?? "error",
  });
  console.log("Starting Purser on embedded storage (the first time takes a few seconds) …");
  const app = await createApp(config, createLog(config.log_level));
  const server: Listening = await listen(app.http, config).catch(() =>
    listen(app.http, { host: config.host, port: 0 }),
  );
  app.listeningAt(server.url);
  console.log(`listening on ${server.url}`);
  const stop = async () => {
    app.beginStop();
    await server.stop();
    await app.stop();
    site.stop();
  };
  try {
    const operator = clientOf(server.url, admin_key);
    const { api_key } = await operator("POST", "/admin/users", { email: `demo-${Date.now()}@example.com` });
    const call = clientOf(server.url, api_key.key);
    await storeSecret(call, site.origin);
    await runAgent(call, site);
    await showAccount(call);
    line("");
    line(`All of that took ${((performance.now() - started) / 1000).toFixed(1)} s.`);
    // With --once the service ends here, so its addresses would lead nowhere.
    if (!once) showNext(server.url, api_key.key);
  } catch (error) {
    await stop();
    throw error;
  }
  if (once) return stop();
  const end = () => void stop().then(() => process.exit(0));
  process.once("SIGINT", end);
  process.once("SIGTERM", end);
}

main().catch((error: Error) => {
  console.error(`The demo failed: ${error.message}`);
  process.exit(1);
});
