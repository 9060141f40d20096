import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Service, startService } from "../support/service.ts";

let service: Service;
beforeAll(async () => {
  service = await startService({ env: { PURSER_TEST_CLOCK: "2026-01-31T00:00:00Z", PURSER_PAYMENTS: "sandbox" } });
});
afterAll(() => service.stop());

const setClock = (now: string) => service.admin.request("PUT", "/api/v1/admin/clock", { now });

describe("API keys (contract 3)", () => {
  it("look like purser_live_ with 49 base62 characters, and are shown only when created", async () => {
    const user = await service.newUser();
    const created = await user.post("/api/v1/api-keys", { name: "laptop" });
    expect(created.status).toBe(201);
    expect(created.body.key).toMatch(/^purser_live_[0-9A-Za-z]{49}$/);
    const listed = await user.get("/api/v1/api-keys");
    expect(listed.body.api_keys.map((key: { name: string }) => key.name)).toEqual(["laptop", "first key"]);
    expect(JSON.stringify(listed.body)).not.toContain(created.body.key);
    expect(Object.keys(listed.body.api_keys[0]).sort()).toEqual([
      "allowed_models",
      "budget_interval",
      "budget_resets_at",
      "budget_tokens",
      "budget_used_tokens",
      "created_at",
      "expires_at",
      "id",
      "last_four",
      "last_used_at",
      "limits",
      "name",
      "prefix",
      "revoked_at",
      "scopes",
      "spent_tokens",
    ]);
  });

  it("of one user begin with the same two characters, also after a rotation", async () => {
    const user = await service.newUser();
    const bucket = (key: string) => key.slice("purser_live_".length, "purser_live_".length + 2);
    const { body } = await user.post("/api/v1/api-keys", { name: "second" });
    const rotated = await user.post(`/api/v1/api-keys/${body.id}/rotate`, { grace_seconds: 0 });
    expect([bucket(body.key), bucket(rotated.body.key)]).toEqual([bucket(user.key), bucket(user.key)]);
    const users = await Promise.all(Array.from({ length: 6 }, () => service.newUser()));
    expect(new Set(users.map(({ key }) => bucket(key))).size).toBeGreaterThan(1);
  });

  it.each([
    ["no header", {}, "missing_api_key"],
    ["another scheme", { Authorization: "Basic abc" }, "invalid_api_key"],
    ["a wrong checksum", { Authorization: `Bearer purser_live_${"A".repeat(49)}` }, "invalid_api_key"],
  ])("get 401 for %s", async (_, headers, code) => {
    const response = await fetch(`${service.url}/api/v1/users/me`, { headers });
    expect(response.status).toBe(401);
    expect((await response.json()).error).toMatchObject({ type: "authentication_error", code });
  });

  it("are rejected once revoked, also if they were used a moment before", async () => {
    const user = await service.newUser();
    const { body } = await user.post("/api/v1/api-keys", { name: "doomed" });
    const doomed = service.as(body.key);
    expect((await doomed.get("/api/v1/users/me")).status).toBe(200);
    expect((await user.request("DELETE", `/api/v1/api-keys/${body.id}`)).status).toBe(204);
    expect((await doomed.get("/api/v1/users/me")).body.error?.code).toBe("revoked_api_key");
  });

  it("expire at their instant on the domain's clock", async () => {
    const user = await service.newUser();
    const { body } = await user.post("/api/v1/api-keys", { name: "brief", expires_at: "2026-01-31T02:00:00+01:00" });
    expect(body.expires_at).toBe("2026-01-31T01:00:00.000Z");
    expect((await service.as(body.key).get("/api/v1/users/me")).status).toBe(200);
    await setClock("2026-01-31T01:00:00Z");
    expect((await service.as(body.key).get("/api/v1/users/me")).body.error.code).toBe("expired_api_key");
  });

  it("keep their id in a rotation, and the old secret works only during the grace period", async () => {
    const user = await service.newUser();
    const { body: first } = await user.post("/api/v1/api-keys", { name: "rotated" });
    const { status, body: second } = await user.post(`/api/v1/api-keys/${first.id}/rotate`, { grace_seconds: 60 });
    expect(status).toBe(200);
    expect(second.id).toBe(first.id);
    expect((await service.as(first.key).get("/api/v1/users/me")).status).toBe(200);
    expect((await service.as(second.key).get("/api/v1/users/me")).status).toBe(200);
    await setClock("2026-01-31T01:02:00Z");
    expect((await service.as(first.key).get("/api/v1/users/me")).status).toBe(401);
    expect((await service.as(second.key).get("/api/v1/users/me")).status).toBe(200);
  });

  it("show when they were last used, also after a restart", async () => {
    const user = await service.newUser();
    const { body } = await user.post("/api/v1/api-keys", { name: "used" });
    await service.as(body.key).get("/api/v1/users/me");
    const last_used_at = (await service.admin.get("/api/v1/admin/clock")).body.now;
    const newest = async () => (await user.get("/api/v1/api-keys")).body.api_keys[0];
    expect(await newest()).toMatchObject({ name: "used", last_used_at });
    await service.restart();
    expect(await newest()).toMatchObject({ name: "used", last_used_at });
  });

  it("cannot create a broader key: more scopes or a longer life", async () => {
    const user = await service.newUser();
    const { body } = await user.post("/api/v1/api-keys", {
      name: "narrow",
      scopes: ["keys:write", "billing:read"],
      expires_at: "2027-01-01T00:00:00Z",
    });
    const narrow = service.as(body.key);
    const mint = (wanted: object) => narrow.post("/api/v1/api-keys", { name: "x", ...wanted });
    const within = { expires_at: "2027-01-01T00:00:00Z" };
    expect((await mint({ ...within, scopes: ["chat:write"] })).body.error.code).toBe("insufficient_scope");
    expect((await mint({})).body.error.param).toBe("expires_at");
    expect((await mint({ ...within, expires_at: "2027-01-02T00:00:00Z" })).body.error.param).toBe("expires_at");
    const made = await mint(within);
    expect(made.status).toBe(201);
    expect(made.body.scopes).toEqual(["keys:write", "billing:read"]);
  });

  it("with a budget cannot create or rotate other keys, because several keys could spend the budget several times", async () => {
    const user = await service.newUser();
    const { body } = await user.post("/api/v1/api-keys", { name: "budgeted", budget_tokens: 100 });
    const { body: other } = await user.post("/api/v1/api-keys", { name: "other", budget_tokens: 50 });
    const budgeted = service.as(body.key);
    const minted = await budgeted.post("/api/v1/api-keys", { name: "child", budget_tokens: 100 });
    expect([minted.status, minted.body.error.code]).toEqual([403, "budgeted_key"]);
    const taken = await budgeted.post(`/api/v1/api-keys/${other.id}/rotate`, {});
    expect([taken.status, taken.body.error.code]).toEqual([403, "budgeted_key"]);
    const own = await budgeted.post(`/api/v1/api-keys/${body.id}/rotate`, {});
    expect([own.status, own.body.budget_tokens]).toEqual([200, 100]);
  });

  it("cannot rotate a broader key, but can rotate themselves", async () => {
    const user = await service.newUser();
    const [{ id: broad }] = (await user.get("/api/v1/api-keys")).body.api_keys;
    const { body } = await user.post("/api/v1/api-keys", { name: "narrow", scopes: ["keys:write"] });
    const narrow = service.as(body.key);
    expect((await narrow.post(`/api/v1/api-keys/${broad}/rotate`, {})).body.error.code).toBe("insufficient_scope");
    expect((await user.get("/api/v1/users/me")).status).toBe(200);
    expect((await narrow.post(`/api/v1/api-keys/${body.id}/rotate`, {})).status).toBe(200);
  });

  it("get 403 insufficient_scope outside their scopes", async () => {
    const user = await service.newUser();
    const { body } = await user.post("/api/v1/api-keys", { name: "chat only", scopes: ["chat:write"] });
    const response = await service.as(body.key).get("/api/v1/users/me/buckets");
    expect(response.status).toBe(403);
    expect(response.body.error).toMatchObject({ type: "permission_error", code: "insufficient_scope" });
  });

  it("are revoked by a leak report; the answer never tells whether the reported text was a key", async () => {
    const user = await service.newUser();
    const reportLeak = async (key: string) => {
      const response = await fetch(`${service.url}/api/v1/api-keys/revoke-leaked`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ key }),
      });
      return { status: response.status, body: await response.json() };
    };
    const wrong = await reportLeak("not a key");
    expect(await reportLeak(user.key)).toEqual(wrong);
    expect(wrong.status).toBe(202);
    expect((await user.get("/api/v1/users/me")).body.error?.code).toBe("revoked_api_key");
  });

  it("can be reported at most 60 times a minute from one address, also with forged X-Forwarded-For headers", async () => {
    const reportLeak = (address: string) =>
      fetch(`${service.url}/api/v1/api-keys/revoke-leaked`, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Forwarded-For": address },
        body: JSON.stringify({ key: "not a key" }),
      });
    const answers = await Promise.all(Array.from({ length: 80 }, (_, index) => reportLeak(`203.0.113.${index}`)));
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThanOrEqual(15);
    expect(refused[0]?.headers.get("retry-after")).toMatch(/^\d+$/);
    await service.restart({ PURSER_TRUSTED_PROXIES: "127.0.0.0/8" });
    const proxied = await Promise.all(Array.from({ length: 80 }, (_, index) => reportLeak(`203.0.113.${index}`)));
    expect(proxied.map(({ status }) => status)).toEqual(Array(80).fill(202));
  });

  it("that were replaced by a rotation can be reported without ending the new key", async () => {
    const user = await service.newUser();
    const [{ id }] = (await user.get("/api/v1/api-keys")).body.api_keys;
    const { key } = (await user.post(`/api/v1/api-keys/${id}/rotate`, { grace_seconds: 600 })).body;
    expect((await user.get("/api/v1/users/me")).status).toBe(200);
    await user.post("/api/v1/api-keys/revoke-leaked", { key: user.key });
    expect((await user.get("/api/v1/users/me")).body.error?.code).toBe("revoked_api_key");
    expect((await service.as(key).get("/api/v1/users/me")).status).toBe(200);
  });

  it("of another user answer 404 to every method", async () => {
    const [owner, other] = [await service.newUser(), await service.newUser()];
    const { body } = await owner.post("/api/v1/api-keys", { name: "mine" });
    expect((await other.request("DELETE", `/api/v1/api-keys/${body.id}`)).status).toBe(404);
    expect((await other.post(`/api/v1/api-keys/${body.id}/rotate`, {})).status).toBe(404);
    expect((await service.as(body.key).get("/api/v1/users/me")).status).toBe(200);
  });
});

