import { afterAll, beforeAll, expect, it } from "vitest";
import { ACT_INVARIANTS } from "../../src/operator/acts.store.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { ADMIN_KEY, type Service, startService } from "../support/service.ts";

// The log of operators' acts: contract 8.9.

let service: Service;
let db: Db;
beforeAll(async () => {
  service = await startService({ env: { PURSER_TEST_CLOCK: "2026-01-01T00:00:00Z" } });
  db = await service.database.open();
});
afterAll(async () => {
  await db.close();
  await service.stop();
});

const acts = async (query = "") => (await service.admin.get(`/api/v1/admin/acts${query}`)).body.acts;

it("every act of an operator is in the log once, with operator, action, target, before, after and reason", async () => {
  const { user_id } = await service.newUser({ trial: false });
  const user = `/api/v1/admin/users/${user_id}`;
  const ask = (method: string, path: string, body?: unknown) =>
    service.admin.request(method, path, body, { "X-Request-Id": "ticket-7" });
  await ask("POST", `${user}/grants`, { amount_tokens: 5_000, source: "bonus", reason: "outage" });
  const suspend = () => ask("POST", `${user}/suspend`, { reason: "abuse" });
  const { suspended_at } = (await suspend()).body;
  expect((await suspend()).body).toMatchObject({ suspended_at });
  await ask("POST", `${user}/resume`);
  await ask("PATCH", user, { limits: null });
  await ask("PATCH", user, { email: "Corrected@example.com", reason: "typing error" });
  await ask("PATCH", user, { email: "corrected@example.com" });
  await ask("POST", `${user}/subscription`, { plan_id: "starter" });
  await ask("POST", "/api/v1/admin/reload");
  const [reload, subscribed, changed, resumed, suspended, granted, created] = await acts("?limit=7");
  expect(reload).toMatchObject({
    what: "configuration.reload",
    after: { changed: [] },
    user_id: null,
    user_email: null,
  });
  // the address as it is now, also in acts from before its change
  for (const act of [subscribed, changed, resumed, suspended, granted, created])
    expect(act).toMatchObject({ user_id, user_email: "corrected@example.com" });
  expect(subscribed).toMatchObject({
    what: "subscription.set",
    before: { plan_id: null },
    after: { plan_id: "starter" },
  });
  expect(changed).toMatchObject({
    what: "user.update",
    target: { type: "user", id: user_id },
    reason: "typing error",
    before: { email: expect.stringMatching(/^user\d+@example.com$/) },
    after: { email: "corrected@example.com" },
  });
  expect(resumed).toMatchObject({ what: "user.resume", after: { suspended_at: null }, reason: null });
  expect(suspended).toMatchObject({ what: "user.suspend", before: { suspended_at: null }, reason: "abuse" });
  expect(granted).toMatchObject({
    what: "tokens.grant",
    target: { type: "bucket" },
    user_id,
    reason: "outage",
    request_id: "ticket-7",
    after: { amount_tokens: 5_000, source: "bonus" },
    who: { key_id: null, user_id: null, name: "PURSER_ADMIN_KEY" },
  });
  expect(created).toMatchObject({ what: "user.create", user_id });
  expect(reload.seq - created.seq, "one act for each").toBe(6);
});

it("every operator's request that changes something accepts a reason, which is in the log (contract 8.9.3)", async () => {
  interface Schema {
    $ref?: string;
    properties?: object;
    allOf?: Schema[];
  }
  interface Operation {
    parameters?: { name: string }[];
    requestBody?: { content: { "application/json": { schema: Schema } } };
  }
  const { paths, components } = await (await fetch(`${service.url}/openapi.json`)).json();
  const changing = Object.entries<Record<string, Operation>>(paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      // A test of a provider, the mail server or the payments changes nothing.
      .filter(([method]) => path.startsWith("/api/v1/admin/") && method !== "get" && !path.endsWith("/test"))
      .map(([method, operation]) => ({ name: `${method} ${path}`, operation })),
  );
  const bodyFields = ({ $ref, properties = {}, allOf = [] }: Schema): string[] => [
    ...($ref === undefined ? [] : bodyFields(components.schemas[$ref.split("/").at(-1) ?? ""])),
    ...Object.keys(properties),
    ...allOf.flatMap(bodyFields),
  ];
  const fieldsOf = ({ parameters = [], requestBody }: Operation) => [
    ...parameters.map(({ name }) => name),
    ...bodyFields(requestBody?.content["application/json"].schema ?? {}),
  ];
  expect(changing.length).toBeGreaterThan(15);
  const without = changing.filter(({ operation }) => !fieldsOf(operation).includes("reason"));
  expect(without.map(({ name }) => name)).toEqual([]);

  const reason = "ticket 8";
  const { id } = (await service.admin.post("/api/v1/admin/users", { email: "reasoned@example.com", reason })).body.user;
  for (const path of [`users/${id}/export`, "reload", "backup"]) {
    expect((await service.admin.post(`/api/v1/admin/${path}`, { reason })).status, path).toBe(200);
  }
  const moved = await service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-01-01T00:01:00Z", reason });
  expect(moved.status).toBe(200);
  expect((await acts("?limit=5")).map((act: { what: string; reason: string }) => [act.what, act.reason])).toEqual(
    ["clock.set", "backup.create", "configuration.reload", "user.export", "user.create"].map((what) => [what, reason]),
  );
});

