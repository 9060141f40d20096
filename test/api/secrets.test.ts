import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Client, type Service, startService } from "../support/service.ts";

const SECRETS = "/api/v1/secrets";
const KEY = "sk_live_abcdefghijklmnopWXYZ";

let service: Service;
let user: Client;
beforeAll(async () => {
  service = await startService({ env: { PURSER_TEST_CLOCK: "2026-01-31T00:00:00Z" } });
});
afterAll(() => service.stop());
beforeEach(async () => {
  user = await service.newUser();
});

const patch = (id: string, change: object, client = user) => client.request("PATCH", `${SECRETS}/${id}`, change);
const refusal = ({ status, body }: Awaited<ReturnType<Client["get"]>>) => [status, body.error?.code, body.error?.param];

describe("secrets (contract 7)", () => {
  it("are masked in every answer, which never has their value", async () => {
    const created = await user.post(SECRETS, { name: "STRIPE", description: "payments", value: KEY });
    expect(created.status).toBe(201);
    expect(created.body).toEqual({
      id: created.body.id,
      name: "STRIPE",
      type: "value",
      description: "payments",
      masked_value: "sk_live_••••••••WXYZ",
      allowed_hosts: null,
      version: 1,
      created_at: "2026-01-31T00:00:00.000Z",
      updated_at: "2026-01-31T00:00:00.000Z",
      last_used_at: null,
      reflected_at: null,
      oauth: null,
    });
    const one = await user.get(`${SECRETS}/${created.body.id}`);
    const list = await user.get(SECRETS);
    expect(one.body).toEqual(created.body);
    expect(list.body).toEqual({ secrets: [created.body], next_cursor: null });
  });

  it("have an empty description by default, and normalised hosts", async () => {
    const value = {
      name: "_a1",
      value: "x",
      allowed_hosts: ["API.Example.com.", "*.example.com:0443", "api.example.com"],
    };
    const { body } = await user.post(SECRETS, value);
    expect(body).toMatchObject({ description: "", allowed_hosts: ["api.example.com", "*.example.com:443"] });
    expect(body.masked_value).toBe("••••••••");
  });

  it("have unique names per user (409 name_taken); another user can use the same name", async () => {
    await user.post(SECRETS, { name: "TOKEN", value: "one" });
    const again = await user.post(SECRETS, { name: "TOKEN", value: "two" });
    expect(refusal(again)).toEqual([409, "name_taken", "name"]);
    const other = await service.newUser();
    expect((await other.post(SECRETS, { name: "TOKEN", value: "three" })).status).toBe(201);
  });

  it.each<[string, string?]>([
    ["Stripe key"],
    ["stripe-key/live.v2"],
    ["1"],
    ["Zugang für Prüfung"],
    ["支付密钥"],
    ["🔑".repeat(64)],
    ["a".repeat(64)],
    ["constructor"],
    ["  around ", "around"],
  ])("can have the name %j", async (name, stored = name) => {
    const made = await user.post(SECRETS, { name, value: "one" });
    expect(made).toMatchObject({ status: 201, body: { name: stored } });
    expect((await user.get(SECRETS)).body.secrets).toMatchObject([{ name: stored }]);
  });

  it.each([
    ["Stripe Key", "stripe kEY"],
    ["ÉTÉ", "e\u0301te\u0301"],
    ["Straße", "STRASSE"],
    ["ΟΔΟΣ", "οδος"],
    ["ключ", "КЛЮЧ"],
    ["key", " key "],
  ])("have names that are unique ignoring case: beside %j no %j", async (name, other) => {
    await user.post(SECRETS, { name, value: "one" });
    const again = await user.post(SECRETS, { name: other, value: "two" });
    expect(refusal(again)).toEqual([409, "name_taken", "name"]);
    expect(again.body.error.message).toContain(name);
  });

  it("of two that are stored at once with names of different case, one is stored", async () => {
    const made = await Promise.all(["KEY", "key", "Key"].map((name) => user.post(SECRETS, { name, value: "one" })));
    expect(made.map(({ status }) => status).sort()).toEqual([201, 409, 409]);
  });

  it("accept values of 1 byte to 64 KiB of UTF-8", async () => {
    const store = (name: string, value: string) => user.post(SECRETS, { name, value });
    expect((await store("one", "x")).status).toBe(201);
    expect((await store("most", "€".repeat(21_845))).status).toBe(201);
    expect(refusal(await store("over", `${"€".repeat(21_845)}xy`))).toEqual([400, "invalid_value", "value"]);
    expect(refusal(await store("none", ""))).toEqual([400, "invalid_value", "value"]);
    expect(refusal(await store("half", "half \ud800 a character"))).toEqual([400, "invalid_value", "value"]);
    const body = Buffer.from('{"name": "latin", "value": "gr\xfc\xdfe"}', "latin1");
    const headers = { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json" };
    const latin = await fetch(`${service.url}${SECRETS}`, { method: "POST", headers, body });
    expect(await latin.json()).toMatchObject({ error: { code: "invalid_json", param: null } });
    // The replacement character of undecodable bytes is no credential either.
    expect(refusal(await store("damaged", "gr\ufffd\ufffde"))).toEqual([400, "invalid_value", "value"]);
  });

  it("get a new version with a new value, and keep it with any other change", async () => {
    const { body } = await user.post(SECRETS, { name: "TOKEN", value: "first" });
    await service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-02-01T00:00:00Z" });
    const described = await patch(body.id, { description: "new" });
    expect(described.body).toMatchObject({ version: 1, description: "new", updated_at: "2026-02-01T00:00:00.000Z" });
    const changed = await patch(body.id, { value: "ghp_0123456789abcdefghij" });
    expect(changed.body).toMatchObject({ version: 2, description: "new", masked_value: "ghp_••••••••ghij" });
    expect((await user.get(`${SECRETS}/${body.id}`)).body).toEqual(changed.body);
  });

  it.each<[string, string[] | null, string[] | null]>([
    ["from some to any", ["a.example"], null],
    ["to one more", ["a.example"], ["a.example", "b.example"]],
    ["to another", ["a.example"], ["b.example"]],
    ["to another port", ["a.example"], ["a.example:8443"]],
    ["to a wildcard", ["a.example.com"], ["*.example.com"]],
    ["to two labels of a wildcard", ["*.example.com"], ["a.b.example.com"]],
    ["from nowhere", [], ["a.example"]],
  ])("need their value again for hosts that widen %s", async (_, before, after) => {
    const { body } = await user.post(SECRETS, { name: "TOKEN", value: "value", allowed_hosts: before });
    expect(refusal(await patch(body.id, { allowed_hosts: after }))).toEqual([400, "invalid_value", "value"]);
    expect((await user.get(`${SECRETS}/${body.id}`)).body).toEqual(body);
    const widened = await patch(body.id, { allowed_hosts: after, value: "value" });
    expect([widened.status, widened.body.allowed_hosts]).toEqual([200, after]);
  });

  it.each<[string, string[] | null, string[] | null]>([
    ["from any to some", null, ["a.example"]],
    ["to fewer", ["a.example", "b.example"], ["b.example"]],
    ["from a wildcard to a host", ["*.example.com"], ["a.example.com"]],
    ["to nowhere", ["a.example"], []],
    ["not at all", ["a.example"], ["A.example."]],
  ])("do not need it for hosts that narrow %s", async (_, before, after) => {
    const { body } = await user.post(SECRETS, { name: "TOKEN", value: "value", allowed_hosts: before });
    expect((await patch(body.id, { allowed_hosts: after })).body).toMatchObject({ version: 1 });
  });

  it("that are deleted do not exist any more, and their name is free", async () => {
    const { body } = await user.post(SECRETS, { name: "TOKEN", value: "value" });
    expect((await user.request("DELETE", `${SECRETS}/${body.id}`)).status).toBe(204);
    expect((await user.get(`${SECRETS}/${body.id}`)).status).toBe(404);
    expect((await user.request("DELETE", `${SECRETS}/${body.id}`)).status).toBe(404);
    expect((await user.post(SECRETS, { name: "TOKEN", value: "value" })).status).toBe(201);
  });

  it("of another user answer 404 to every method (n8n CVE-2026-42226)", async () => {
    const { body } = await user.post(SECRETS, { name: "TOKEN", value: "value" });
    const other = await service.newUser();
    await other.post(SECRETS, { name: "OWN", value: "value" });
    const path = `${SECRETS}/${body.id}`;
    const answers = [
      await other.get(path),
      await other.get(`${path}/uses`),
      await patch(body.id, { value: "mine now" }, other),
      await other.request("DELETE", path),
    ];
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404]);
    expect((await user.get(path)).body).toEqual(body);
  });

  it("are listed newest first, in pages that have each once", async () => {
    for (let n = 0; n < 5; n += 1) await user.post(SECRETS, { name: `S${n}`, value: "value" });
    const first = await user.get(`${SECRETS}?limit=3`);
    const rest = await user.get(`${SECRETS}?limit=3&cursor=${first.body.next_cursor}`);
    const names = [...first.body.secrets, ...rest.body.secrets].map(({ name }: { name: string }) => name);
    expect(names).toEqual(["S4", "S3", "S2", "S1", "S0"]);
    expect(rest.body.next_cursor).toBeNull();
  });

  it("need the scopes secrets:read and secrets:write", async () => {
    const { body } = await user.post(SECRETS, { name: "TOKEN", value: "value" });
    const keyed = async (scope: string) =>
      service.as((await user.post("/api/v1/api-keys", { name: scope, scopes: [scope] })).body.key);
    const reader = await keyed("secrets:read");
    expect((await reader.get(SECRETS)).status).toBe(200);
    expect((await reader.post(SECRETS, { name: "B", value: "b" })).body.error.code).toBe("insufficient_scope");
    expect((await reader.request("PATCH", `${SECRETS}/${body.id}`, { value: "b" })).status).toBe(403);
    expect((await reader.request("DELETE", `${SECRETS}/${body.id}`)).status).toBe(403);
    const writer = await keyed("secrets:write");
    expect((await writer.post(SECRETS, { name: "B", value: "b" })).status).toBe(201);
    expect((await writer.get(SECRETS)).status).toBe(403);
    expect((await writer.get(`${SECRETS}/${body.id}/uses`)).status).toBe(403);
  });

  it("with one name in concurrent requests are created once", async () => {
    const make = () => user.post(SECRETS, { name: "RACE", value: "value" });
    const statuses = (await Promise.all(Array.from({ length: 8 }, make))).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([201, ...Array(7).fill(409)]);
    expect((await user.post(SECRETS, { name: "NEXT", value: "value" })).status).toBe(201);
  });

  it("are created once with one Idempotency-Key, and the same key with another value is rejected", async () => {
    const headers = { "Idempotency-Key": "store it" };
    const first = await user.post(SECRETS, { name: "TOKEN", value: "value" }, headers);
    const again = await user.post(SECRETS, { name: "TOKEN", value: "value" }, headers);
    expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([201, "true"]);
    expect(again.body).toEqual(first.body);
    expect(refusal(await user.post(SECRETS, { name: "TOKEN", value: "other" }, headers))[1]).toBe(
      "idempotency_mismatch",
    );
  });

  it("are deleted with their user without a rest", async () => {
    await user.post(SECRETS, { name: "TOKEN", value: "value" });
    expect((await service.admin.request("DELETE", `/api/v1/admin/users/${user.user_id}`)).status).toBe(204);
    expect((await user.get(SECRETS)).status).toBe(401);
  });

  it("survive a restart of the service", async () => {
    const { body } = await user.post(SECRETS, { name: "TOKEN", value: KEY });
    await service.restart();
    expect((await patch(body.id, { allowed_hosts: ["a.example"] })).body).toMatchObject({ version: 1 });
  });
});