describe("the operator API (contract 8)", () => {
  it("creates a user with a trial, or, without one, an empty account", async () => {
    const trial = await service.admin.post("/api/v1/admin/users", { email: "Trial@Example.com" });
    expect(trial.body.user).toMatchObject({ email: "trial@example.com", token_balance: 625_000, is_trial: true });
    const none = await service.admin.post("/api/v1/admin/users", { email: "none@example.com", trial: false });
    expect(none.body.user).toMatchObject({ token_balance: 0, is_trial: false, trial_ends_at: null });
    const buckets = await service.as(none.body.api_key.key).get("/api/v1/users/me/buckets");
    expect(buckets.body).toEqual({ buckets: [], total_remaining: 0, next_cursor: null });
  });

  it("finds users by a part of their address or all of it, in upper or lower case, and by their id, page by page", async () => {
    const made: string[] = [];
    for (const name of ["find_1", "Find+2", "findX3"]) {
      const { body } = await service.admin.post("/api/v1/admin/users", { email: `${name}@found.example` });
      made.unshift(body.user.id);
    }
    const find = async (query: string) => {
      const { body } = await service.admin.get(`/api/v1/admin/users?${query}`);
      return { ids: body.users.map((user: { id: string }) => user.id), next_cursor: body.next_cursor };
    };
    expect((await find("search=FOUND.ex")).ids).toEqual(made);
    expect((await find("search=find_")).ids, "no pattern, but a text").toEqual([made[2]]);
    expect((await find(`search=${encodeURIComponent("+2")}`)).ids).toEqual([made[1]]);
    expect((await find(`search=${made[0]}`)).ids).toEqual([made[0]]);
    expect((await find("search=nobody@")).ids).toEqual([]);
    expect((await find("email=FINDX3@found.example")).ids).toEqual([made[0]]);
    expect((await find("email=X3@found.example")).ids, "a part of an address").toEqual([]);
    const { status, body } = await service.admin.get("/api/v1/admin/users?email=");
    expect([status, body.error?.param], "an unset variable of a script").toEqual([400, "email"]);
    const first = await find("search=found.example&limit=2");
    const rest = await find(`search=found.example&limit=2&cursor=${first.next_cursor}`);
    expect([...first.ids, ...rest.ids]).toEqual(made);
  });

  it("lists the plans on offer, and can give each of them to a user", async () => {
    const user = await service.newUser();
    const shown = (await service.admin.get("/api/v1/admin/plans")).body.plans;
    const offer = (await user.get("/api/v1/billing/plans")).body;
    expect(offer).toEqual({ plans: shown, payments: "sandbox" });
    expect((await user.get("/api/v1/admin/plans")).status).toBe(401);
  });

  it("rejects a second user with the same address", async () => {
    await service.admin.post("/api/v1/admin/users", { email: "twice@example.com" });
    const again = await service.admin.post("/api/v1/admin/users", { email: "TWICE@example.com" });
    expect(again.status).toBe(409);
    expect(again.body.error).toMatchObject({ code: "name_taken", param: "email" });
  });

  it("rejects a user's key and a wrong key", async () => {
    const user = await service.newUser();
    expect((await user.get("/api/v1/admin/users")).status).toBe(401);
    expect((await service.as("wrong").get("/api/v1/admin/audit")).body.error.code).toBe("invalid_api_key");
  });

  it("grants tokens for 12 months unless the request says otherwise", async () => {
    const user = await service.newUser({ trial: false });
    const path = `/api/v1/admin/users/${user.user_id}/grants`;
    const granted = await service.admin.post(path, { amount_tokens: 1000, source: "top_up", note: "thanks" });
    expect(granted.status).toBe(201);
    expect(granted.body).toMatchObject({
      remaining: 1000,
      original_amount: 1000,
      held: 0,
      source: "top_up",
      note: "thanks",
    });
    expect(granted.body.expires_at.slice(0, 10)).toBe("2027-01-31");
    const dated = await service.admin.post(path, {
      amount_tokens: 1,
      source: "bonus",
      expires_at: "2026-06-01T00:00:00Z",
    });
    expect(dated.body.expires_at).toBe("2026-06-01T00:00:00.000Z");
    const past = await service.admin.post(path, {
      amount_tokens: 1,
      source: "bonus",
      expires_at: "2020-01-01T00:00:00Z",
    });
    expect(past.body.error).toMatchObject({ code: "invalid_value", param: "expires_at" });
  });

  it("suspends and resumes at once", async () => {
    const user = await service.newUser();
    await service.admin.post(`/api/v1/admin/users/${user.user_id}/suspend`);
    expect((await user.get("/api/v1/users/me")).body.error?.code).toBe("account_suspended");
    await service.admin.post(`/api/v1/admin/users/${user.user_id}/resume`);
    expect((await user.get("/api/v1/users/me")).status).toBe(200);
  });

  it("erases a user: the keys are revoked, the address is free, and the audit stays clean", async () => {
    const { body } = await service.admin.post("/api/v1/admin/users", { email: "gone@example.com" });
    expect((await service.admin.request("DELETE", `/api/v1/admin/users/${body.user.id}`)).status).toBe(204);
    expect((await service.as(body.api_key.key).get("/api/v1/users/me")).status).toBe(401);
    expect((await service.admin.get(`/api/v1/admin/users/${body.user.id}`)).status).toBe(404);
    expect((await service.admin.post("/api/v1/admin/users", { email: "gone@example.com" })).status).toBe(201);
    expect((await service.admin.get("/api/v1/admin/audit")).body.ok).toBe(true);
  });
});

