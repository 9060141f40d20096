import { beforeAll, describe, expect, it } from "vitest";
import { createEndUsersStore } from "../../src/account/ledger/end-users.store.ts";
import { ask, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, hanging } from "../support/upstream.ts";

// contract 5.3.1 to 5.3.3: usage and budgets of a reseller's customers.

const CHAT = "/api/v1/chat/completions";
const USAGE = "/api/v1/users/me/usage";
const BUDGETS = "/api/v1/end-user-budgets";
let user: Client;

const lab = useLab(undefined, { env: { PURSER_TEST_CLOCK: "2026-03-04T10:00:00.000Z" } });
beforeAll(async () => {
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: 10_000_000 });
});

describe("usage", () => {
  it("is grouped by the request's user and metadata in all shapes, model and day, with a cursor", async () => {
    const cost = async (fields: object, path = CHAT) => {
      const { status, body } = await user.post(path, ask("lab/plain", { max_tokens: 40, ...fields }));
      expect(status).toBe(200);
      return body;
    };
    const first = (await cost({ user: "ada", metadata: { team: "red" } })).usage.cost_tokens;
    await cost({ user: "ada", metadata: { team: "blue" } });
    await cost({ metadata: { user_id: "bob", team: "blue" } }, "/api/v1/messages");
    await cost({});
    const groups = async (query: string) => (await user.get(`${USAGE}?group_by=${query}`)).body;
    const by_user = await groups("user");
    expect(by_user).toMatchObject({ group_by: "user", next_cursor: null });
    expect(by_user.groups.map(({ value, requests }: { value: string; requests: number }) => [value, requests])).toEqual(
      [
        ["ada", 2],
        ["bob", 1],
      ],
    );
    expect(by_user.groups[0].cost_tokens).toBe(2 * first);
    const team = await groups("metadata.team&limit=1");
    expect(team.groups).toMatchObject([{ value: "blue", requests: 2 }]);
    const rest = await groups(`metadata.team&limit=1&cursor=${team.next_cursor}`);
    expect(rest).toMatchObject({ groups: [{ value: "red", requests: 1 }], next_cursor: null });
    expect((await groups("model")).groups).toMatchObject([{ value: "lab/plain", requests: 4 }]);
    expect((await groups("day")).groups).toMatchObject([{ value: "2026-03-04", requests: 4 }]);
    const wrong = await user.get(`${USAGE}?group_by=price`);
    expect([wrong.status, wrong.body.error.param]).toEqual([400, "group_by"]);
    expect((await (await lab.service.newUser()).get(`${USAGE}?group_by=user`)).body.groups).toEqual([]);
  });

  it("of a chat with an agent counts for the request's user too", async () => {
    const agent = await user.post("/api/v1/agents", { name: "Helper", model_id: "lab/plain", run_prompt: "Go." });
    const chat = await user.post(CHAT, ask(`agent/${agent.body.id}`, { user: "eve" }));
    expect(chat.status).toBe(200);
    const { groups } = (await user.get(`${USAGE}?group_by=user`)).body;
    expect(groups).toContainEqual(expect.objectContaining({ value: "eve", cost_tokens: chat.body.usage.cost_tokens }));
  });
});

