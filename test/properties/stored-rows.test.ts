import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createBillingAccountsStore } from "../../src/account/billing/accounts.store.ts";
import { createAutoTopupStore } from "../../src/account/billing/auto-topup.store.ts";
import { createPaymentsStore, type PaymentRow } from "../../src/account/billing/payments.store.ts";
import type { Plan } from "../../src/account/billing/plan.ts";
import { createSubscriptionsStore, type SubscriptionRow } from "../../src/account/billing/subscriptions.store.ts";
import { createNoticesStore } from "../../src/account/notices/notices.store.ts";
import { type ApiKeyRow, createAccountsStore } from "../../src/account/users/accounts.store.ts";
import { type AgentRow, createAgentsStore } from "../../src/agents/definitions/agents.store.ts";
import type { ScheduleRow } from "../../src/agents/schedules/schedule.store.ts";
import * as scheduleStore from "../../src/agents/schedules/schedule.store.ts";
import { createTriggerStore, type TriggerRow } from "../../src/agents/triggers/triggers.store.ts";
import { createOperatorKeysStore, type OperatorKeyRow } from "../../src/operator/operator-keys.store.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

// No compiler reads SQL. A column that a list of columns lacks, or a value that a storage writes otherwise, fails here.

const T1 = "2026-11-20T09:30:00.000Z";
const T2 = "2026-11-21T09:30:00.123Z";
const hash = (byte: number) => new Uint8Array(32).fill(byte);
const plan = (id: string): Plan => ({
  id,
  name: "Pro",
  price_cents: 2_000,
  currency: "usd",
  interval: "month",
  included_tokens: 9,
  rollover_months: 3,
});
/** Buffers and arrays of bytes are equal here. */
const withBytes = <Row extends { key_hash: Uint8Array; previous_key_hash: Uint8Array | null }>(row: Row) => ({
  ...row,
  key_hash: [...row.key_hash],
  previous_key_hash: [...(row.previous_key_hash ?? [])],
});

let database: TestDatabase;
let db: Db;
const user_id = newId();
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  const user = { id: user_id, email: "ada@example.com", created_at: T1 };
  const inserted = await db.transaction((tx) => createAccountsStore(db).insertUser(tx, user));
  expect(inserted).toEqual({ ...user, suspended_at: null, erased_at: null, limits: null, operator_role: null });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