describe("an erased user's API keys", () => {
  it("lose their names, also revoked ones, and another user's keys keep theirs", async () => {
    const [user, other] = [await service.newUser(), await service.newUser()];
    const revoked = await user.post("/api/v1/api-keys", { name: "old laptop of Ada Example" });
    await user.request("DELETE", `/api/v1/api-keys/${revoked.body.id}`);
    for (const { post } of [user, other]) await post("/api/v1/api-keys", { name: "phone of Ada Example" });
    await service.admin.request("DELETE", `/api/v1/admin/users/${user.user_id}`);
    const db = await service.database.open();
    const named = await db.query({ text: "select user_id from api_key where name like '%Ada Example%'" });
    expect(named).toEqual([{ user_id: other.user_id }]);
    await db.close();
  });
});

describe("the test clock (contract 8)", () => {
  it("does not run, moves only forward, and survives a restart", async () => {
    await setClock("2026-02-01T00:00:00Z");
    expect((await service.admin.get("/api/v1/admin/clock")).body).toEqual({ now: "2026-02-01T00:00:00.000Z" });
    expect((await setClock("2026-02-01T00:00:00Z")).status).toBe(200);
    expect((await setClock("2026-01-31T23:59:59Z")).body.error).toMatchObject({ code: "invalid_value", param: "now" });
    await service.restart();
    expect((await service.admin.get("/api/v1/admin/clock")).body).toEqual({ now: "2026-02-01T00:00:00.000Z" });
  });

  it("ends the trial and expires its bucket at the exact instant, with an entry of that instant", async () => {
    const user = await service.newUser();
    await setClock("2026-02-20T00:00:00Z");
    const profile = (await user.get("/api/v1/users/me")).body;
    expect(profile).toMatchObject({ token_balance: 0, is_trial: false, trial_ends_at: "2026-02-15T00:00:00.000Z" });
    const { transactions } = (await user.get("/api/v1/users/me/transactions")).body;
    expect(transactions[0]).toMatchObject({
      type: "expiry",
      amount: -625_000,
      balance_after: 0,
      created_at: "2026-02-15T00:00:00.000Z",
    });
  });

  it("renews a subscription at each period's end with one grant, on the 31st or a shorter month's last day", async () => {
    await setClock("2026-03-31T00:00:00Z");
    const user = await service.newUser({ trial: false });
    const path = `/api/v1/admin/users/${user.user_id}/subscription`;
    expect((await service.admin.post(path, { plan_id: "nothing" })).body.error.param).toBe("plan_id");
    const subscribed = await service.admin.post(path, { plan_id: "starter" });
    expect(subscribed.status).toBe(201);
    expect(subscribed.body).toMatchObject({
      plan_id: "starter",
      status: "active",
      current_period_end: "2026-04-30T00:00:00.000Z",
    });
    await setClock("2026-06-01T00:00:00Z");
    const { buckets, total_remaining } = (await user.get("/api/v1/users/me/buckets")).body;
    expect(buckets.map((bucket: { granted_at: string }) => bucket.granted_at.slice(0, 10))).toEqual([
      "2026-03-31",
      "2026-04-30",
      "2026-05-31",
    ]);
    expect(buckets[0].expires_at.slice(0, 10)).toBe("2026-07-30");
    expect(total_remaining).toBe(54_000_000);
    expect((await user.get("/api/v1/users/me")).body.plan).toBe("starter");
  });
});
