import { beforeEach, describe, expect, inject, test } from "vitest";
import { charges, startLab, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { startSite } from "../support/sites.ts";
import { completion, fetching, hanging, json } from "../support/upstream.ts";

// External interruptions of runs: a process that ends, limits of concurrent runs, the operator.

let user: Client;

const lab = useLab();
beforeEach(async () => {
  lab.upstream.answer(completion());
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
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
const withFetch = { tools_config: { web_fetch: { enabled: true } } };

test("a run that a stopping process leaves is resumed by the next one, which neither repeats nor charges its finished model call again", async () => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const slow = await startSite({
    "/": async (_request, response) => {
      await released;
      response.end("<p>Late but here.</p>");
    },
  });
  lab.upstream.answer(fetching(`${slow.url}/`), completion("Done."));
  const { id } = await create(withFetch);
  await lab.service.restart({ PURSER_EGRESS_ALLOW: slow.host });
  const { body: queued } = await user.post(`/api/v1/agents/${id}/runs`);
  await expect.poll(() => slow.requests.length).toBe(1);
  const restarting = lab.service.restart();
  release();
  await restarting;
  const path = `/api/v1/agents/${id}/runs/${queued.id}`;
  await expect.poll(async () => (await user.get(path)).body.status).toBe("succeeded");
  expect((await user.get(path)).body).toMatchObject({ output: "Done.", steps_count: 3, attempt: 1 });
  expect(lab.upstream.requests).toHaveLength(2);
  expect((await charges(user)).map(({ amount }) => amount)).toEqual([-18, -30]);
  await slow.close();
});

test("a cancel does not wait for an MCP server that does not answer", async () => {
  const silent = await startSite({ "/mcp": () => {} });
  await lab.service.restart({ PURSER_EGRESS_ALLOW: silent.host });
  const servers = [{ name: "silent", url: `${silent.url}/mcp` }];
  const { id } = await create({ tools_config: { mcp: { enabled: true, servers } } });
  const { body: queued } = await user.post(`/api/v1/agents/${id}/runs`);
  await expect.poll(() => silent.requests.length).toBe(1);
  const path = `/api/v1/agents/${id}/runs/${queued.id}`;
  expect((await user.post(`${path}/cancel`)).body.status).toBe("cancelling");
  await expect.poll(async () => (await user.get(path)).body.status).toBe("cancelled");
  expect(lab.upstream.requests).toEqual([]);
  await silent.close();
});

test.skipIf(inject("storage").kind === "embedded")(
  "a run whose end could not be stored ends as soon as the database works again, before its lease ends",
  async () => {
    lab.upstream.answer(json({ error: { message: "no" } }, 400));
    const db = await lab.service.database.open();
    for (const text of [
      "create sequence tries",
      `create function refuse() returns trigger language plpgsql as $$ begin
        perform nextval('tries'); raise exception 'starting up' using errcode = '57P03'; end $$`,
      "create trigger refuse before update on run for each row when (new.status = 'failed') execute function refuse()",
    ]) {
      await db.query({ text });
    }
    const { id } = await create();
    const { body: queued } = await user.post(`/api/v1/agents/${id}/runs`);
    const tries = async () => (await db.query<{ last_value: number }>({ text: "select last_value from tries" }))[0];
    await expect.poll(async () => (await tries())?.last_value).toBeGreaterThan(1);
    await db.query({ text: "drop trigger refuse on run" });
    const run = async () => (await user.get(`/api/v1/agents/${id}/runs/${queued.id}`)).body;
    await expect.poll(async () => (await run()).status).toBe("failed");
    expect(await run()).toMatchObject({ attempt: 1, error: { code: "model_unavailable" } });
    await db.close();
  },
);

test("a waiting caller gets 202 when the process stops, because the process does not finish its runs", async () => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const slow = await startSite({
    "/": async (_request, response) => {
      await released;
      response.end("<p>Late.</p>");
    },
  });
  lab.upstream.answer(fetching(`${slow.url}/`), completion("Done."));
  await lab.service.restart({ PURSER_EGRESS_ALLOW: slow.host });
  const { id } = await create(withFetch);
  const answer = user.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=60" });
  await expect.poll(() => slow.requests.length).toBe(1);
  const restarting = lab.service.restart();
  release();
  expect(await answer).toMatchObject({ status: 202, body: { status: "queued", steps_count: 2 } });
  await restarting;
  await slow.close();
}, 20_000);

test("a run beyond the limit of concurrent runs waits in the queue, and starts when a slot is free", async () => {
  const small = await startLab(undefined, { limits: { concurrent_runs_per_user: 1 } });
  const owner = await small.service.newUser({ trial: false, tokens: 1_000_000 });
  const agent = (await owner.post("/api/v1/agents", { name: "Scout", model_id: "lab/plain", run_prompt: "Go." })).body;
  small.upstream.answer(hanging(), completion());
  const first = (await owner.post(`/api/v1/agents/${agent.id}/runs`)).body;
  await small.upstream.until(() => small.upstream.requests.length === 1);
  const second = (await owner.post(`/api/v1/agents/${agent.id}/runs`)).body;
  const status = async (run: { id: string }) =>
    (await owner.get(`/api/v1/agents/${agent.id}/runs/${run.id}`)).body.status;
  expect(await status(second)).toBe("queued");
  await owner.post(`/api/v1/agents/${agent.id}/runs/${first.id}/cancel`);
  await expect.poll(() => status(second)).toBe("succeeded");

  small.upstream.answer(hanging());
  await owner.post(`/api/v1/agents/${agent.id}/runs`);
  const hello = { messages: [{ role: "user", content: "x" }] };
  const chat = owner.post(`/api/v1/agents/${agent.id}/chat`, hello);
  const chats = async () => (await owner.get(`/api/v1/agents/${agent.id}/runs?trigger=chat`)).body.runs;
  await expect.poll(async () => (await chats()).length).toBe(1);
  await owner.post(`/api/v1/agents/${agent.id}/runs/${(await chats())[0].id}/cancel`);
  const answer = await chat; // at once, before the wait for a slot ends
  expect([answer.status, answer.body.error.code]).toEqual([409, "run_cancelled"]);
  await owner.request("DELETE", `/api/v1/agents/${agent.id}`);
  await small.stop();
}, 20_000);

describe("when the operator", () => {
  const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" };
  const openRun = async (): Promise<string> => {
    lab.upstream.answer(hanging());
    const { id } = await create();
    await user.post(`/api/v1/agents/${id}/runs`);
    await lab.upstream.until(() => lab.upstream.requests.length === 1);
    return id;
  };

  test("suspends a user, the user's runs are stopped", async () => {
    const before = lab.upstream.hangUps;
    const id = await openRun();
    await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/suspend`);
    await lab.upstream.until(() => lab.upstream.hangUps > before);
    await lab.service.admin.post(`/api/v1/admin/users/${user.user_id}/resume`);
    await expect.poll(async () => (await user.get(`/api/v1/agents/${id}/runs`)).body.runs[0].status).toBe("cancelled");
  });

  test("erases a user, the user's runs are stopped at once", async () => {
    const before = lab.upstream.hangUps;
    await openRun();
    await lab.service.admin.request("DELETE", `/api/v1/admin/users/${user.user_id}`);
    await expect.poll(() => lab.upstream.hangUps).toBe(before + 1);
  });

  test("has suspended a user, due instants are skipped with the reason; afterwards schedules run again", async () => {
    const clocked = await startLab(undefined, { env: { PURSER_TEST_CLOCK: "2026-03-01T00:00:00Z" } });
    const owner = await clocked.service.newUser({ trial: false, tokens: 1_000_000 });
    const scheduled = { name: "Daily", model_id: "lab/plain", run_prompt: "Go.", ...daily };
    const path = `/api/v1/agents/${(await owner.post("/api/v1/agents", scheduled)).body.id}`;
    const admin = `/api/v1/admin/users/${owner.user_id}`;
    await clocked.service.admin.post(`${admin}/suspend`);
    await clocked.service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-03-01T12:00:00Z" });
    await clocked.service.admin.post(`${admin}/resume`);
    await clocked.service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-03-02T12:00:00Z" });
    expect((await owner.get(`${path}/occurrences`)).body.occurrences).toMatchObject([
      { at: "2026-03-02T09:00:00.000Z", state: "run" },
      { at: "2026-03-01T09:00:00.000Z", state: "skipped", reason: "the account is suspended" },
    ]);
    expect(clocked.upstream.requests).toHaveLength(1);
    await clocked.stop();
  });
});
