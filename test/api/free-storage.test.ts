import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { FREE_DAY } from "../../src/kernel/constants.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { ask, expectCleanAudit, LAB_MODELS, type Lab, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { calling, completion, delta, events } from "../support/upstream.ts";

// contract 2.6.4 and 2.16.1: a user of a free model does not fill the disk. Calls that are paid have none of these limits.

const CHAT = "/api/v1/chat/completions";
const FREE = { id: "lab/free", input_rate: 0, output_rate: 0 };
let lab: Lab;
let db: Db;
let user: Client;
beforeAll(async () => {
  const env = { PURSER_TEST_CLOCK: "2026-03-04T10:00:00.000Z" };
  lab = await startLab([...LAB_MODELS, { ...LAB_MODELS[0], ...FREE } as (typeof LAB_MODELS)[number]], { env });
  db = await lab.service.database.open();
});
beforeEach(async () => {
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: 10_000_000 });
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await db.close();
  await lab.stop();
});
const sql = <Row>(text: string, values: unknown[] = []) => db.query<Row>({ text, values: [user.user_id, ...values] });

describe("answers that are kept for an Idempotency-Key", () => {
  /** Other answers of this user, as large as the limit, or as many. */
  const fill = (answers: number, bytes: number) =>
    sql(
      `insert into idempotency_key (user_id, key, request_hash, status, headers, body, created_at, locked_until)
        select $1, 'filled-' || n, '', 200, '{}', convert_to(repeat('x', $3::int), 'UTF8'), '2026-03-04T10:00:00Z', now()
          from generate_series(1, $2::int) as n`,
      [answers, bytes],
    );
  const twice = async (path: string, body: object) => {
    const headers = { "Idempotency-Key": newId() };
    const first = await user.post(path, body, headers);
    const second = await user.post(path, body, headers);
    return { first, second, is_replayed: second.headers.get("Idempotent-Replayed") === "true" };
  };
  const LONG = completion("word ".repeat(4_000));
  const SHAPES: [string, string, object][] = [
    ["a chat completion", CHAT, {}],
    ["a streamed chat completion", CHAT, { stream: true }],
    ["a message", "/api/v1/messages", { max_tokens: 100 }],
    ["a response", "/api/v1/responses", { input: "hello", messages: undefined, max_output_tokens: 100 }],
  ];

  it.each(SHAPES)("%s of a free model: 256 MB of large ones; a paid one is kept in any case", async (_, path, more) => {
    lab.upstream.answer(LONG, LONG, LONG, LONG, LONG, LONG);
    const free = { ...ask("lab/free"), ...more };
    const paid = { ...ask("lab/plain"), ...more };
    expect(await twice(path, free)).toMatchObject({ is_replayed: true, second: { status: 200 } });
    await fill(34, 8_000_000);
    expect(await twice(path, free)).toMatchObject({ is_replayed: false, second: { status: 200 } });
    expect(await twice(path, paid)).toMatchObject({ is_replayed: true, second: { status: 200 } });
  });

  it("of at most 8 KB: 20,000; a paid one is kept in any case", async () => {
    const free = ask("lab/free");
    expect((await twice(CHAT, free)).is_replayed).toBe(true);
    await fill(FREE_DAY.small_answers, 10);
    expect((await twice(CHAT, free)).is_replayed).toBe(false);
    expect((await twice(CHAT, ask("lab/plain"))).is_replayed).toBe(true);
    const rows = await sql<{ count: number }>("select count(*)::int from idempotency_key where user_id = $1");
    expect(rows[0]?.count).toBe(FREE_DAY.small_answers + 2);
  });

  it("of a request that has an effect are not repeated: the second says that it was carried out", async () => {
    await fill(FREE_DAY.small_answers, 10);
    const { first, second } = await twice("/api/v1/secrets", { name: "ONCE", value: "a value" });
    expect([first.status, second.status, second.body.error?.code]).toEqual([201, 409, "answer_not_kept"]);
    const { body: agent } = await user.post("/api/v1/agents", { name: "A", model_id: "lab/plain", run_prompt: "Go." });
    const ran = await twice(`/api/v1/agents/${agent.id}/runs`, {});
    expect([ran.first.status, ran.second.status, ran.second.body.error?.code]).toEqual([202, 409, "answer_not_kept"]);
    expect((await user.get(`/api/v1/agents/${agent.id}/runs`)).body.runs).toHaveLength(1);
    expect((await twice("/api/v1/secrets", { name: "" })).second.status).toBe(400);
  });

  it("of the operator have no limit", async () => {
    const headers = { "Idempotency-Key": newId() };
    const values = ["00000000-0000-0000-0000-000000000000", FREE_DAY.small_answers];
    const text = `insert into idempotency_key (user_id, key, request_hash, status, headers, body, created_at, locked_until)
      select $1, 'filled-' || n, '', 200, '{}', '', '2026-03-04T10:00:00Z', now() from generate_series(1, $2::int) as n`;
    await db.query({ text, values });
    const body = { email: `${newId()}@example.com` };
    expect((await lab.service.admin.post("/api/v1/admin/users", body, headers)).status).toBe(201);
    const again = await lab.service.admin.post("/api/v1/admin/users", body, headers);
    expect([again.status, again.headers.get("Idempotent-Replayed")]).toEqual([201, "true"]);
  });
});

