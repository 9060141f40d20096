import { randomUUID } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import { expectCleanAudit, useLab } from "../support/lab.ts";
import { runSql } from "../support/postgres-server.ts";
import type { Client } from "../support/service.ts";
import { completion, hanging, json } from "../support/upstream.ts";

// Lists of runs and occurrences, and waiting for a run: contract 2 and 6.

let user: Client;
let agent: string;

const lab = useLab(undefined, { env: { PURSER_TEST_CLOCK: "2026-03-01T00:00:00Z" } });
beforeEach(async () => {
  lab.upstream.answer(completion());
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const fields = { name: "Scout", model_id: "lab/plain", run_prompt: "Go.", schedule_enabled: true };
  const daily = { schedule_interval: "daily", schedule_time: "09:00" };
  agent = `/api/v1/agents/${(await user.post("/api/v1/agents", { ...fields, ...daily })).body.id}`;
});

const runNow = (wait_s: number) => user.post(`${agent}/runs`, undefined, { Prefer: `wait=${wait_s}` });
const setClock = (now: string) => lab.service.admin.request("PUT", "/api/v1/admin/clock", { now });

test("occurrences and runs of two days are listed page by page, newest first, and filtered", async () => {
  await setClock("2026-03-03T12:00:00Z");
  const manual = (await runNow(30)).body;
  const listAll = async (list: "runs" | "occurrences", query = "") => {
    const seen: { id?: string; at?: string; trigger?: string }[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const { body } = await user.get(`${agent}/${list}?limit=2${query}${cursor === "" ? "" : `&cursor=${cursor}`}`);
      seen.push(...body[list]);
      cursor = body.next_cursor;
    }
    return seen;
  };
  const days = ["2026-03-03T09:00:00.000Z", "2026-03-02T09:00:00.000Z", "2026-03-01T09:00:00.000Z"];
  expect((await listAll("occurrences")).map(({ at }) => at)).toEqual(days);
  for (const occurrence of (await user.get(`${agent}/occurrences`)).body.occurrences) {
    expect(occurrence).toMatchObject({ scheduled_for: occurrence.at, status: occurrence.state });
  }
  const all = await listAll("runs");
  expect(all.map(({ trigger }) => trigger)).toEqual(["manual", "schedule", "schedule", "schedule"]);
  const ids = all.map(({ id }) => id);
  expect(await listAll("runs", "&trigger=manual")).toMatchObject([{ id: manual.id }]);
  expect((await listAll("runs", "&trigger=schedule&status=succeeded")).map(({ id }) => id)).toEqual(ids.slice(1));
  // `from` is inclusive, `to` is not.
  expect((await listAll("runs", `&from=${days[1]}&to=${days[0]}`)).map(({ id }) => id)).toEqual([ids[2]]);
  // A date means its start in UTC.
  expect((await listAll("runs", "&trigger=schedule&from=2026-03-02&to=2026-03-03")).map(({ id }) => id)).toEqual([
    ids[2],
  ]);
  const { transactions } = (await user.get("/api/v1/users/me/transactions?from=2026-03-02&to=2026-03-03")).body;
  expect(transactions.map(({ run_id }: { run_id: string }) => run_id)).toEqual([ids[2]]);
  for (const run of all) {
    expect(run).not.toHaveProperty("output");
    expect(run).not.toHaveProperty("steps");
  }
  for (const list of ["runs", "occurrences", "threads"]) {
    expect((await user.get(`${agent}/${list}?cursor=nonsense`)).body.error.code).toBe("invalid_cursor");
    expect((await user.get(`${agent}/${list}?limit=101`)).body.error.param).toBe("limit");
  }
});

test("Prefer: wait answers 200 with the finished run, 202 with the current run when the time is up", async () => {
  const finished = await runNow(61); // is limited to 60
  expect([finished.status, finished.body.status, finished.body.output]).toEqual([
    200,
    "succeeded",
    "hello from upstream",
  ]);
  lab.upstream.answer(hanging());
  const unfinished = await runNow(1);
  expect([unfinished.status, unfinished.body.status]).toEqual([202, "running"]);
  expect(unfinished.headers.get("location")).toBe(`${agent}/runs/${unfinished.body.id}`);
  await user.post(`${agent}/runs/${unfinished.body.id}/cancel`);
});

test("disabling an agent cancels its queued runs, and lets its running runs finish", async () => {
  lab.upstream.answer(hanging());
  const runs = await Promise.all(Array.from({ length: 11 }, () => runNow(0)));
  await lab.upstream.until(() => lab.upstream.requests.length === 10);
  await user.request("PUT", agent, { is_active: false });
  const statuses = async () =>
    (await user.get(`${agent}/runs`)).body.runs.map(({ status }: { status: string }) => status);
  expect((await statuses()).sort()).toEqual(["cancelled", ...Array.from({ length: 10 }, () => "running")]);
  await Promise.all(runs.map(({ body }) => user.post(`${agent}/runs/${body.id}/cancel`)));
  await expect.poll(async () => new Set(await statuses())).toEqual(new Set(["cancelled"]));
});