it("a failed act is not in the log, and a replayed request adds no second act", async () => {
  const { user_id } = await service.newUser();
  const other = await service.newUser();
  const before = (await acts("?limit=1"))[0].seq;
  const user = `/api/v1/admin/users/${user_id}`;
  const taken = (await service.admin.get(`/api/v1/admin/users/${other.user_id}`)).body.email;
  expect((await service.admin.request("PATCH", user, { email: taken })).status).toBe(409);
  expect((await service.admin.post(`${user}/subscription`, { plan_id: "none" })).status).toBe(400);
  const headers = { "Idempotency-Key": "grant-once" };
  for (const _ of [1, 2]) {
    await service.admin.post(`${user}/grants`, { amount_tokens: 1, source: "bonus" }, headers);
  }
  expect((await acts("?limit=1"))[0].seq).toBe(before + 1);
});

it("the log can be filtered, paged and streamed as CSV", async () => {
  const { user_id } = await service.newUser();
  for (const what of ["suspend", "resume"]) await service.admin.post(`/api/v1/admin/users/${user_id}/${what}`);
  const first = (await service.admin.get(`/api/v1/admin/acts?user_id=${user_id}&limit=2`)).body;
  expect(first.acts.map(({ what }: { what: string }) => what)).toEqual(["user.resume", "user.suspend"]);
  const rest = await service.admin.get(`/api/v1/admin/acts?user_id=${user_id}&limit=2&cursor=${first.next_cursor}`);
  expect(rest.body).toMatchObject({ acts: [{ what: "user.create" }], next_cursor: null });
  expect(await acts(`?user_id=${user_id}&what=user.suspend`)).toHaveLength(1);
  const csv = (await service.admin.get(`/api/v1/admin/acts?user_id=${user_id}&format=csv`)).body as string;
  expect(csv.split("\r\n").map((line) => line.split(",")[5])).toEqual([
    ...["what", "user.create", "user.suspend", "user.resume", undefined],
  ]);
});

it("erasing a user removes their address from the log, and the chain stays valid", async () => {
  const { user_id } = await service.newUser();
  await service.admin.request("PATCH", `/api/v1/admin/users/${user_id}`, { email: "person@private.example" });
  await service.admin.request("DELETE", `/api/v1/admin/users/${user_id}?reason=asked`);
  const [erased, changed] = await acts(`?user_id=${user_id}`);
  expect(erased).toMatchObject({ what: "user.erase", reason: "asked" });
  expect(changed).toMatchObject({ before: { email: null }, after: { email: null } });
  const rows = JSON.stringify([
    await db.query({ text: "select * from operator_act" }),
    await db.query({ text: "select * from operator_act_email" }),
  ]);
  expect(rows).not.toContain("person@private.example");
  expect(rows, "the operator's key is in no act").not.toContain(ADMIN_KEY);
  expect((await service.admin.get("/api/v1/admin/audit")).body).toMatchObject({ ok: true, violations: [] });
});

it("the database rejects every change and deletion of an act", async () => {
  for (const text of [
    "update operator_act set reason = 'another' where seq = 1",
    "delete from operator_act where seq = 1",
    "truncate operator_act cascade",
  ]) {
    await expect(db.query({ text }), text).rejects.toThrow(/cannot be changed or deleted/);
  }
});

const NUMBERED = "acts of operators are numbered without a gap up to the end of their chain";
const CHAINED = "the hash of each operator's act is that of the act and the hash before";
const TEXTS = "the e-mail addresses and the reason of an operator's act have the hashes that the act has";

it.each([
  ["a changed act", "update operator_act set reason = 'another' where user_id is null", [CHAINED]],
  ["a deleted act", "delete from operator_act where seq = 2", [NUMBERED, CHAINED]],
  [
    "a deleted last act",
    "delete from operator_act where seq = (select seq from operator_act_chain)",
    [NUMBERED, CHAINED],
  ],
  [
    "a changed address",
    "update operator_act_email set email_after = 'x@example.com' where email_after is not null",
    [TEXTS],
  ],
  ["a changed reason", "update operator_act_email set reason = 'another' where reason is not null", [TEXTS]],
])("the audit finds %s that was made without the trigger", async (_what, text, invariants) => {
  await service.newUser();
  const found = await db
    .transaction(async (tx) => {
      await tx.query({ text: "alter table operator_act disable trigger user" });
      await tx.query({ text: "alter table operator_act_email drop constraint operator_act_email_seq_fkey" });
      await tx.query({ text });
      const broken: string[] = [];
      for (const { invariant, text: query } of ACT_INVARIANTS) {
        if ((await tx.query({ text: query })).length > 0) broken.push(invariant);
      }
      throw broken;
    })
    .catch((broken) => broken);
  expect(found).toEqual(invariants);
});

it("no backup and no export is sent if its act cannot be written, and the next one works", async () => {
  const { user_id } = await service.newUser();
  const paths = ["/api/v1/admin/backup", `/api/v1/admin/users/${user_id}/export`];
  await db.query({ text: "alter table operator_act add constraint refused check (what = 'none') not valid" });
  for (const path of paths) expect((await service.admin.post(path)).status, path).toBe(500);
  await db.query({ text: "alter table operator_act drop constraint refused" });
  for (const path of paths) await expect.poll(async () => (await service.admin.post(path)).status).toBe(200);
  expect((await acts("?limit=2")).map(({ what }: { what: string }) => what)).toEqual(["user.export", "backup.create"]);
});
