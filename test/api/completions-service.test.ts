import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { createLedger } from "../../src/account/ledger/ledger.service.ts";
import type { Ledger } from "../../src/account/ledger/ledger.types.ts";
import { createCompletions } from "../../src/gateway/completions/completions.service.ts";
import type { CompletionCall, Completions } from "../../src/gateway/completions/completions.types.ts";
import { createModels } from "../../src/gateway/models/models.service.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { addDays, createSystemClock } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { applyWithHooks } from "../properties/ledger-fixture.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { completion, delta, hanging, startUpstream, type Upstream } from "../support/upstream.ts";

// Behaviour that the routes do not show: model calls by an agent's run.

let database: TestDatabase;
let db: Db;
let ledger: Ledger;
let upstream: Upstream;
let completions: Completions;
let user_id: string;

beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  await db.query({
    text: `create function hook_of_test(jsonb) returns jsonb language sql as $$
      select jsonb_agg(jsonb_build_object('done', (argument->>'agrees')::boolean)) from jsonb_array_elements($1) as argument
    $$`,
  });
  upstream = await startUpstream();
  ledger = createLedger({ db, clock: createSystemClock(), with_hooks: applyWithHooks("hook_of_test") });
  const provider = { name: "lab", kind: "openai-compatible" as const, base_url: upstream.url, api_key_env: null };
  const model = {
    id: "lab/small",
    provider: "lab",
    provider_model: "fake-large",
    routes: [],
    name: "Lab small",
    trial_eligible: true,
    context_window: 128_000,
    max_output_tokens: 4_096,
    supports: { tools: true, streaming: true, json_schema: false, vision: false, files: false, audio: false },
    part_tokens: { image: null, file: null, audio: null },
    forward: [],
    input_rate_micro: 250_000,
    output_rate_micro: 1_250_000,
    cached_input_rate_micro: null,
    cache_write_rate_micro: null,
    cache_write_1h_rate_micro: null,
    tiers: [],
    prices: [],
    upstream: {
      input_rate_micro: 2_000_000,
      cached_input_rate_micro: 200_000,
      output_rate_micro: 10_000_000,
      cache_write_rate_micro: 2_500_000,
      cache_write_1h_rate_micro: null,
      tiers: [],
    },
    tier: null,
    model_kind: "chat" as const,
  };
  const config = {
    providers: [provider],
    models: [model, { ...model, id: "lab/unpriced", upstream: null }],
    margin: 1,
    provider_keys: {},
  };
  const meansOf = async () => ({ may_subscribe: true, overage: "never" as const });
  completions = createCompletions({
    models: createModels({ config }),
    ledger,
    meansOf,
    fallbackAfterSeconds: () => 60,
  });
});
afterAll(async () => {
  await upstream.close();
  await db.close();
  await database.drop();
});
beforeEach(async () => {
  user_id = newId();
  const now = createSystemClock().now();
  await db.transaction((tx) => ledger.openAccount(tx, { user_id, trial: null }));
  const lasting = { granted_at: now, expires_at: addDays(now, 30), note: null };
  await ledger.grant({ user_id, amount_tokens: 100_000, source: "top_up", ...lasting });
  upstream.requests.length = 0;
  upstream.answer(completion());
});

const callOf = (fields: Partial<CompletionCall> = {}): CompletionCall => ({
  request: { model: "lab/small", messages: [{ role: "user", content: "hello" }] },
  caller: { user_id, api_key_id: null, key_budget_tokens: null },
  agent_id: null,
  run_id: null,
  hold_id: newId(),
  request_id: "request-of-test",
  signal: new AbortController().signal,
  ...fields,
});
const hookOf = (agrees: boolean) => () => ({ kind: "hook", argument: { agrees } });