describe("the breakdown of usage", () => {
  it("sums requests by two dimensions, narrowed by filters, in dollars, by day, with the rest as one, and as CSV", async () => {
    const caller = await lab.service.newUser({ trial: false, tokens: 10_000_000 });
    const agent = await caller.post("/api/v1/agents", { name: "Digest", model_id: "lab/plain", run_prompt: "Go." });
    const call = (model: string, labels: object) =>
      caller.post(CHAT, ask(model, { max_tokens: 40, ...labels })).then(({ body }) => body.usage.cost_tokens);
    const ada = await call("lab/plain", { user: "ada", metadata: { team: "red" } });
    await call(`agent/${agent.body.id}`, { user: "ada", metadata: { team: "red" } });
    await call("lab/plain", { user: "=bob" });
    await call("lab/plain", {});
    await caller.request("DELETE", `/api/v1/agents/${agent.body.id}`);
    const read = async (query: string) => (await caller.get(`${USAGE}/breakdown?${query}`)).body;

    const found = await read("group_by=user&then_by=agent&from=2026-03-01&to=2026-03-06");
    expect(found).toMatchObject({ from: "2026-03-01", to: "2026-03-06", group_by: "user", then_by: "agent" });
    expect(found.metadata_names).toEqual(["team"]);
    const keysOf = (group: { keys: { value: string | null; name: string | null }[] }) =>
      group.keys.map(({ value, name }) => name ?? value);
    expect(found.groups.map(keysOf)).toEqual(
      expect.arrayContaining([
        ["ada", "Digest"],
        ["ada", null],
        ["=bob", null],
        [null, null],
      ]),
    );
    const digest = found.groups.find((group: never) => keysOf(group)[1] === "Digest");
    expect(digest.keys[1]).toEqual({ value: agent.body.id, name: "Digest", deleted: true });
    expect(found.total).toMatchObject({ requests: 4, daily: [{ requests: 4 }] });
    const { total_cost_tokens } = (await caller.get(USAGE)).body;
    expect(found.total.cost_tokens).toBe(total_cost_tokens);
    expect(Number(found.total.cost_usd) * 625_000).toBeCloseTo(total_cost_tokens);

    const narrowed = await read("group_by=model&user=ada&agent_id=none&metadata[team]=red");
    expect(narrowed.filters).toMatchObject([
      { dimension: "agent", value: null },
      { dimension: "user", value: "ada" },
      { dimension: "metadata.team", value: "red" },
    ]);
    expect(narrowed.groups).toMatchObject([{ keys: [{ value: "lab/plain" }], requests: 1, cost_tokens: ada }]);
    const first = await read("group_by=user&limit=1");
    expect(first).toMatchObject({ groups: [{ keys: [{ value: "ada" }] }], other: { groups: 2, requests: 2 } });
    const lines = (await read("group_by=user&then_by=agent&format=csv")).split("\r\n");
    expect(lines[0]).toBe("date,user,agent_id,agent_name,cost_usd,cost_tokens,tokens,requests");
    expect(lines).toContainEqual(expect.stringMatching(/^2026-03-0\d,'=bob,,,0\.\d+,\d+,\d+,1$/));
    expect(lines.filter((line: string) => line !== "")).toHaveLength(5);
  });
});

describe("the budget of an end user", () => {
  it("refuses only this end user with 402, and starts again with its interval", async () => {
    const path = `${BUDGETS}/carl%40example.com`;
    const set = await user.request("PUT", path, { budget_tokens: 300, budget_interval: "day" });
    expect([set.status, set.body]).toEqual([
      200,
      {
        user: "carl@example.com",
        budget_tokens: 300,
        budget_interval: "day",
        budget_used_tokens: 0,
        budget_resets_at: "2026-03-05T00:00:00.000Z",
      },
    ]);
    const call = (name: string) => user.post(CHAT, ask("lab/plain", { user: name, max_tokens: 80 }));
    const first = await call("carl@example.com");
    expect(first.status).toBe(200);
    const used = (await user.get(path)).body.budget_used_tokens;
    expect(used).toBe(first.body.usage.cost_tokens);
    await user.request("PUT", path, { budget_tokens: used, budget_interval: "day" });
    const over = await call("carl@example.com");
    expect([over.status, over.body.error.code]).toEqual([402, "end_user_budget_exceeded"]);
    expect((await call("dora")).status).toBe(200);
    await lab.service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-03-05T00:00:00.000Z" });
    expect((await user.get(path)).body.budget_used_tokens).toBe(0);
    await user.request("PUT", path, { budget_tokens: 300, budget_interval: "day" });
    expect((await call("carl@example.com")).status).toBe(200);
  });

  it("belongs to its user, is listed, and ends when it is deleted", async () => {
    const path = `${BUDGETS}/zoe`;
    await user.request("PUT", path, { budget_tokens: 0 });
    expect((await user.post(CHAT, ask("lab/plain", { user: "zoe" }))).status).toBe(402);
    const names = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`name${index}`, "x"]));
    const behind_names = await user.post(CHAT, ask("lab/plain", { metadata: { ...names, user_id: "zoe" } }));
    expect(behind_names.status, "after more names than usage records").toBe(402);
    const stranger = await lab.service.newUser({ trial: false, tokens: 10_000 });
    expect((await stranger.get(path)).status).toBe(404);
    expect((await stranger.request("DELETE", path)).status).toBe(404);
    const users = (await user.get(BUDGETS)).body.end_user_budgets.map((budget: { user: string }) => budget.user);
    expect(users).toContain("zoe");
    expect((await user.request("DELETE", path)).status).toBe(204);
    expect((await user.post(CHAT, ask("lab/plain", { user: "zoe" }))).status).toBe(200);
  });
});