describe("runs that cost nothing", () => {
  const agentOf = async (more: object) =>
    (await user.post("/api/v1/agents", { name: newId(), run_prompt: "Go.", ...more })).body.id as string;
  const run = (id: string) => user.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=30" });
  const chat = (id: string) => user.post(`/api/v1/agents/${id}/chat`, { messages: [{ role: "user", content: "Hi" }] });
  const asModel = (id: string) => user.post(CHAT, ask(`agent/${id}`));
  const fill = (runs: number, bytes: number) =>
    sql(
      `insert into free_run (user_id, run_id, ended_at, bytes)
        select $1, gen_random_uuid(), '2026-03-04T09:00:00Z', $3 from generate_series(1, $2::int)`,
      [runs, bytes],
    );

  it("are counted with the bytes of their steps, and paid ones are not", async () => {
    const page = "x".repeat(50_000);
    const free = await agentOf({ model_id: "lab/free", system_prompt: "Speak." });
    lab.upstream.answer(events(delta(page), "data: [DONE]\n\n"));
    expect((await chat(free)).status).toBe(200);
    lab.upstream.answer(completion());
    const paid = await agentOf({ model_id: "lab/plain" });
    expect((await run(paid)).body.status).toBe("succeeded");
    expect((await run(free)).body.status).toBe("succeeded");
    const noted = await sql<{ bytes: number }>("select bytes from free_run where user_id = $1 order by bytes");
    expect(noted).toHaveLength(2);
    expect(noted[0]?.bytes).toBeGreaterThan(100);
  });

  it.each([
    ["10,000 runs", FREE_DAY.runs, 1],
    ["1 GB", 2, FREE_DAY.run_bytes / 2],
  ])("are 429 until the next UTC day after %s, in each way to start one; paid ones go on", async (_, runs, bytes) => {
    const free = await agentOf({ model_id: "lab/free" });
    const routed = await agentOf({ auto_route: true });
    const paid = await agentOf({ model_id: "lab/plain" });
    expect((await run(free)).status).toBe(200);
    await fill(runs, bytes);
    for (const id of [free, routed]) {
      for (const answer of [await run(id), await chat(id), await asModel(id)]) {
        expect([answer.status, answer.body.error?.code]).toEqual([429, "rate_limited"]);
        expect(answer.body.error.message).toContain("cost nothing");
        expect(Number(answer.headers.get("Retry-After"))).toBe(14 * 3_600);
      }
    }
    for (const answer of [await run(paid), await chat(paid), await asModel(paid)]) expect(answer.status).toBe(200);
    const other = await lab.service.newUser({ trial: false, tokens: 100_000 });
    const { body } = await other.post("/api/v1/agents", { name: "A", run_prompt: "Go.", model_id: "lab/free" });
    expect((await other.post(`/api/v1/agents/${body.id}/runs`)).status).toBe(202);
    await sql("update free_run set ended_at = '2026-03-03T23:59:59Z' where user_id = $1");
    expect((await run(free)).status).toBe(200);
  });

  it("that are due are skipped with the reason, and the schedule stays active", async () => {
    const daily = { schedule_enabled: true, schedule_interval: "daily", schedule_time: "11:00" };
    const id = await agentOf({ model_id: "lab/free", ...daily });
    const paid = await agentOf({ model_id: "lab/plain", ...daily });
    await fill(FREE_DAY.runs, 1);
    await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-03-04T11:00:01.000Z" });
    const occurrences = async (of: string) => (await user.get(`/api/v1/agents/${of}/occurrences`)).body.occurrences;
    expect(await occurrences(id)).toMatchObject([
      { state: "skipped", reason: expect.stringContaining("cost nothing") },
    ]);
    expect(await occurrences(paid)).toMatchObject([{ state: "run" }]);
    expect((await user.get(`/api/v1/agents/${id}`)).body.next_run_at).toBe("2026-03-05T11:00:00.000Z");
  });

  it("leave no note once their user is erased", async () => {
    const free = await agentOf({ model_id: "lab/free" });
    expect((await run(free)).status).toBe(200);
    expect(await sql("select from free_run where user_id = $1")).toHaveLength(1);
    await lab.service.admin.request("DELETE", `/api/v1/admin/users/${user.user_id}`);
    expect(await sql("select from free_run where user_id = $1")).toEqual([]);
  });
});

