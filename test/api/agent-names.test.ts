import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Client, type Service, startService } from "../support/service.ts";

const AGENTS = "/api/v1/agents";
/** More than one page of a list. */
const MANY = 104;

let service: Service;
beforeAll(async () => {
  service = await startService({
    env: { PURSER_TEST_CLOCK: "2026-03-01T00:00:00Z" },
    config: { limits: { requests_per_minute: 1_000_000 } },
  });
});
afterAll(() => service.stop());

const create = async (user: Client, fields: object): Promise<string> =>
  (await user.post(AGENTS, { model_id: "purser/rehearsal", run_prompt: "Say: hi", ...fields })).body.id;

describe("names of agents next to their ids", () => {
  it("are shown for the oldest of more than 100 agents, and a deleted agent is marked as deleted", async () => {
    const user = await service.newUser();
    const [oldest, deleted] = [await create(user, { name: "Oldest" }), await create(user, { name: "Deleted" })];
    for (const id of [oldest, deleted]) {
      await user.post(`${AGENTS}/${id}/runs`, undefined, { Prefer: "wait=20" });
      await user.request("PUT", `${AGENTS}/${id}`, { limits: { max_cost_tokens_per_run: 1 } });
      const run = await user.post(`${AGENTS}/${id}/runs`, undefined, { Prefer: "wait=20" });
      expect(run.body.status).toBe("failed");
    }
    await Promise.all(Array.from({ length: MANY }, (_, index) => create(user, { name: `Other ${index}` })));
    await user.request("DELETE", `${AGENTS}/${deleted}`);

    const named = new Map([
      [oldest, { agent_name: "Oldest", agent_deleted: false }],
      [deleted, { agent_name: "Deleted", agent_deleted: true }],
    ]);
    const { agent_breakdown, api_key_breakdown } = (await user.get("/api/v1/users/me/usage")).body;
    expect(agent_breakdown).toHaveLength(2);
    for (const share of agent_breakdown) expect(share).toMatchObject(named.get(share.agent_id) as object);
    expect(api_key_breakdown).toEqual([expect.objectContaining({ api_key_name: expect.any(String) })]);

    const { transactions } = (await user.get("/api/v1/users/me/transactions")).body;
    const charges = transactions.filter((entry: { type: string }) => entry.type === "usage");
    expect(charges).toHaveLength(2);
    for (const entry of charges) expect(entry).toMatchObject(named.get(entry.agent_id) as object);
    const grant = transactions.find((entry: { type: string }) => entry.type === "grant");
    expect(grant).toMatchObject({ agent_id: null, agent_name: null, agent_deleted: false });

    const { notices } = (await user.get("/api/v1/notices?event=run.failed")).body;
    expect(notices).toHaveLength(2);
    for (const notice of notices) expect(notice).toMatchObject(named.get(notice.data.agent_id) as object);
  });

  it("are shown only to the agents' user", async () => {
    const [user, other] = [await service.newUser(), await service.newUser()];
    const id = await create(user, { name: "Private" });
    await user.post(`${AGENTS}/${id}/runs`, undefined, { Prefer: "wait=20" });
    expect(JSON.stringify((await other.get("/api/v1/users/me/usage")).body)).not.toContain("Private");
    expect((await other.get(`${AGENTS}?name=Private`)).body.agents).toEqual([]);
  });
});

describe("agents, sorted by their next run", () => {
  const daily = (time: string) => ({ schedule_enabled: true, schedule_interval: "daily", schedule_time: time });
  let user: Client;
  beforeAll(async () => {
    user = await service.newUser();
    await create(user, { name: "First", ...daily("00:10") });
    await create(user, { name: "Second", ...daily("00:20") });
    const twin = await create(user, { name: "Third", ...daily("00:30") });
    await create(user, { name: "Third's twin", ...daily("00:30") });
    expect(twin).toBeDefined();
    await create(user, { name: "Disabled", is_active: false, ...daily("00:05") });
    await Promise.all(Array.from({ length: MANY }, (_, index) => create(user, { name: `On demand ${index}` })));
  });

  const names = (body: { agents: { name: string }[] }) => body.agents.map(({ name }) => name);

  it("are listed soonest first among many newer agents, and without a gap between pages if two are due at once", async () => {
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const from: string = cursor === null ? "" : `&cursor=${cursor}`;
      const { body } = await user.get(`${AGENTS}?sort=next_run_at&limit=1${from}`);
      seen.push(...names(body));
      cursor = body.next_cursor;
    } while (cursor !== null);
    expect(seen).toEqual(["First", "Second", "Third", "Third's twin"]);
  });

  it("do not include a paused schedule, which one PUT resumes", async () => {
    const poor = await service.newUser({ trial: false, tokens: 10_000 });
    const id = await create(poor, {
      name: "Failing",
      ...daily("00:10"),
      limits: { max_consecutive_failures: 1, max_cost_tokens_per_run: 1 },
    });
    expect(names((await poor.get(`${AGENTS}?sort=next_run_at`)).body)).toEqual(["Failing"]);
    await service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-03-01T00:11:00Z" });
    expect((await poor.get(`${AGENTS}/${id}`)).body.schedule_status).toBe("paused");
    expect(names((await poor.get(`${AGENTS}?sort=next_run_at`)).body)).toEqual([]);
    const before = (await poor.get(`${AGENTS}/${id}`)).body.version;
    const resumed = await poor.request("PUT", `${AGENTS}/${id}`, { schedule_enabled: true });
    expect(resumed.body).toMatchObject({ schedule_status: "active", version: before });
    expect(names((await poor.get(`${AGENTS}?sort=next_run_at`)).body)).toEqual(["Failing"]);
  });

  it("cannot be searched by name at the same time, and reject a cursor of another list", async () => {
    const both = await user.get(`${AGENTS}?sort=next_run_at&name=First`);
    expect([both.status, both.body.error.param]).toEqual([400, "name"]);
    const { next_cursor } = (await user.get(`${AGENTS}?limit=1`)).body;
    const foreign = await user.get(`${AGENTS}?sort=next_run_at&cursor=${next_cursor}`);
    expect([foreign.status, foreign.body.error.code]).toEqual([400, "invalid_cursor"]);
  });

  it("can be found by a part of the name among more than 100, in upper or lower case", async () => {
    expect(names((await user.get(`${AGENTS}?name=FIRS`)).body)).toEqual(["First"]);
    expect(names((await user.get(`${AGENTS}?name=100%25`)).body)).toEqual([]);
  });

  it.each([["ärger"], ["ÄRGER"], ["Ärger"]])("can be found by %s, with letters beyond ASCII", async (part) => {
    const other = await service.newUser();
    await create(other, { name: "Ärgernis" });
    expect(names((await other.get(`${AGENTS}?name=${encodeURIComponent(part)}`)).body)).toEqual(["Ärgernis"]);
  });
});