test("a run with many steps is answered whole, as one with few", async () => {
  const short = (await runNow(30)).body;
  const address = `${agent}/runs/${short.id}`;
  expect((await user.get(address)).body).toEqual(short);
  const url = lab.service.database.database_url ?? "";
  await runSql(url, `update run set steps_count = 60 where id = '${short.id}'`);
  await runSql(
    url,
    `insert into run_step (user_id, run_id, index, type, name, status, result, started_at, finished_at)
      select user_id, run_id, n, 'tool', 'web_fetch', 'succeeded', to_jsonb(repeat('x', 100000) || n), started_at, finished_at
        from run_step, generate_series(1, 59) as n where run_id = '${short.id}'`,
  );
  const answer = await user.get(address);
  expect([answer.status, answer.headers.get("Content-Type")]).toEqual([200, "application/json"]);
  const { steps, ...record } = answer.body;
  expect(record).toEqual({ ...short, steps: undefined, steps_count: 60 });
  expect(steps[0]).toEqual(short.steps[0]);
  expect(Object.keys(steps[59]).sort()).toEqual(Object.keys(short.steps[0]).sort());
  expect(steps.map(({ index }: { index: number }) => index)).toEqual(Array.from({ length: 60 }, (_, n) => n));
  expect(steps[59].result).toBe(`${"x".repeat(100_000)}59`);
  expect((await user.get(`/api/v1/agents/${randomUUID()}/runs/${short.id}`)).status).toBe(404);
  const stranger = await lab.service.newUser();
  expect((await stranger.get(address)).status).toBe(404);
});

test("each past due time tells what became of its run", async () => {
  await setClock("2026-03-04T10:00:00Z");
  lab.upstream.answer(json({ error: { message: "no" } }, 400));
  await setClock("2026-03-05T10:00:00Z");
  const { occurrences } = (await user.get(`${agent}/occurrences`)).body;
  expect(occurrences.map(({ state, run }: { state: string; run: object | null }) => [state, run])).toEqual([
    ["run", { status: "failed", has_errors: true }],
    ["run", { status: "succeeded", has_errors: false }],
  ]);
});

test("a run shows its owner the instructions and the messages that it began with", async () => {
  const promptOf = async (run_id: string, by: Pick<Client, "get"> = user) => by.get(`${agent}/runs/${run_id}/prompt`);
  await user.request("PUT", agent, { system_prompt: "You scout." });
  const { id } = (await runNow(30)).body;
  const sent = [
    { role: "system", content: expect.stringMatching(/^You scout\.\n\nThis run began on .*\.$/) },
    { role: "user", content: "Go." },
  ];
  expect((await promptOf(id)).body).toEqual({ messages: sent });
  await user.request("PUT", agent, { system_prompt: null, run_prompt: "Stay." });
  expect((await promptOf(id)).body).toEqual({ messages: sent });

  const own = await user.post(`${agent}/runs`, { run_prompt: "Look." }, { Prefer: "wait=30" });
  expect((await promptOf(own.body.id)).body.messages.at(-1)).toEqual({ role: "user", content: "Look." });

  lab.upstream.answer(json({ error: { message: "no" } }, 400));
  const failed = (await runNow(30)).body;
  expect(failed.status).toBe("failed");
  expect((await promptOf(failed.id)).body.messages.at(-1)).toEqual({ role: "user", content: "Stay." });

  lab.upstream.answer(completion());
  const turn = { messages: [{ role: "user", content: "Hello?" }], thread_id: "t" };
  const { run_id } = (await user.post(`${agent}/chat`, turn)).body;
  const again = await user.post(`${agent}/chat`, { ...turn, messages: [{ role: "user", content: "And?" }] });
  expect((await promptOf(run_id)).body).toEqual({ messages: [{ role: "user", content: "Hello?" }] });
  expect((await promptOf(again.body.run_id)).body).toEqual({ messages: [{ role: "user", content: "And?" }] });

  expect((await promptOf(id, await lab.service.newUser())).status).toBe(404);
  expect((await promptOf(randomUUID())).status).toBe(404);
});

test("a run that waits for a decision is listed, keeps its agent busy, does not hold up the clock, and is cancelled at once", async () => {
  const url = lab.service.database.database_url ?? "";
  const { id: like } = (await runNow(30)).body;
  const id = randomUUID();
  await runSql(
    url,
    `insert into run (user_id, id, agent_id, agent_version, trigger, status, queued_at, started_at, engine_input, priority, epoch)
      select user_id, '${id}', agent_id, agent_version, trigger, 'requires_action', queued_at, started_at, engine_input, priority, 1
        from run where id = '${like}'`,
  );
  await runSql(
    url,
    `insert into run_action (user_id, run_id, id, type, turn, call, tool, reason, spent_tokens, requested_at, expires_at)
      select user_id, id, id, 'tool_approval', 0, 0, 'web_fetch', 'Why.', 0, queued_at, queued_at + interval '1 year' from run where id = '${id}'`,
  );
  expect((await user.get(`${agent}/runs?status=requires_action`)).body.runs).toMatchObject([{ id, finished_at: null }]);
  expect((await setClock("2026-03-11T12:00:00Z")).status).toBe(200);
  const [occurrence] = (await user.get(`${agent}/occurrences`)).body.occurrences;
  expect(occurrence).toMatchObject({ state: "skipped", reason: `previous run still going: ${id}` });
  await expectCleanAudit(lab.service);
  const cancelled = await user.post(`${agent}/runs/${id}/cancel`);
  expect(cancelled.body).toMatchObject({ status: "cancelled", finished_at: "2026-03-11T12:00:00.000Z" });
  expect((await user.post(`${agent}/runs/${id}/cancel`)).status).toBe(409);
});