describe("a stored row is read as it was written", () => {
  it("an API key, whose terms change only while they are as they were read", async () => {
    const store = createAccountsStore(db);
    const key: ApiKeyRow = {
      id: newId(),
      user_id,
      name: "first",
      key_hash: hash(1),
      previous_key_hash: hash(2),
      previous_valid_until: T1,
      prefix: "pk",
      last_four: "1234",
      scopes: ["chat:write"],
      budget_tokens: 9_007_199_254_740_991,
      budget_interval: "day",
      allowed_models: ["one", 'two "quoted", {braced}'],
      limits: { requests_per_minute: 3 },
      created_at: T1,
      expires_at: T2,
      last_used_at: T2,
      revoked_at: null,
    };
    const read = (row: ApiKeyRow | undefined) => row && withBytes(row);
    await store.insertKey(db, key);
    expect(read(await store.key(user_id, key.id))).toEqual(withBytes(key));
    const none = { budget_tokens: null, budget_interval: null, allowed_models: null, limits: null, expires_at: null };
    const set = { ...none, name: "second" };
    await db.transaction(async (tx) => {
      expect(read(await store.updateKey(tx, key, set))).toEqual({ ...withBytes(key), ...set });
      expect(await store.updateKey(tx, key, set)).toBeUndefined();
    });
  });

  it("an operator key", async () => {
    const store = createOperatorKeysStore(db);
    const key: OperatorKeyRow = {
      id: newId(),
      name: "ops",
      role: "read",
      key_hash: Buffer.from(hash(3)),
      previous_key_hash: Buffer.from(hash(4)),
      previous_valid_until: T1,
      last_four: "1234",
      created_at: T1,
      expires_at: T2,
      last_used_at: T2,
      revoked_at: T2,
    };
    await db.transaction((tx) => store.insert(tx, key));
    const keys = await store.list({ limit: 1, before_id: null });
    expect(keys.map(withBytes)).toEqual([withBytes(key)]);
    expect(await store.list({ limit: 1, before_id: key.id })).toEqual([]);
  });

  it("an agent, also after a change of all its columns", async () => {
    const store = createAgentsStore(db);
    const agent: AgentRow = {
      user_id,
      id: newId(),
      version: 1,
      name: "Scout",
      description: "Looks.",
      system_prompt: "You look.",
      run_prompt: "Look.",
      model_id: "lab/plain",
      auto_route: false,
      is_active: true,
      tools_config: { now: { enabled: true, max_calls: 2 } } as AgentRow["tools_config"],
      client_tools: "pass",
      approval_hours: 3,
      on_budget: "ask",
      input_schema: { type: "object" },
      output_schema: { type: "object", properties: { a: { type: "string" } } },
      deliveries: [{ to: "https://a.example/", on: ["failed"], unless: "unchanged" }],
      limits: { max_steps: 7 } as unknown as AgentRow["limits"],
      model_settings: { temperature: 0.5 } as AgentRow["model_settings"],
      created_at: T1,
      updated_at: T2,
      deleted_at: null,
    };
    await db.transaction((tx) => store.insertAgent(tx, agent));
    expect(await store.agents(user_id, [agent.id])).toEqual([agent]);
    const changed = { ...agent, version: 2, description: null, client_tools: "ignore" as const };
    await db.transaction((tx) => store.updateAgent(tx, changed));
    expect(await store.agent(user_id, agent.id)).toEqual(changed);
  });

  it("a schedule, also after a change of all its columns", async () => {
    const schedule: ScheduleRow = {
      user_id,
      id: newId(),
      agent_id: newId(),
      name: "mornings",
      spec: { interval: "weekly", times: ["08:30"], days_of_week: ["monday"], timezone: "UTC", starts_at: T1 },
      enabled: true,
      next_run_at: T2,
      paused_reason: "out of tokens",
      paused_at: T1,
      resume_above: 3,
      api_key_id: newId(),
      consecutive_failures: 2,
      created_at: T1,
      updated_at: T2,
      input: { city: "Pune" },
      run_prompt: "Look.",
      deliveries: [{ to: "https://a.example/", on: ["failed"], unless: null }],
    };
    const key = { user_id, agent_id: schedule.agent_id };
    expect(await db.transaction((tx) => scheduleStore.insertSchedule(tx, schedule))).toBe(true);
    const { input, run_prompt, deliveries, ...state } = schedule;
    expect(await scheduleStore.selectOfAgents(db, user_id, [schedule.agent_id])).toEqual([state]);
    expect(await scheduleStore.selectPage(db, key, { limit: 5, after_id: null })).toEqual([schedule]);
    const off = { enabled: false, next_run_at: null, paused_reason: null, paused_at: null, resume_above: null };
    const changed = { ...schedule, ...off, api_key_id: null, input: null, run_prompt: null, consecutive_failures: 0 };
    await db.transaction((tx) => scheduleStore.updateSchedule(tx, changed));
    expect(await scheduleStore.selectSchedule(db, schedule)).toEqual(changed);
  });

  it("a webhook endpoint, whose secret is replaced", async () => {
    const store = createNoticesStore(db);
    const endpoint = { user_id, id: newId(), url: "https://example.com/hook", events: ["run.failed" as const] };
    const inserted = { ...endpoint, secret: Buffer.from([1, 2]), created_at: T1 };
    const read = async () => {
      const row = await store.endpoint(user_id, endpoint.id);
      return row && { ...row, secret: [...row.secret] };
    };
    await db.transaction((tx) => store.insertEndpoint(tx, inserted));
    const row = { ...inserted, secret: [1, 2], former_secrets: [], disabled_at: null };
    expect(await read()).toEqual(row);
    const former_secrets = [
      { secret: "AQI=", until: T2 },
      { secret: "Aw==", until: T1 },
    ];
    await db.transaction((tx) => store.replaceSecret(tx, { ...endpoint, secret: Buffer.from([5]), former_secrets }));
    expect(await read()).toEqual({ ...row, secret: [5], former_secrets });
  });

  it("a trigger and its deliveries, which are kept for a time", async () => {
    const store = createTriggerStore(db);
    const row: TriggerRow = {
      user_id,
      id: newId(),
      agent_id: newId(),
      name: "issues",
      verify: { type: "hmac_sha256", header: "X-Sum", prefix: "sha256=", encoding: "base64" },
      secret: Buffer.from([1, 2]),
      former_secrets: [
        { secret: "Aw==", until: T2 },
        { secret: "BA==", until: T1 },
      ],
      filter: { action: ["opened", 1, null] },
      input_map: { title: "issue.title" },
      run_prompt: "Look.",
      enabled: true,
      api_key_id: newId(),
      rejected_count: 0,
      last_rejected_at: null,
      last_rejected_reason: null,
      created_at: T1,
      updated_at: T2,
    };
    const shown = (found: TriggerRow | undefined) => found && { ...found, secret: [...found.secret] };
    expect(await db.transaction((tx) => store.insert(tx, row))).toBe(true);
    expect(await db.transaction((tx) => store.insert(tx, { ...row, id: newId() }))).toBe(false);
    expect(shown(await store.ofAddress(row.id))).toEqual(shown(row));
    expect((await store.list(row, { limit: 5, after_id: null })).map(shown)).toEqual([shown(row)]);
    const off = { filter: null, input_map: null, former_secrets: [], run_prompt: null };
    const changed: TriggerRow = { ...row, ...off, verify: "github", enabled: false, api_key_id: null };
    await db.transaction((tx) => store.update(tx, changed));
    await store.countRejected(row, { reason: "The signature does not match.", now: T2 });
    const rejected = { rejected_count: 1, last_rejected_at: T2, last_rejected_reason: "The signature does not match." };
    expect(shown(await store.find(row))).toEqual(shown({ ...changed, ...rejected }));

    const delivery = {
      user_id,
      id: newId(),
      trigger_id: row.id,
      delivery_id: "72d3162e",
      key: "id:72d3162e",
      resent_from: newId(),
      received_at: T1,
      outcome: "failed" as const,
      run_id: null,
      error: { code: "agent_disabled", message: "It is off." },
      content: { value: { n: 1 }, headers: { "x-github-event": "push" } },
      bytes: 7,
    };
    const write = (given: typeof delivery) => db.transaction((tx) => store.write(tx, given, T1));
    expect(await write(delivery)).toBe(delivery.id);
    expect(await store.delivery(delivery)).toEqual({ ...delivery, attempts: 1 });
    // A failed one is written over, under its id.
    const run_id = newId();
    const started = { ...delivery, id: newId(), outcome: "run" as const, run_id, error: null, received_at: T2 };
    expect(await db.transaction((tx) => store.write(tx, started, T1))).toBe(delivery.id);
    expect(await db.transaction((tx) => store.write(tx, started, T1))).toBeUndefined();
    expect(await store.delivery(delivery)).toMatchObject({ outcome: "run", run_id, error: null, attempts: 2 });
    await store.sweep(T2);
    expect(await store.delivery(delivery)).toBeDefined();
    await store.sweep("2026-11-22T00:00:00.000Z");
    expect(await store.delivery(delivery)).toBeUndefined();
  });

  it("a subscription", async () => {
    const store = createSubscriptionsStore(db);
    const about = { user_id, id: newId(), provider: "sandbox" as const, plan: plan("one"), created_at: T1 };
    const row = await db.transaction((tx) => store.insert(tx, about, 60));
    expect(row).toMatchObject({ ...about, status: "incomplete", periods: 0, opening_until: expect.any(String) });
    const full: SubscriptionRow = {
      ...about,
      reference: "sub",
      checkout_reference: "cs",
      checkout_url: "https://example.com",
      opening_until: null,
      status: "active",
      pending_plan: plan("two"),
      anchor: T1,
      periods: 1,
      current_period_start: T1,
      current_period_end: T2,
      cancel_at_period_end: true,
      end_at_provider: true,
    };
    expect(await store.update(db, row, full)).toEqual(full);
    expect(await store.toEndAtProvider(1)).toEqual([full]);
    const due = { user_id, id: row.id, current_period_end: T2 };
    expect(await store.due(T2, null)).toEqual(due);
    expect(await store.due(T2, due)).toBeUndefined();
    await store.setEndedAtProvider({ ...full, reference: "another" });
    expect((await store.current(user_id))?.end_at_provider).toBe(true);
    await store.setEndedAtProvider(full);
    expect((await store.current(user_id))?.end_at_provider).toBe(false);
  });

  it("a payment, in the lists of its state only", async () => {
    const store = createPaymentsStore(db);
    const about = { user_id, purpose: "top_up" as const, provider: "sandbox" as const };
    const price = { amount_cents: 500, currency: "usd", tokens: 3_125_000, created_at: T1 };
    const id = newId();
    const row = await store.insert(db, { ...about, ...price, id }, null);
    expect(row).toMatchObject({ status: "pending", plan: null, automatic: false, send_at: null, paid_cents: 0 });
    const full: PaymentRow = {
      ...about,
      ...price,
      id,
      subscription_id: null,
      period_start: null,
      plan: null,
      mismatch_cents: null,
      mismatch_currency: null,
      undoes_cancellation: false,
      status: "succeeded",
      reference: "pi",
      checkout_url: "https://example.com",
      bucket_id: newId(),
      paid_cents: 500,
      refunded_cents: 200,
      refund_failed_cents: 100,
      clawed_back_tokens: 5,
      automatic: true,
      send_at: T2,
    };
    expect(await store.update(db, row, full)).toEqual(full);
    await store.setAccepted(full, { checkout_url: null, events: [] });
    expect(await store.byId(row.id)).toEqual({ ...full, checkout_url: null, send_at: null });
    const page = { limit: 1, before_id: null };
    expect(await store.purchases({ status: "succeeded" }, page)).toHaveLength(1);
    for (const state of ["pending", "failed", "refunded", "mismatch"] as const)
      expect(await store.purchases({ status: state }, page)).toEqual([]);
    expect(await store.purchases({}, { limit: 1, before_id: row.id })).toEqual([]);
    expect(await store.invoices({ user_id, status: "pending" }, { limit: 1, before_id: row.id })).toEqual([]);
  });

  it("an upgrade with its plan, which is sent after its time", async () => {
    const store = createPaymentsStore(db);
    const about = { user_id, id: newId(), purpose: "upgrade" as const, provider: "stripe" as const };
    const price = { amount_cents: 500, currency: "usd", tokens: 0, created_at: T1 };
    const order = { subscription_id: newId(), plan: plan("two"), undoes_cancellation: true };
    expect(await store.insert(db, { ...about, ...price, ...order }, 0)).toMatchObject({ ...about, ...price, ...order });
    const claimed = await store.claimUnsent({ limit: 5, retry_seconds: 60 });
    expect(claimed).toMatchObject([{ ...about, plan: order.plan }]);
  });

  it("a dispute, which stays closed when an event arrives late", async () => {
    const store = createPaymentsStore(db);
    const payment = { user_id, id: newId() };
    const dispute = { provider: "stripe", reference: "dp", user_id, payment_id: payment.id, disputed_cents: 500 };
    const cents: number[] = [];
    for (const state of ["open", "lost", "open", "won", "lost"] as const) {
      await db.transaction(async (tx) => {
        await store.upsertDispute(tx, { ...dispute, state });
        cents.push(await store.disputedCents(tx, payment));
      });
    }
    expect(cents).toEqual([500, 500, 500, 0, 0]);
  });

  it("an event of a provider, once", async () => {
    const store = createPaymentsStore(db);
    const event = { provider: "stripe", event_id: "evt", kind: "failed", payment_id: newId() } as const;
    const row = { provider: "stripe", event_id: "evt", kind: "failed", reference: "pi_late", event, received_at: T1 };
    const insert = () => db.transaction((tx) => store.insertEvent(tx, { ...row, outcome: "waiting" }));
    expect([await insert(), await insert()]).toEqual([true, false]);
    const price = { amount_cents: 500, currency: "usd", tokens: 1, created_at: T1 };
    const about = { user_id, id: newId(), purpose: "top_up", provider: "stripe" } as const;
    const payment = await store.insert(db, { ...about, ...price }, null);
    expect(await store.waitingEvents(5)).toEqual([]);
    await store.update(db, payment, { reference: "pi_late" });
    expect(await store.waitingEvents(5)).toEqual([event]);
  });

  it("a billing account and the settings of automatic top-ups", async () => {
    const accounts = createBillingAccountsStore(db);
    const locked = await db.transaction((tx) => accounts.lock(tx, user_id));
    const set = { customer_provider: "stripe", customer_reference: "cus", overage_enabled: true };
    const amounts = { overage_cap_tokens: 7, overage_invoiced_cents: 8 };
    await db.transaction((tx) => accounts.update(tx, user_id, { ...set, ...amounts }));
    expect(await accounts.find(user_id)).toEqual({ ...locked, ...set, ...amounts });
    const topups = createAutoTopupStore(db);
    const row = { user_id, enabled: true, threshold_tokens: 1, amount_cents: 500, monthly_cap_cents: 1_000 };
    const running = { ...row, paused_reason: null, paused_at: null };
    const paused = { paused_reason: "payment_declined" as const, paused_at: T2 };
    await db.transaction(async (tx) => {
      await topups.upsert(tx, { ...running, ...paused });
      await topups.upsert(tx, running);
    });
    expect(await topups.atWork({ after: null, limit: 1 })).toEqual([running]);
    expect(await topups.atWork({ after: user_id, limit: 1 })).toEqual([]);
    const pause = () => db.transaction((tx) => topups.pause(tx, user_id, paused));
    expect([await pause(), await pause()]).toEqual([true, false]);
    expect(await topups.find(user_id)).toEqual({ ...row, ...paused });
  });
});