it("a hook is made from the answer and its cost, and commits with the settle", async () => {
  let seen: unknown;
  const hook: NonNullable<CompletionCall["hook"]> = (answer) => {
    seen = { text: answer.response?.choices[0]?.message.content, cost: answer.usage.cost_tokens };
    return hookOf(true)();
  };
  const { settlement } = await completions.complete(callOf({ hook }));
  expect(settlement).toBe("settled");
  expect(seen).toEqual({ text: "hello from upstream", cost: 8 });
  expect(await ledger.accountStatus(user_id)).toMatchObject({ posted: 100_000 - 8, held: 0 });
});

it("each usage event has the operator's cost by the provider's prices, or null if they are unknown", async () => {
  const details = { prompt_tokens_details: { cached_tokens: 600, cache_write_tokens: 300 } };
  upstream.answer(completion("x", { prompt_tokens: 1_000, completion_tokens: 10, ...details }));
  const [known, unknown] = [newId(), newId()];
  await completions.complete(callOf({ hold_id: known }));
  const request = { ...callOf().request, model: "lab/unpriced" };
  await completions.complete(callOf({ hold_id: unknown, request }));
  const costs = await db.query({
    text: "select hold_id, cost, upstream_cost_micro_usd from usage_event where user_id = $1 order by hold_id",
    values: [user_id],
  });
  // 100 × $2 + 600 × $0.20 + 300 × $2.50 + 10 × $10 a million; flat, each token of input is billed at a quarter.
  expect(costs).toEqual([
    { hold_id: known, cost: 263, upstream_cost_micro_usd: 1_170 },
    { hold_id: unknown, cost: 263, upstream_cost_micro_usd: null },
  ]);
  const [day] = await db.query({
    text: "select cache_write_tokens, upstream_cost_micro_usd from usage_daily where user_id = $1 and model = 'lab/small'",
    values: [user_id],
  });
  expect(day).toEqual({ cache_write_tokens: 300, upstream_cost_micro_usd: 1_170 });
  expect(await ledger.audit()).toMatchObject({ ok: true });
});

it("a hook that refuses leaves nothing charged, and the error says so", async () => {
  expect((await completions.complete(callOf({ hook: hookOf(false) }))).settlement).toBe("superseded");
  const stream = await completions.stream(callOf({ hook: hookOf(false) }));
  for await (const _ of stream);
  expect(stream.outcome()?.settlement).toBe("superseded");
  expect(await ledger.accountStatus(user_id)).toMatchObject({ posted: 100_000, held: 0 });
});

it("a cost limit lowers the output cap, and refuses a call that it does not cover", async () => {
  await completions.complete(callOf({ max_cost_tokens: 1_000 }));
  expect(upstream.requests[0]?.body.max_tokens * 1.25).toBeLessThanOrEqual(1_000);
  await expect(completions.complete(callOf({ max_cost_tokens: 10 }))).rejects.toMatchObject({
    code: "budget_exceeded",
  });
  expect(upstream.requests).toHaveLength(1);
});

it("one hold charges once", async () => {
  const hold_id = newId();
  await completions.complete(callOf({ hold_id }));
  await completions.complete(callOf({ hold_id }));
  expect(await ledger.accountStatus(user_id)).toMatchObject({ posted: 100_000 - 8, held: 0 });
});

it("an unread stream is settled when its signal is aborted, and idle() waits for that", async () => {
  upstream.answer(hanging(delta("12345678")));
  const leaving = new AbortController();
  const stream = await completions.stream(callOf({ signal: leaving.signal }));
  leaving.abort();
  await completions.idle();
  // ceil(5 / 4) × 0.25 + 2 × 1.25
  expect(stream.outcome()?.usage).toMatchObject({ cost_tokens: 3, estimated: true });
  expect(await ledger.accountStatus(user_id)).toMatchObject({ posted: 100_000 - 3, held: 0 });
  expect(await stream.next()).toEqual({ done: true, value: undefined });
});

it("a stream that its reader cancels is settled before the cancellation returns", async () => {
  upstream.answer(hanging(delta("12345678")));
  for await (const _ of await completions.stream(callOf())) break;
  expect(await ledger.accountStatus(user_id)).toMatchObject({ posted: 100_000 - 3, held: 0 });
});