describe("labels of calls that cost nothing", () => {
  const called = (model: string, labels: Record<string, unknown>) => user.post(CHAT, ask(model, labels));
  const values = async (name: string) =>
    (await user.get(`/api/v1/users/me/usage?group_by=${name}&limit=100`)).body.groups.map(
      (group: { value: string }) => group.value,
    );
  const used = (new_values: number, bytes: number, day = "2026-03-04") =>
    sql(
      `insert into free_label_day (user_id, day, new_values, bytes) values ($1, $4, $2, $3)
        on conflict (user_id) do update set day = $4, new_values = $2, bytes = $3`,
      [new_values, bytes, day],
    );

  it("are counted by their new values and their bytes", async () => {
    await called("lab/free", { user: "ada", metadata: { team: "red" } });
    await called("lab/free", { user: "ada", metadata: { team: "blue" } });
    await called("lab/plain", { user: "bob", metadata: { team: "green" } });
    const [row] = await sql<{ new_values: number; bytes: number }>(
      "select new_values::int, bytes::int from free_label_day where user_id = $1",
    );
    expect(row?.new_values).toBe(3);
    expect(row?.bytes).toBeGreaterThan(60);
  });

  it("have 10,000 new values a day: then known values count on, and others are not recorded; paid calls are", async () => {
    await called("lab/free", { user: "ada" });
    await used(FREE_DAY.label_values, 100);
    await called("lab/free", { user: "ada", metadata: { team: "red" } });
    await called("lab/free", { user: "eve" });
    await called("lab/plain", { user: "bob" });
    expect(await values("user")).toEqual(expect.arrayContaining(["ada", "bob"]));
    expect(await values("user")).not.toContain("eve");
    const { groups } = (await user.get("/api/v1/users/me/usage?group_by=user")).body;
    expect(groups.find(({ value }: { value: string }) => value === "ada")).toMatchObject({ requests: 2 });
    const stored = await sql<{ labels: object }>(
      "select labels from usage_event where user_id = $1 and labels is not null order by created_at, hold_id",
    );
    expect(stored.map(({ labels }) => labels)).toEqual([{ user: "ada" }, { user: "ada" }, { user: "bob" }]);
    await used(FREE_DAY.label_values, 100, "2026-03-03");
    await called("lab/free", { user: "eve" });
    expect(await values("user")).toContain("eve");
  });

  it("have 64 MB a day, also those of known values", async () => {
    await called("lab/free", { user: "ada" });
    await used(1, FREE_DAY.label_bytes);
    await called("lab/free", { user: "ada" });
    const { groups } = (await user.get("/api/v1/users/me/usage?group_by=user")).body;
    expect(groups).toMatchObject([{ value: "ada", requests: 1 }]);
    expect((await user.get("/api/v1/users/me/requests")).body.requests).toHaveLength(2);
  });

  it("have the same limits in SQL", () => {
    const text = readFileSync("src/account/ledger/sql/ledger_keep_labels.sql", "utf8");
    expect(text).toContain(`> ${FREE_DAY.label_values} then`);
    expect(text).toContain(`> ${FREE_DAY.label_bytes} then`);
  });
});

describe("output items of responses that cost nothing", () => {
  const respond = async (model: string) => {
    const { body } = await user.post("/api/v1/responses", { model, input: "hello", max_output_tokens: 100 });
    return body.output[0].id as string;
  };
  const isKept = async (id: string) =>
    (await sql("select from response_item where user_id = $1 and id = $2", [id])).length;

  it("have 256 MB a day, and paid ones are kept in any case", async () => {
    expect(await isKept(await respond("lab/free"))).toBe(1);
    await sql(
      `insert into response_item (user_id, id, item, created_at)
        select $1, 'filled-' || n, convert_to(repeat('x', 8000000), 'UTF8'), '2026-03-04T10:00:00Z' from generate_series(1, 34) as n`,
    );
    expect(await isKept(await respond("lab/free"))).toBe(0);
    expect(await isKept(await respond("lab/plain"))).toBe(1);
  });
});

describe("a tool of a free model", () => {
  it("has its calls in the bytes of its run", async () => {
    const tools_config = { web_fetch: { enabled: true } };
    const { body } = await user.post("/api/v1/agents", {
      name: "A",
      run_prompt: "Go.",
      model_id: "lab/free",
      tools_config,
    });
    const url = `https://example.com/${"a".repeat(3_000)}`;
    lab.upstream.answer(calling("web_fetch", { url }), completion("Done."));
    await user.post(`/api/v1/agents/${body.id}/runs`, undefined, { Prefer: "wait=30" });
    const [noted] = await sql<{ bytes: number }>("select bytes::int from free_run where user_id = $1");
    expect(noted?.bytes).toBeGreaterThan(500);
  });
});
