import { beforeEach, describe, expect, test } from "vitest";
import { approverOf } from "../support/approvals.ts";
import { useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { calling, completion } from "../support/upstream.ts";

// Runs that reach a limit of tokens and ask in place of failing: contract 6.10.2.

const lab = useLab(undefined, { env: { PURSER_TEST_CLOCK: "2026-03-27T08:00:00.000Z" } });
const PLENTY = 1_000_000;
let user: Client;
let approver: Omit<Client, "user_id">;
async function newUser(tokens: number): Promise<void> {
  user = await lab.service.newUser({ trial: false, tokens });
  approver = await approverOf(lab.service, user);
}
beforeEach(async () => {
  await newUser(PLENTY);
  lab.upstream.answer(completion("Done."));
});

interface Found {
  id: string;
  agent_id: string;
  status: string;
  output: string;
  required_actions: { id: string; type: string; reason: string; budget: Record<string, unknown> }[];
  // biome-ignore lint/suspicious/noExplicitAny: tests read any JSON
  [field: string]: any;
}

async function agentWith(fields: object): Promise<string> {
  const { status, body } = await user.post("/api/v1/agents", {
    name: "Clerk",
    model_id: "lab/plain",
    run_prompt: "Go.",
    on_budget: "ask",
    ...fields,
  });
  expect({ status, body }).toMatchObject({ status: 201 });
  return body.id;
}
const runOf = async ({ agent_id, id }: { agent_id: string; id: string }): Promise<Found> =>
  (await user.get(`/api/v1/agents/${agent_id}/runs/${id}`)).body;
async function become(run: Found, status: string): Promise<Found> {
  await expect.poll(async () => (await runOf(run)).status).toBe(status);
  return runOf(run);
}
/** A run of the agent that waits for tokens. */
async function waiting(agent_id: string): Promise<Found> {
  const { status, body } = await user.post(`/api/v1/agents/${agent_id}/runs`);
  expect({ status, body }).toMatchObject({ status: 202 });
  return become(body, "requires_action");
}
function decide(run: Found, decision: string, more: object = {}) {
  const path = `/api/v1/agents/${run.agent_id}/runs/${run.id}/actions/${run.required_actions[0]?.id}`;
  return approver.post(path, { decision, ...more });
}
const grant = async (amount_tokens: number) =>
  expect(
    (await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/grants`, { amount_tokens, source: "top_up" }))
      .status,
  ).toBe(201);
const setLimits = async (agent_id: string, limits: object) =>
  expect((await user.request("PUT", `/api/v1/agents/${agent_id}`, { limits })).status).toBe(200);
const advance = async (now: string) =>
  expect((await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now })).status).toBe(200);

describe("a run that reaches max_cost_tokens_per_run", () => {
  const limits = { max_cost_tokens_per_run: 200 };

  test("asks, says what it has spent and needs and what an approval adds, and holds nothing", async () => {
    const run = await waiting(await agentWith({ limits }));
    expect(run).toMatchObject({ error: null, finished_at: null, decisions: [] });
    expect(run.required_actions).toMatchObject([
      {
        type: "budget",
        step: null,
        tool: null,
        arguments: null,
        destination: null,
        untrusted_sources: [],
        spent: { tokens: 0, usd: "0" },
        budget: { limit: "run", needed_tokens: expect.any(Number), cap_tokens: 200, added_tokens: 200 },
        reason: expect.stringContaining("An approval gives this run 200 tokens more."),
      },
    ]);
    expect((await user.get("/api/v1/users/me")).body.balance).toMatchObject({ held: 0, available: PLENTY });
  });

  test("gets one more cap for each approval, asks again until it covers the call, and then succeeds", async () => {
    const first = await waiting(await agentWith({ limits }));
    expect((await decide(first, "approve")).status).toBe(200);
    const done = await become(first, "succeeded");
    expect(done).toMatchObject({ output: "Done.", usage: { cost_tokens: 18 }, required_actions: [] });
    expect(done.decisions).toMatchObject([
      { type: "budget", decision: "approved", decided_by: { type: "api_key" }, budget: { cap_tokens: 200 } },
    ]);
    const later = await waiting(first.agent_id);
    expect(later.required_actions).toMatchObject([{ budget: { cap_tokens: 200 } }]);

    const small = await waiting(await agentWith({ limits: { max_cost_tokens_per_run: 100 } }));
    await decide(small, "approve");
    await expect.poll(async () => (await runOf(small)).required_actions[0]?.id).not.toBe(small.required_actions[0]?.id);
    const again = await become(small, "requires_action");
    expect(again.required_actions).toMatchObject([{ budget: { cap_tokens: 200, added_tokens: 100 } }]);
    await decide(again, "approve");
    expect((await become(again, "succeeded")).decisions).toHaveLength(2);
  });

  test("keeps its finished steps, so that no model call is made twice", async () => {
    const tools_config = { web_fetch: { enabled: true } };
    const asked = await waiting(await agentWith({ tools_config, limits }));
    const { needed_tokens } = asked.required_actions[0]?.budget ?? {};
    // It covers the first call, but not the second one, whose prompt is longer.
    const agent = await agentWith({ tools_config, limits: { max_cost_tokens_per_run: needed_tokens } });
    lab.upstream.answer(calling("web_fetch", { url: "http://nowhere.invalid/" }), completion("Done."));
    const before = lab.upstream.requests.length;
    const run = await waiting(agent);
    expect(run).toMatchObject({ steps: [{ type: "model" }, { type: "tool" }, {}], usage: { cost_tokens: 30 } });
    expect(run.required_actions).toMatchObject([{ spent: { tokens: 30 } }]);
    await decide(run, "approve");
    expect(await become(run, "succeeded")).toMatchObject({ usage: { cost_tokens: 48 }, steps_count: 3 });
    expect(lab.upstream.requests.length - before).toBe(2);
  });

  test.each([
    [
      "is rejected",
      async (run: Found) => expect((await decide(run, "reject", { reason: "Enough." })).status).toBe(200),
      "rejected",
    ],
    ["expires", () => advance("2026-03-28T09:00:00.000Z"), "expired"],
  ])("fails with the error that it would have had, if it %s", async (_how, end, decision) => {
    const run = await waiting(await agentWith({ limits }));
    await end(run);
    expect(await become(run, "failed")).toMatchObject({
      error: { code: "budget_exceeded", message: expect.stringContaining("max_cost_tokens_per_run") },
      decisions: [{ decision }],
      required_actions: [],
      usage: { cost_tokens: 0 },
    });
  });

  test("goes on at once when its owner raises or removes the limit, with the raised one, and another agent's run waits on", async () => {
    const other = await waiting(await agentWith({ limits }));
    for (const raised of [1_000, null]) {
      const run = await waiting(await agentWith({ limits }));
      await setLimits(run.agent_id, { max_cost_tokens_per_run: raised });
      const done = await become(run, "succeeded");
      expect(done.decisions).toMatchObject([
        { decision: "approved", decided_by: null, reason_given: "max_cost_tokens_per_run was raised." },
      ]);
    }
    const lowered = await waiting(await agentWith({ limits }));
    await setLimits(lowered.agent_id, { max_cost_tokens_per_run: 199, max_steps: 3 });
    await grant(5);
    expect((await runOf(lowered)).status).toBe("requires_action");
    expect((await runOf(other)).status).toBe("requires_action");
  });

  test("cannot be edited, and is cancelled like every run", async () => {
    const run = await waiting(await agentWith({ limits }));
    expect(await decide(run, "edit", { arguments: {} })).toMatchObject({ status: 400 });
    expect((await user.post(`/api/v1/agents/${run.agent_id}/runs/${run.id}/cancel`)).body.status).toBe("cancelled");
    expect((await decide(run, "approve")).status).toBe(409);
  });

  test("fails as before, if its agent does not ask, and in a chat, whose caller decides", async () => {
    const silent = await agentWith({ limits, on_budget: "fail" });
    const { body } = await user.post(`/api/v1/agents/${silent}/runs`, undefined, { Prefer: "wait=30" });
    expect(body).toMatchObject({ status: "failed", error: { code: "budget_exceeded" }, decisions: [] });
    const chat = await user.post(`/api/v1/agents/${await agentWith({ limits: { max_cost_tokens_per_run: 1 } })}/chat`, {
      messages: [{ role: "user", content: "Hello" }],
    });
    expect(chat).toMatchObject({ status: 409, body: { error: { code: "budget_exceeded" } } });
  });
});

describe("a run that the balance does not cover", () => {
  beforeEach(async () => {
    await newUser(100);
  });

  test("waits, cannot be approved without tokens, and goes on with any grant", async () => {
    const run = await waiting(await agentWith({}));
    expect(run.required_actions).toMatchObject([
      { budget: { limit: "balance", needed_tokens: expect.any(Number), cap_tokens: null, added_tokens: null } },
    ]);
    const refused = await decide(run, "approve");
    expect(refused).toMatchObject({ status: 409, body: { error: { code: "tokens_missing" } } });
    expect(refused.body.error.message).toContain("Top up");
    expect((await user.get("/api/v1/users/me")).body.balance).toMatchObject({ held: 0, available: 100 });
    await grant(1_000);
    expect(await become(run, "succeeded")).toMatchObject({
      decisions: [{ decision: "approved", decided_by: null, reason_given: "The account got tokens." }],
    });
  });

  test("asks again after a grant that is too small", async () => {
    const run = await waiting(await agentWith({}));
    await grant(5);
    await expect.poll(async () => (await runOf(run)).decisions.length).toBe(1);
    const again = await become(run, "requires_action");
    await decide(again, "reject");
    expect(await become(run, "failed")).toMatchObject({ error: { code: "insufficient_tokens" } });
  });

  test("does not pause its schedule, whose next instant is skipped while it waits", async () => {
    const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00", approval_hours: 100 };
    const agent = await agentWith(daily);
    const { now } = (await lab.service.admin.get("/api/v1/admin/clock")).body;
    await advance(new Date(Date.parse(now) + 2 * 86_400_000).toISOString());
    expect((await user.get(`/api/v1/agents/${agent}`)).body).toMatchObject({ schedule_status: "active" });
    const { occurrences } = (await user.get(`/api/v1/agents/${agent}/occurrences`)).body;
    expect(occurrences.map(({ state }: { state: string }) => state)).toEqual(["skipped", "run"]);
    await grant(1_000);
    const { runs } = (await user.get(`/api/v1/agents/${agent}/runs`)).body;
    await become(runs[0], "succeeded");
  });
});

describe("a run that reaches max_cost_tokens_per_month", () => {
  const limits = { max_cost_tokens_per_month: 100 };

  test("cannot be approved, and goes on when its owner raises the limit", async () => {
    const run = await waiting(await agentWith({ limits }));
    expect(run.required_actions).toMatchObject([{ budget: { limit: "month", cap_tokens: 100, added_tokens: null } }]);
    const refused = await decide(run, "approve");
    expect(refused).toMatchObject({ status: 409, body: { error: { code: "tokens_missing" } } });
    expect(refused.body.error.message).toContain("max_cost_tokens_per_month");
    await setLimits(run.agent_id, { max_cost_tokens_per_month: 10_000 });
    expect((await become(run, "succeeded")).decisions).toMatchObject([{ decision: "approved", decided_by: null }]);
  });

  test("goes on when the next month begins", async () => {
    const agent = await agentWith({ limits, approval_hours: 1_000 });
    const first = await waiting(agent);
    // It covers one call, which then has spent a part of it.
    await setLimits(agent, { max_cost_tokens_per_month: first.required_actions[0]?.budget.needed_tokens });
    await become(first, "succeeded");
    const run = await waiting(agent);
    await advance("2026-04-01T00:00:00.000Z");
    expect((await become(run, "succeeded")).decisions).toMatchObject([{ reason_given: "A new month began." }]);
  });
});