it.each([".", ".."])(
  "an end user named %s has no budget, because no address holds the name; its usage is counted",
  async (name) => {
    const escaped = name.replaceAll(".", "%2E");
    expect((await user.request("PUT", `${BUDGETS}/${escaped}`, { budget_tokens: 5 })).status).toBe(404);
    expect((await user.post(CHAT, ask("lab/plain", { user: name }))).status).toBe(200);
    const { groups } = (await user.get(`${USAGE}?group_by=user`)).body;
    expect(groups).toContainEqual(expect.objectContaining({ value: name, requests: 1 }));
  },
);

describe("erasing a user (8.2.1)", () => {
  it("removes the names of the user's end users, also of a call in flight, and keeps the sums", async () => {
    const erased = await lab.service.newUser({ trial: false, tokens: 100_000 });
    for (const name of ["gus", "ivy", "gus"]) {
      const labels = { user: name, metadata: { project: "secret" } };
      expect((await erased.post(CHAT, ask("lab/plain", labels))).status).toBe(200);
    }
    await erased.request("PUT", `${BUDGETS}/ivy`, { budget_tokens: 50_000 });
    lab.upstream.answer(hanging());
    const asked = lab.upstream.requests.length;
    const in_flight = erased.post(CHAT, ask("lab/plain", { user: "ivy", stream: true })).catch(() => {});
    await lab.upstream.until(() => lab.upstream.requests.length > asked);

    const db = await lab.service.database.open();
    const count = async (rows: string) =>
      (await db.query({ text: `select from ${rows} user_id = $1`, values: [erased.user_id] })).length;
    expect((await lab.service.admin.request("DELETE", `/api/v1/admin/users/${erased.user_id}`)).status).toBe(204);
    expect(await count("end_user_budget where")).toBe(0);
    await expect.poll(() => count("usage_label_daily where")).toBe(0);
    await in_flight;
    await expect.poll(() => count("hold where")).toBe(0);
    expect(await count("usage_label_daily where")).toBe(0);
    expect(await count("usage_event where labels is not null and")).toBe(0);
    expect(await count("usage_event where")).toBeGreaterThanOrEqual(3);
    const { usage } = (await lab.service.admin.get("/api/v1/admin/usage?group_by=user")).body;
    const row = usage.find(({ user_id }: { user_id: string }) => user_id === erased.user_id);
    expect(row.requests).toBeGreaterThanOrEqual(3);
    await db.close();
    lab.upstream.answer(completion());
  });

  it("also removes the end users' names that requests wrote while their user was being erased", async () => {
    const erased = await lab.service.newUser({ trial: false, tokens: 100_000 });
    expect((await erased.post(CHAT, ask("lab/plain", { user: "gus" }))).status).toBe(200);
    await erased.request("PUT", `${BUDGETS}/gus`, { budget_tokens: 50_000 });
    const db = await lab.service.database.open();
    const values = [erased.user_id];
    await db.query({ text: "update users set email = null, erased_at = now() where id = $1", values });
    await createEndUsersStore(db).sweep();
    for (const table of ["usage_label_daily", "end_user_budget", "usage_event"]) {
      const labelled = table === "usage_event" ? "and labels is not null" : "";
      expect(await db.query({ text: `select from ${table} where user_id = $1 ${labelled}`, values })).toEqual([]);
    }
    await db.close();
  });
});
