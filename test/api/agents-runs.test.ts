import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { charges, expectCleanAudit, LAB_KEY, type Lab, settledBalance, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { type Site, startSite } from "../support/sites.ts";
import { completion, event, fetching, hanging, json } from "../support/upstream.ts";

let lab: Lab;
let site: Site;
let user: Client;

beforeAll(async () => {
  site = await startSite({ "/": { body: "<p>The door is <b>green</b>.</p>" } });
  lab = await startLab(undefined, { env: { PURSER_EGRESS_ALLOW: site.host } });
});
beforeEach(async () => {
  lab.upstream.answer(completion());
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await site.close();
});

async function create(fields: object = {}) {
  const made = await user.post("/api/v1/agents", {
    name: "Scout",
    model_id: "lab/plain",
    system_prompt: "Be brief.",
    run_prompt: "Look.",
    ...fields,
  });
  expect(made.status).toBe(201);
  return made.body;
}
const runNow = (id: string) => user.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=30" });
const withFetch = { tools_config: { web_fetch: { enabled: true } } };

describe("run-now", () => {
  test("answers 202 with the queued run and its address", async () => {
    const { id } = await create();
    const queued = await user.post(`/api/v1/agents/${id}/runs`);
    expect(queued.status).toBe(202);
    expect(queued.body).toMatchObject({
      agent_id: id,
      agent_version: 1,
      trigger: "manual",
      status: "queued",
      usage: { cost_tokens: 0 },
      error: null,
    });
    const location = queued.headers.get("location") ?? "";
    expect(location).toBe(`/api/v1/agents/${id}/runs/${queued.body.id}`);
    await expect.poll(async () => (await user.get(location)).body.status).toBe("succeeded");
  });

  test("is 403 if the agent's model is not part of the account's trial, and 202 after a top-up", async () => {
    user = await lab.service.newUser();
    const { id } = await create({ model_id: "lab/vendor/deep:v1" });
    for (const path of ["runs", "chat"]) {
      const body = path === "chat" ? { messages: [{ role: "user", content: "Look." }] } : undefined;
      const { status, body: refused } = await user.post(`/api/v1/agents/${id}/${path}`, body);
      expect([status, refused.error?.code, refused.error?.param], path).toEqual([
        ...[403, "model_not_trial_eligible"],
        "model_id",
      ]);
    }
    expect((await user.get(`/api/v1/agents/${id}/runs`)).body.runs).toEqual([]);
    await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/grants`, { amount_tokens: 1, source: "top_up" });
    expect((await runNow(id)).status).toBe(200);
  });

  test("of an agent with unusable MCP servers shows each as a failed step, tells the model, and continues", async () => {
    const servers = [
      { name: "inside", url: "http://127.0.0.1:1/mcp" },
      { name: "none", url: `${site.url}/none` },
    ];
    const { id } = await create({ tools_config: { mcp: { enabled: true, servers } }, limits: { max_steps: 1 } });
    const { body } = await runNow(id);
    expect(body).toMatchObject({ status: "succeeded", steps_count: 3, error: null });
    expect(body.steps).toMatchObject([
      { type: "tool", name: "inside", status: "failed", error: { code: "egress_refused" } },
      { type: "tool", name: "none", status: "failed", error: { code: "mcp_failed" } },
      { type: "model", status: "succeeded" },
    ]);
    const [{ role, content }, ...others] = lab.upstream.requests[0]?.body.messages ?? [{}];
    expect([role, content]).toEqual([
      "system",
      expect.stringMatching(/^Be brief\.\n\nThis run began .*\n\n.*\binside\b.*\n\n.*\bnone\b/),
    ]);
    expect(others).toEqual([{ role: "user", content: "Look." }]);
  });

  test("runs the tool loop, records each step, and charges each model call once", async () => {
    lab.upstream.answer(fetching(`${site.url}/`), completion("Green."));
    const { id } = await create(withFetch);
    const { status, body: run } = await runNow(id);
    expect(status).toBe(200);
    expect(run).toMatchObject({
      status: "succeeded",
      output: "Green.",
      model_id: "lab/plain",
      steps_count: 3,
      attempt: 1,
    });
    // Rates 1 and 2: (20 + 2 × 5) + (10 + 2 × 4).
    expect(run.usage).toEqual({ input_tokens: 30, output_tokens: 9, total_tokens: 39, cost_tokens: 48 });
    expect(run.steps.map(({ type, name, status }: Record<string, string>) => [type, name, status])).toEqual([
      ["model", "lab/plain", "succeeded"],
      ["tool", "web_fetch", "succeeded"],
      ["model", "lab/plain", "succeeded"],
    ]);
    expect(run.steps[1].arguments).toEqual({ url: `${site.url}/` });
    expect(run.steps[1].result).toContain("The door is green.");
    expect(run.steps[1].result).not.toContain("<b>");
    expect(run.steps[1].safety.verdict).toMatchObject({ injected: false });
    const second = lab.upstream.requests[1]?.body.messages;
    expect(second.map(({ role }: { role: string }) => role)).toEqual(["system", "user", "assistant", "tool"]);
    expect(second[3]).toMatchObject({ tool_call_id: "call_1", content: run.steps[1].result });
    expect((await charges(user)).map(({ amount }) => amount)).toEqual([-18, -30]);
    expect(await settledBalance(user)).toBe(1_000_000 - 48);
    expect((await user.get(`/api/v1/agents/${id}`)).body.last_run).toMatchObject({ id: run.id, status: "succeeded" });
  });

  test("a refused destination is reported to the model, and gets no request", async () => {
    lab.upstream.answer(fetching("http://169.254.169.254/latest/meta-data"), completion("It was refused."));
    const { id } = await create(withFetch);
    const { body: run } = await runNow(id);
    expect(run).toMatchObject({ status: "succeeded", output: "It was refused." });
    expect(run.steps[1]).toMatchObject({ status: "failed", error: { code: "egress_refused" } });
  });

  test("a tool that does not exist is reported to the model, also if its name cannot be stored", async () => {
    lab.upstream.answer(fetching("x", "a\u0000b"), completion("There is no such tool."));
    const { id } = await create(withFetch);
    const { body: run } = await runNow(id);
    expect(run).toMatchObject({ status: "succeeded", output: "There is no such tool." });
    expect(run.steps[1]).toMatchObject({ name: "a\ufffdb", status: "failed", error: { code: "unknown_tool" } });
  });

  test("is rejected without a prompt (400), if disabled (409) and without tokens (402), and queues nothing", async () => {
    const { id } = await create({ run_prompt: null });
    expect((await runNow(id)).body.error).toMatchObject({ code: "missing_field", param: "run_prompt" });
    await user.request("PUT", `/api/v1/agents/${id}`, { run_prompt: "Go.", is_active: false });
    const disabled = await runNow(id);
    expect([disabled.status, disabled.body.error.code]).toEqual([409, "agent_disabled"]);
    user = await lab.service.newUser({ trial: false });
    const poor = await create();
    const refused = await runNow(poor.id);
    expect([refused.status, refused.body.error.code]).toEqual([402, "out_of_tokens"]);
    expect((await user.get(`/api/v1/agents/${poor.id}/runs`)).body.runs).toEqual([]);
  });

  test("runs the agent's current version after each change, and nothing after the agent is deleted", async () => {
    const { id } = await create();
    for (const version of [1, 2, 3]) {
      if (version > 1) await user.request("PUT", `/api/v1/agents/${id}`, { run_prompt: `Look ${version}.` });
      for (const _ of [1, 2])
        expect((await runNow(id)).body).toMatchObject({ status: "succeeded", agent_version: version });
    }
    expect(lab.upstream.requests.at(-1)?.body.messages.at(-1).content).toBe("Look 3.");
    await user.request("PUT", `/api/v1/agents/${id}`, { is_active: false });
    expect((await runNow(id)).status).toBe(409);
    await user.request("PUT", `/api/v1/agents/${id}`, { is_active: true });
    expect((await runNow(id)).body).toMatchObject({ status: "succeeded", agent_version: 5 });
    await user.request("DELETE", `/api/v1/agents/${id}`);
    expect((await runNow(id)).status).toBe(404);
  });

  test("with a free model needs no tokens", async () => {
    const free = await startLab([{ id: "lab/free", input_rate: 0, output_rate: 0 }]);
    const poor = await free.service.newUser({ trial: false });
    const agent = { name: "Scout", model_id: "lab/free", run_prompt: "Go." };
    const { id } = (await poor.post("/api/v1/agents", agent)).body;
    const { body: run } = await poor.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=30" });
    expect(run).toMatchObject({ status: "succeeded", usage: { cost_tokens: 0 } });
    await free.stop();
  });

  test("with a model_id runs on that model alone, is charged at its price, and leaves the agent as it is", async () => {
    const { id, version } = await create();
    const other = "lab/vendor/deep:v1";
    const { body } = await user.post(`/api/v1/agents/${id}/runs`, { model_id: other }, { Prefer: "wait=30" });
    expect(body).toMatchObject({ status: "succeeded", model_id: other, agent_version: version });
    expect(lab.upstream.requests.at(-1)?.body.model).toBe("deep:v1");
    expect(body.usage.cost_tokens).toBeGreaterThan((await runNow(id)).body.usage.cost_tokens);
    expect((await user.get(`/api/v1/agents/${id}`)).body).toMatchObject({ version, model_id: "lab/plain" });
    const unknown = await user.post(`/api/v1/agents/${id}/runs`, { model_id: "lab/none" });
    expect([unknown.status, unknown.body.error.param]).toEqual([400, "model_id"]);
  });

  test("takes no unknown field", async () => {
    const { id } = await create();
    const refused = await user.post(`/api/v1/agents/${id}/runs`, { inputs: "x" });
    expect([refused.status, refused.body.error.code, refused.body.error.param]).toEqual([
      400,
      "unknown_field",
      "inputs",
    ]);
    expect((await user.get(`/api/v1/agents/${id}/runs`)).body.runs).toEqual([]);
  });

  test("with a key whose budget is used up is 402, and the agent's schedule continues", async () => {
    const schedule = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" };
    const { id } = await create(schedule);
    const { key } = (await user.post("/api/v1/api-keys", { name: "small", budget_tokens: 100 })).body;
    const path = `/api/v1/agents/${id}/runs`;
    // A call is held for its worst case, so with little left it is refused. The run had been queued before.
    const { body: run } = await lab.service.as(key).post(path, undefined, { Prefer: "wait=30" });
    expect(run).toMatchObject({ status: "failed", error: { code: "budget_exceeded" } });
    expect((await user.get(`/api/v1/agents/${id}`)).body.schedule_status).toBe("active");

    const spent = await user.post("/api/v1/api-keys", { name: "spent", budget_tokens: 60 });
    lab.upstream.answer(completion("x", { prompt_tokens: 60, completion_tokens: 1 }));
    await lab.service.as(spent.body.key).post("/api/v1/chat/completions", {
      model: "lab/plain",
      max_tokens: 1,
      messages: [{ role: "user", content: "x" }],
    });
    const refused = await lab.service.as(spent.body.key).post(path);
    expect([refused.status, refused.body.error.code]).toEqual([402, "key_budget_exceeded"]);
    expect(refused.body.error.metadata.remedies).toEqual(["use_another_key", "create_another_key"]);
  });

  test("waits for tokens that another call holds, and is 402 with Retry-After if all are held", async () => {
    user = await lab.service.newUser({ trial: false, tokens: 3000 });
    lab.upstream.answer(hanging(event({ choices: [] })), completion());
    const { id } = await create({ schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" });
    const caller = new AbortController();
    const call = (max_tokens: number) =>
      fetch(`${lab.service.url}/api/v1/chat/completions`, {
        method: "POST",
        headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json" },
        body: JSON.stringify({
          model: "lab/plain",
          max_tokens,
          stream: true,
          messages: [{ role: "user", content: "x" }],
        }),
        signal: caller.signal,
      }).catch(() => {});
    const holding = call(1450);
    await lab.upstream.until(() => lab.upstream.requests.length === 1);
    const { body: queued } = await user.post(`/api/v1/agents/${id}/runs`);
    const path = `/api/v1/agents/${id}/runs/${queued.id}`;
    await expect.poll(async () => (await user.get(path)).body.steps.length).toBe(1);
    expect((await user.get(path)).body.status).toBe("running");
    caller.abort();
    await holding;
    await expect.poll(async () => (await user.get(path)).body.status).toBe("succeeded");
    expect((await user.get(`/api/v1/agents/${id}`)).body).toMatchObject({
      schedule_status: "active",
      consecutive_failures: 0,
    });

    lab.upstream.answer(hanging());
    await user.post(`/api/v1/agents/${id}/runs`); // holds all remaining tokens
    await lab.upstream.until(() => lab.upstream.requests.length === 3);
    const refused = await user.post(`/api/v1/agents/${id}/runs`);
    expect([refused.status, refused.body.error.code]).toEqual([402, "in_flight_exhausted"]);
    expect(refused.headers.get("retry-after")).toBe("2");
    expect(refused.body.error.metadata.remedies).toContain("retry");
    await user.request("DELETE", `/api/v1/agents/${id}`);
  });

  test("keeps the version it started with", async () => {
    lab.upstream.answer(hanging());
    const { id } = await create();
    const { body: queued } = await user.post(`/api/v1/agents/${id}/runs`);
    await lab.upstream.until(() => lab.upstream.requests.length === 1);
    await user.request("PUT", `/api/v1/agents/${id}`, { name: "Ranger" });
    await user.post(`/api/v1/agents/${id}/runs/${queued.id}/cancel`);
    const run = (await user.get(`/api/v1/agents/${id}/runs/${queued.id}`)).body;
    expect(run.agent_version).toBe(1);
  });
});

describe("a run fails", () => {
  test("as model_unavailable when the provider fails, and costs nothing", async () => {
    lab.upstream.answer(json({ error: { message: `boom for ${LAB_KEY}` } }, 500));
    const { id } = await create();
    const { body: run } = await runNow(id);
    expect(run).toMatchObject({ status: "failed", error: { code: "model_unavailable" }, usage: { cost_tokens: 0 } });
    expect(run.error.outside).toEqual({ status: 500, text: "boom for [redacted]" });
    expect((await user.get(`/api/v1/agents/${id}`)).body.consecutive_failures).toBe(1);
    expect(await settledBalance(user)).toBe(1_000_000);
  });

  test("as max_steps when the model only calls tools", async () => {
    let page = 0;
    lab.upstream.answer((response, request) => fetching(`${site.url}/?${page++}`)(response, request));
    const { id } = await create({ ...withFetch, limits: { max_steps: 3 } });
    expect((await runNow(id)).body).toMatchObject({ status: "failed", error: { code: "max_steps" }, steps_count: 3 });
  });

  test("as timeout when it exceeds its time limit", async () => {
    lab.upstream.answer(hanging());
    const { id } = await create({ limits: { max_run_seconds: 1 } });
    expect((await runNow(id)).body).toMatchObject({ status: "failed", error: { code: "timeout" } });
  });

  test("as budget_exceeded before a call that could cost more than its cap", async () => {
    const { id } = await create({ limits: { max_cost_tokens_per_run: 100 } });
    expect((await runNow(id)).body).toMatchObject({
      status: "failed",
      error: { code: "budget_exceeded", message: expect.stringContaining("max_cost_tokens_per_run") },
      usage: { cost_tokens: 0 },
    });
    expect(lab.upstream.requests).toEqual([]);
  });
});

test("a cancelled run stops its model call at once and stays cancelled", async () => {
  lab.upstream.answer(hanging());
  const before = lab.upstream.hangUps;
  const { id } = await create();
  const { body: queued } = await user.post(`/api/v1/agents/${id}/runs`);
  await lab.upstream.until(() => lab.upstream.requests.length === 1);
  const cancelling = await user.post(`/api/v1/agents/${id}/runs/${queued.id}/cancel`);
  expect(cancelling.body.status).toBe("cancelling");
  await lab.upstream.until(() => lab.upstream.hangUps > before);
  const path = `/api/v1/agents/${id}/runs/${queued.id}`;
  await expect.poll(async () => (await user.get(path)).body.status).toBe("cancelled");
  const again = await user.post(`${path}/cancel`);
  expect([again.status, again.body.error.code]).toEqual([409, "run_already_finished"]);
});

test("deleting an agent cancels its running and queued runs; its records are 404, and the ledger keeps the ids", async () => {
  const { id } = await create();
  const path = `/api/v1/agents/${id}`;
  const done = (await runNow(id)).body;
  lab.upstream.answer(hanging());
  const before = { hang_ups: lab.upstream.hangUps, requests: lab.upstream.requests.length };
  // At most ten runs of a user execute, and one waits.
  const open = await Promise.all(Array.from({ length: 11 }, () => user.post(`${path}/runs`)));
  await lab.upstream.until(() => lab.upstream.requests.length === before.requests + 10);
  expect((await user.request("DELETE", path)).status).toBe(204);
  await lab.upstream.until(() => lab.upstream.hangUps === before.hang_ups + 10);
  expect(lab.upstream.requests).toHaveLength(before.requests + 10);
  const run = `${path}/runs/${done.id}`;
  const records = [path, run, `${path}/runs`, `${path}/occurrences`, `${path}/threads`, `${run}/events`];
  for (const record of records) expect((await user.get(record)).status, record).toBe(404);
  expect((await user.post(`${path}/runs/${open[0]?.body.id}/cancel`)).status).toBe(404);
  const usageOf = async (filter: string) =>
    (await user.get(`/api/v1/users/me/transactions?type=usage&${filter}`)).body.transactions;
  expect(await usageOf(`run_id=${done.id}`)).toMatchObject([{ amount: -18, agent_id: id, run_id: done.id }]);
  // The ten running ones pay for the input that was sent.
  await settledBalance(user);
  const charged: { amount: number }[] = await usageOf(`agent_id=${id}&limit=100`);
  expect(charged).toHaveLength(11);
  const cost_tokens = charged.reduce((sum, { amount }) => sum - amount, 0);
  expect((await user.get("/api/v1/users/me/usage")).body.agent_breakdown).toContainEqual(
    expect.objectContaining({ agent_id: id, cost_tokens }),
  );
});

test("runs are listed newest first and filtered", async () => {
  const { id } = await create();
  const first = (await runNow(id)).body;
  lab.upstream.answer(json({}, 400)); // a 400 is not retried, unlike a 5xx
  const second = (await runNow(id)).body;
  const list = async (query: string) =>
    (await user.get(`/api/v1/agents/${id}/runs${query}`)).body.runs.map((run: { id: string }) => run.id);
  expect(await list("")).toEqual([second.id, first.id]);
  expect(await list("?status=failed")).toEqual([second.id]);
  expect(await list("?trigger=chat")).toEqual([]);
  expect(await list(`?from=${second.queued_at}`)).toEqual([second.id]);
  expect((await user.get(`/api/v1/agents/${id}/runs?status=done`)).body.error.param).toBe("status");
});

test("an agent that has used up its monthly cap makes no further model call", async () => {
  const { id } = await create();
  expect((await runNow(id)).body.usage.cost_tokens).toBe(18);
  await user.request("PUT", `/api/v1/agents/${id}`, { limits: { max_cost_tokens_per_month: 18 } });
  expect((await runNow(id)).body).toMatchObject({ status: "failed", error: { code: "budget_exceeded" } });
  expect(lab.upstream.requests).toHaveLength(1);
});
