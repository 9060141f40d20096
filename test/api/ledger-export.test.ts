import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newId } from "../../src/platform/lib/ids.ts";
import { ask, type Lab, settledBalance, startLab } from "../support/lab.ts";
import { COMPILE_CACHE } from "../support/process.ts";
import type { Client } from "../support/service.ts";
import { completion, delta, hanging } from "../support/upstream.ts";

const ROOT = join(import.meta.dirname, "../..");
const DANGEROUS = '=HYPERLINK("http://x","a, b")';

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());

async function newUser(): Promise<Client> {
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  return user;
}

const complete = (request_id: string, model = "lab/plain") =>
  user.post("/api/v1/chat/completions", ask(model), { "X-Request-Id": request_id });

describe("GET /billing/explain/{request_id}", () => {
  test("shows estimate, hold, slices, rates and their version, rounding, and the entries of a charge", async () => {
    await newUser();
    lab.upstream.answer(completion("hi", { prompt_tokens: 40, completion_tokens: 7 }));
    await complete("explain-me", "lab/odd");
    const { status, body } = await user.get("/api/v1/billing/explain/explain-me");
    expect(status).toBe(200);
    const { buckets } = (await user.get("/api/v1/users/me/buckets")).body;
    const [transaction] = (await user.get("/api/v1/users/me/transactions?type=usage")).body.transactions;
    expect(body).toMatchObject({
      request_id: "explain-me",
      status: "settled",
      model: "lab/odd",
      rates: { input_rate: 0.333333, cached_input_rate: 0.333333, output_rate: 1.000001 },
      priced: [
        { tokens_of: "input", tokens: 40, rate: 0.333333, amount: "13.33332" },
        { tokens_of: "cached_input", tokens: 0, amount: "0" },
        { tokens_of: "output", tokens: 7, rate: 1.000001, amount: "7.000007" },
      ],
      rounding: { exact: "20.333327", rounded_up_by: "0.666673" },
      cost_tokens: 21,
      charged_tokens: 21,
      overage_tokens: 0,
      absorbed_tokens: 0,
      from_progress: false,
      legs: [transaction],
      others: [],
    });
    expect(body.estimate.max_output_tokens).toBe(4096);
    expect(body.hold).toEqual({
      requested_tokens: body.estimate.cost_tokens,
      held_tokens: body.estimate.cost_tokens,
      overage_tokens: 0,
    });
    expect(body.slices).toEqual([{ bucket_id: buckets[0].id, tokens: body.hold.held_tokens }]);
    expect(body.rates.version).toMatch(/^[0-9a-f]{16}$/);
  });

  test("shows a call that has not ended by its estimate and hold, without a cost", async () => {
    await newUser();
    lab.upstream.answer(hanging(delta("thinking")));
    const controller = new AbortController();
    const stream = await fetch(`${lab.service.url}/api/v1/chat/completions`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${user.key}`,
        "Content-Type": "application/json",
        "X-Request-Id": "still-open",
      },
      body: JSON.stringify(ask("lab/plain", { stream: true })),
      signal: controller.signal,
    });
    const { body } = await user.get("/api/v1/billing/explain/still-open");
    expect(body).toMatchObject({ status: "open", model: "lab/plain", rounding: null, cost_tokens: null, legs: [] });
    expect(body.hold.held_tokens).toBe(body.estimate.cost_tokens);
    controller.abort();
    await stream.text().catch(() => {});
    await settledBalance(user);
    expect((await user.get("/api/v1/billing/explain/still-open")).body).toMatchObject({ status: "settled" });
  });

  test("shows every charge of a repeated request id, newest first", async () => {
    await newUser();
    lab.upstream.answer(completion());
    for (const model of ["lab/plain", "lab/odd", "lab/plain"]) await complete("again", model);
    const { body } = await user.get("/api/v1/billing/explain/again");
    expect([body.model, ...body.others.map((other: { model: string }) => other.model)]).toEqual([
      "lab/plain",
      "lab/odd",
      "lab/plain",
    ]);
  });

  test("is 404 for a rejected or failed request, which cost nothing, and for another user's request", async () => {
    const other = await newUser();
    lab.upstream.answer(completion());
    await complete("private");
    await newUser();
    await user.post("/api/v1/chat/completions", ask("lab/none"), { "X-Request-Id": "refused" });
    for (const request_id of ["private", "refused", "never-sent", newId()]) {
      const { status, body } = await user.get(`/api/v1/billing/explain/${request_id}`);
      expect([status, body.error.code]).toEqual([404, "not_found"]);
    }
    expect((await other.get("/api/v1/billing/explain/private")).status).toBe(200);
  });
});

/** Runs `npm run audit -- --verify` on this text, without the service's settings. */
async function verify(text: string): Promise<{ code: number; stdout: string }> {
  const file = join(lab.service.database.data_dir, "export.csv");
  writeFileSync(file, text);
  const node = join(ROOT, "node_modules/.bin/node");
  const args = ["src/cli/purser.ts", "audit", "--verify", file];
  const env = { PATH: process.env.PATH ?? "", NODE_COMPILE_CACHE: COMPILE_CACHE };
  try {
    const { stdout } = await promisify(execFile)(node, args, { cwd: ROOT, env });
    return { code: 0, stdout };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, stdout: stdout + stderr };
  }
}

describe("GET /users/me/transactions?format=csv", () => {
  test("streams the whole ledger, oldest first, with escaped formulas, and the file can be verified without the service", async () => {
    await newUser();
    const admin = `/api/v1/admin/users/${user.user_id}/grants`;
    await lab.service.admin.post(admin, { amount_tokens: 5, source: "bonus", note: DANGEROUS });
    lab.upstream.answer(completion());
    for (let n = 0; n < 3; n += 1) await complete(`csv-${n}`);
    const { status, headers, body } = await user.get("/api/v1/users/me/transactions?format=csv&limit=1");
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/csv; charset=utf-8; header=present");
    expect(headers.get("content-disposition")).toBe('attachment; filename="transactions.csv"');
    const lines = body.split("\r\n");
    expect(lines).toHaveLength(1 + 2 + 3 + 1); // the header, two grants, three charges, and the end of the last line
    expect(lines[1]).toMatch(new RegExp(`^${user.user_id},1,`));
    expect(body).toContain(`"'=HYPERLINK(""http://x"",""a, b"")"`);
    expect(await verify(body)).toEqual({
      code: 0,
      stdout: "checked 5 entries of 1 accounts\nthe export is in order\n",
    });
  });

  test("fails the verification with exit code 1 and the reason if the file is altered, truncated or another one", async () => {
    await newUser();
    lab.upstream.answer(completion());
    for (let n = 0; n < 3; n += 1) await complete(`csv-${n}`);
    const { body } = await user.get("/api/v1/users/me/transactions?format=csv");
    const lines: string[] = body.split("\r\n");
    const without = (line: number) => lines.filter((_, index) => index !== line).join("\r\n");
    expect(await verify(body.replace("csv-1", "csv-9"))).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("entry 3 of"),
    });
    expect(await verify(body.replace("1000000,1000000", "2000000,2000000"))).toMatchObject({ code: 1 });
    expect(await verify(body.replace(/,(top_up|subscription),/, ",bonus,"))).toMatchObject({ code: 1 });
    expect(await verify(without(2))).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("it follows on entry 1"),
    });
    const id = lines[2]?.split(",")[2] ?? "";
    expect(await verify(body.replace(id, user.user_id))).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("its id is"),
    });
    const twice = body.replaceAll(/\r\n(?=.)/g, ",0\r\n").replace(/,0\r\n/, ",amount\r\n");
    expect(await verify(twice)).toMatchObject({ code: 1, stdout: expect.stringContaining("names a column twice") });
    expect(await verify("a,b\r\n1,2\r\n")).toMatchObject({ code: 1, stdout: expect.stringContaining("no export") });
    expect(await verify("")).toMatchObject({ code: 1 });
  });

  test("accepts the list's filters, and rejects an unknown format", async () => {
    await newUser();
    lab.upstream.answer(completion());
    await complete("only");
    const { body } = await user.get("/api/v1/users/me/transactions?format=csv&type=usage");
    expect(body.split("\r\n")).toHaveLength(3);
    const bad = await user.get("/api/v1/users/me/transactions?format=xml");
    expect([bad.status, bad.body.error.param]).toEqual([400, "format"]);
  });
});

test("GET /users/me/usage?format=csv has a line for each day, model, agent and key", async () => {
  await newUser();
  lab.upstream.answer(completion());
  await complete("one");
  await complete("two");
  await complete("three", "lab/odd");
  const { body } = await user.get("/api/v1/users/me/usage?format=csv&days=2");
  const [head, ...lines] = body.trimEnd().split("\r\n");
  expect(head).toBe(
    "date,model,agent_id,api_key_id,requests,input_tokens,cached_input_tokens,cache_write_tokens,output_tokens,cost_tokens",
  );
  const { total_cost_tokens } = (await user.get("/api/v1/users/me/usage?days=2")).body;
  const costs = lines.map((line: string) => Number(line.split(",").at(-1)));
  expect(costs.reduce((sum: number, cost: number) => sum + cost, 0)).toBe(total_cost_tokens);
  expect(lines.map((line: string) => line.split(",").slice(1, 5))).toEqual([
    ["lab/odd", "", expect.any(String), "1"],
    ["lab/plain", "", expect.any(String), "2"],
  ]);
});
