import type { Site } from "../support/sites.ts";
import { calling, completion, hanging, json, type Upstream } from "../support/upstream.ts";

/** A running service of any release, with the models and the site that `write.ts` gives it. */
export interface Filling {
  url: string;
  admin_key: string;
  upstream: Upstream;
  site: Site;
  /** The first link that the service writes to its log. */
  link(): Promise<string>;
  /** For rows that only other payment providers create. */
  sql(text: string): Promise<unknown>;
}

// biome-ignore lint/suspicious/noExplicitAny: the answers of several releases
type Json = any;
type Call = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Json>;

/** The domain's time at the start. */
export const BEGIN = "2026-03-01T00:00:00Z";
const PASSWORD = "correct horse battery staple";

/**
 * Gives every table rows through the public API, so that any release can be filled by it: users, tokens from each source,
 * charges, agents with schedules, runs, conversations, secrets, notices. Ends in the middle of a run and of a call.
 */
export async function fill({ url, admin_key, upstream, site, link, sql }: Filling): Promise<void> {
  const operator = callerOf(url, admin_key);
  const ada = await operator("POST", "/admin/users", { email: "ada@example.com" });
  const call = callerOf(url, ada.api_key.key);
  await signIn(url, link);
  await pay(operator, ada.user.id, call, sql);
  await spend(call, url);
  const agent = await configure(call, site);
  await run(call, agent, upstream, site);
  await operator("PUT", "/admin/clock", { now: "2026-03-03T00:00:00Z" });

  const erased = await operator("POST", "/admin/users", { email: "grace@example.com" });
  await callerOf(url, erased.api_key.key)("POST", "/chat/completions", ask());
  await operator("DELETE", `/admin/users/${erased.user.id}`);

  upstream.answer(hanging());
  const asked = upstream.requests.length;
  // Neither is answered: the process is killed first.
  call("POST", `/agents/${agent}/runs`).catch(() => {});
  call("POST", "/chat/completions", ask({ stream: true })).catch(() => {});
  await upstream.until(() => upstream.requests.length === asked + 2);
}

/** A password, a session, and links that are still open. */
async function signIn(url: string, link: Filling["link"]): Promise<void> {
  const browser = callerOf(url, "", { Origin: url });
  const reset = () => browser("POST", "/auth/request-password-reset", { email: "ada@example.com" });
  await reset();
  const token = (await link()).split("#token=")[1];
  await browser("POST", "/auth/reset-password", { token, new_password: PASSWORD });
  await reset();
  await browser("POST", "/auth/sign-up/email", { email: "joan@example.com", password: PASSWORD });
}

/** Tokens from a trial, a plan, a top-up and the operator; one grant is taken back in part. */
async function pay(operator: Call, user_id: string, call: Call, sql: Filling["sql"]): Promise<void> {
  await call("POST", "/billing/purchase", { amount_cents: 100 });
  await call("POST", "/billing/subscription", { plan_id: "starter" });
  await call("POST", "/billing/overage/enable", {});
  await operator("POST", `/admin/users/${user_id}/grants`, { amount_tokens: 50_000, source: "bonus" });
  await sql(
    `select ledger_claw_back(user_id, id, 20000, 'a gift by mistake', 'gift', '${BEGIN}') from bucket where original = 50000`,
  );
  await sql(`insert into payment_event (provider, event_id, kind, reference, event, outcome, received_at)
    values ('stripe', 'evt_1', 'refunded', 'ch_unknown', '{}', 'waiting', '${BEGIN}')`);
  await sql(`insert into payment_dispute (provider, reference, user_id, payment_id, disputed_cents, state)
    select 'sandbox', 'dp_1', user_id, id, 0, 'won' from payment where purpose = 'top_up'`);
}

/** Charges of a key with a budget, one of them with an Idempotency-Key. */
async function spend(call: Call, url: string): Promise<void> {
  const scopes = ["chat:write", "billing:read"];
  const { key } = await call("POST", "/api-keys", { name: "small", scopes, budget_tokens: 200 });
  const small = callerOf(url, key);
  await small("POST", "/chat/completions", ask(), { "Idempotency-Key": "one" });
  await small("POST", "/chat/completions", ask({ stream: true, max_tokens: 20 }));
}

/** A daily agent that reads a page with a secret and sends a webhook, and an endpoint for its notices. */
async function configure(call: Call, site: Site): Promise<string> {
  await call("POST", "/secrets", { name: "HARBOUR_KEY", value: SECRET, allowed_hosts: [site.host] });
  await call("POST", "/webhook-endpoints", { url: "https://example.com/hook", events: ["run.failed"] });
  const auth = [{ secret: "HARBOUR_KEY", hosts: [site.host], paths: ["/prices"], inject: { type: "bearer" } }];
  const agent = await call("POST", "/agents", {
    name: "Harbour watch",
    run_prompt: "What is new?",
    model_id: "lab/plain",
    tools_config: {
      web_fetch: { enabled: true, auth },
      send_webhook: { enabled: true, urls: [`${site.url}/hook`] },
    },
    schedule_enabled: true,
    schedule_interval: "daily",
    schedule_time: "09:00",
    schedule_timezone: "Asia/Kolkata",
  });
  await call("PUT", `/agents/${agent.id}`, { system_prompt: "Be brief." });
  return agent.id;
}

/** The value of the fixture's secret, which an upgraded database must still open. */
export const SECRET = "harbour-key-0123456789";

async function run(call: Call, agent: string, upstream: Upstream, site: Site): Promise<void> {
  const runNow = () => call("POST", `/agents/${agent}/runs`, undefined, { Prefer: "wait=30" });
  upstream.answer(
    calling("web_fetch", { url: `${site.url}/prices` }),
    calling("send_webhook", { url: `${site.url}/hook`, payload: { price: 4 } }),
    completion("The price is 4."),
  );
  await runNow();
  upstream.answer(json({ error: { message: "no such model" } }, 404));
  await runNow();
  upstream.answer(completion());
  const chat = (content: string) =>
    call("POST", `/agents/${agent}/chat`, { messages: [{ role: "user", content }], thread_id: "t1" });
  await chat("Hello.");
  await chat("And now?");
}

const ask = (fields: object = {}) => ({
  model: "lab/plain",
  messages: [{ role: "user", content: "hello" }],
  max_tokens: 20,
  ...fields,
});

function callerOf(url: string, key: string, fixed: Record<string, string> = {}): Call {
  return async (method, path, body, headers = {}) => {
    const bearer: Record<string, string> = key === "" ? {} : { Authorization: `Bearer ${key}` };
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { ...bearer, "Content-Type": "application/json", ...fixed, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text.startsWith("{") ? JSON.parse(text) : text;
  };
}
