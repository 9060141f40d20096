import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Browser, openBrowser } from "../support/browser.ts";
import { type Service, startService } from "../support/service.ts";
import { tokenOf } from "../support/sign-up.ts";

// Accounts with an operator role: contract 8.1.3.

const PASSWORD = "correct horse battery";
const USERS = "/admin/users";

let service: Service;
let people = 0;
beforeAll(async () => {
  service = await startService({ env: { PURSER_TEST_CLOCK: "2026-01-31T09:00:00Z" } });
});
afterAll(() => service.stop());

type Role = "read" | "support" | "admin" | null;
const setRole = (id: string, operator_role: Role) =>
  service.admin.request("PATCH", `/api/v1/admin/users/${id}`, { operator_role });
const confirm = (browser: Browser, password = PASSWORD) => browser.post("/auth/confirm-password", { password });
const code = (answer: { status: number; body: { error?: { code: string } } }) => [
  answer.status,
  answer.body?.error?.code,
];

/** A person who has signed up, with their role. */
async function newPerson(role: Role = null) {
  people += 1;
  const email = `person${people}@example.com`;
  const browser = openBrowser(service.url);
  await browser.post("/auth/sign-up/email", { email });
  const verified = await browser.post("/auth/verify-email", {
    token: tokenOf(service.linkTo(email)),
    password: PASSWORD,
  });
  const { id } = verified.body.user;
  if (role !== null) expect((await setRole(id, role)).body).toMatchObject({ id, operator_role: role });
  return { id, email, browser };
}

/** An operator whose session is confirmed. */
async function newOperator(role: Exclude<Role, null> = "admin") {
  const person = await newPerson(role);
  expect((await confirm(person.browser)).status).toBe(200);
  expect((await person.browser.get(USERS)).status).toBe(200);
  return person;
}

it("a session uses the operator API with a role and after a second look at the password, each 403 says what is missing", async () => {
  const { id, email, browser } = await newPerson();
  expect((await browser.get("/users/me")).body.operator_role).toBeNull();
  const without_role = await browser.get(USERS);
  expect(code(without_role)).toEqual([403, "insufficient_role"]);
  expect(without_role.body.error.message).toContain("operator_role");
  await setRole(id, "admin");
  expect((await browser.get("/users/me")).body.operator_role).toBe("admin");
  const unconfirmed = await browser.get(USERS);
  expect(code(unconfirmed)).toEqual([403, "password_confirmation_required"]);
  expect(unconfirmed.body.error.message).toContain("/api/v1/auth/confirm-password");

  const wrong = await confirm(browser, "not my password");
  expect([...code(wrong), wrong.body.error.param]).toEqual([400, "invalid_value", "password"]);
  expect(code(await browser.get(USERS))).toEqual([403, "password_confirmation_required"]);
  const confirmed = await confirm(browser);
  expect(confirmed).toMatchObject({ status: 200, body: { confirmed_until: "2026-01-31T09:30:00.000Z" } });
  expect((await browser.get(USERS)).status).toBe(200);

  // The person acts, and the log of acts names them.
  const other = await service.newUser({ trial: false });
  const grant = { amount_tokens: 500, source: "bonus", reason: "outage" };
  expect((await browser.post(`${USERS}/${other.user_id}/grants`, grant)).status).toBe(201);
  const { acts } = (await browser.get(`/admin/acts?operator_id=${id}`)).body;
  expect(acts).toMatchObject([{ what: "tokens.grant", who: { key_id: null, user_id: id, name: email } }]);
  const [given] = (await browser.get(`/admin/acts?user_id=${id}`)).body.acts;
  expect(given).toMatchObject({
    what: "user.update",
    before: { operator_role: null },
    after: { operator_role: "admin" },
    who: { key_id: null, user_id: null, name: "PURSER_ADMIN_KEY" },
  });
  const csv = await fetch(`${service.url}/api/v1/admin/acts?format=csv&operator_id=${id}`, {
    headers: { Cookie: browser.cookie(), "Sec-Fetch-Site": "same-origin" },
  });
  expect((await csv.text()).trim().endsWith(`,${id}`)).toBe(true);
});

/** The status of each request by role: read, support, admin. */
const MAY = [
  ["GET", "", [200, 200, 200]],
  ["PATCH", "", [403, 200, 200], { limits: { requests_per_minute: 5 } }],
  ["PATCH", "", [403, 403, 200], { operator_role: "read" }],
  ["POST", "/suspend", [403, 200, 200]],
  ["POST", "/resume", [403, 200, 200]],
  ["POST", "/grants", [403, 403, 201], { amount_tokens: 1, source: "bonus" }],
] as const;

it("an account's role allows what a key with this role may do, and only admin changes an operator's account", async () => {
  const operators = [await newOperator("read"), await newOperator("support"), await newOperator("admin")];
  for (const [method, path, statuses, body] of MAY) {
    const { user_id } = await service.newUser({ trial: false });
    for (const [index, { browser }] of operators.entries()) {
      const send = { GET: browser.get, POST: browser.post, PATCH: browser.patch }[method];
      const answer = await send(`${USERS}/${user_id}${path}`, body as never);
      expect(answer.status, `${index}: ${method} ${path}`).toBe(statuses[index]);
      if (answer.status === 403) expect(answer.body.error.code).toBe("insufficient_role");
    }
  }
  const [, support, admin] = operators.map(({ browser }) => browser);
  const target = await newPerson("read");
  for (const send of [
    () => support?.post(`${USERS}/${target.id}/suspend`),
    () => support?.patch(`${USERS}/${target.id}`, { limits: { requests_per_minute: 1 } }),
  ])
    expect((await send())?.body.error.code).toBe("insufficient_role");
  expect((await admin?.post(`${USERS}/${target.id}/suspend`))?.status).toBe(200);
});

describe("an operator's session stops at once on every node", () => {
  const ENDS: Record<string, [(operator: { id: string; browser: Browser }) => Promise<unknown>, unknown[]]> = {
    "when the role is removed": [({ id }) => setRole(id, null), [403, "insufficient_role"]],
    "when the account is suspended": [
      ({ id }) => service.admin.post(`/api/v1/admin/users/${id}/suspend`),
      [403, "account_suspended"],
    ],
    "when the account is erased": [
      ({ id }) => service.admin.request("DELETE", `/api/v1/admin/users/${id}`),
      [401, "session_expired"],
    ],
    "when the address changes": [
      ({ id }) => service.admin.request("PATCH", `/api/v1/admin/users/${id}`, { email: `moved-${id}@example.com` }),
      [401, "session_expired"],
    ],
  };
  it.each(Object.entries(ENDS))("%s", { retry: 2 }, async (_, [end, answer]) => {
    const operator = await newOperator();
    const node = await service.anotherNode();
    const there = () =>
      fetch(`${node.url}/api/v1${USERS}`, {
        headers: { Cookie: operator.browser.cookie(), "Sec-Fetch-Site": "same-origin" },
      }).then(async (response) => ({ status: response.status, body: await response.json() }));
    expect((await there()).status).toBe(200);
    await end(operator);
    expect(code(await operator.browser.get(USERS))).toEqual(answer);
    await expect.poll(async () => code(await there()), { timeout: 1_000 }).toEqual(answer);
    await node.stop();
  });

  it("a new password ends the confirmation with the other sessions, and so does signing out", async () => {
    const { email, browser } = await newOperator();
    const other = openBrowser(service.url);
    await other.post("/auth/sign-in/email", { email, password: PASSWORD });
    expect(code(await other.get(USERS)), "each session is confirmed by itself").toEqual([
      403,
      "password_confirmation_required",
    ]);
    await confirm(other);
    const next = { current_password: PASSWORD, new_password: "another horse battery" };
    expect((await other.post("/auth/change-password", next)).status).toBe(200);
    expect(code(await browser.get(USERS))).toEqual([401, "session_expired"]);
    expect(code(await other.get(USERS))).toEqual([403, "password_confirmation_required"]);
    await confirm(other, "another horse battery");
    await other.post("/auth/sign-out");
    expect((await other.get(USERS)).status).toBe(401);
  });

  it("30 minutes after the last confirmation", async () => {
    const { browser } = await newOperator();
    const clock = (now: string) => service.admin.request("PUT", "/api/v1/admin/clock", { now });
    await clock("2026-01-31T09:29:59Z");
    expect((await browser.get(USERS)).status).toBe(200);
    await clock("2026-01-31T09:30:00Z");
    expect(code(await browser.get(USERS))).toEqual([403, "password_confirmation_required"]);
    await confirm(browser);
    expect((await browser.get(USERS)).status).toBe(200);
  });
});

it("other credentials of an operator open nothing: an API key, another site's page, another user's session", async () => {
  const { browser } = await newOperator();
  const made = await browser.post("/api-keys", { name: "program" });
  expect(code(await service.as(made.body.key).get(`/api/v1${USERS}`))).toEqual([401, "invalid_api_key"]);
  // A program that sends both means the key.
  const both = { Authorization: `Bearer ${made.body.key}`, "Sec-Fetch-Site": "same-origin" };
  expect((await browser.get(USERS, both)).status).toBe(401);
  expect(code(await browser.get(USERS, { "Sec-Fetch-Site": "cross-site" }))).toEqual([403, "origin_refused"]);
  const body = { email: "new@example.com" };
  expect(code(await browser.post(USERS, body, { Origin: "https://elsewhere.example" }))).toEqual([
    403,
    "origin_refused",
  ]);
  const stranger = (await newPerson()).browser;
  await confirm(stranger);
  expect(code(await stranger.get(USERS))).toEqual([403, "insufficient_role"]);
});

it("an erased operator is shown without an address in the log of acts, whose chain is still right", async () => {
  const { id, email, browser } = await newOperator();
  const { user_id } = await service.newUser({ trial: false });
  const key = { Origin: service.url, "Idempotency-Key": "export-once" };
  await browser.post(`${USERS}/${user_id}/suspend`, { reason: "abuse" }, key);
  await service.admin.request("DELETE", `/api/v1/admin/users/${id}`);
  const acts = await service.admin.get(`/api/v1/admin/acts?operator_id=${id}`);
  expect(acts.body.acts).toMatchObject([{ what: "user.suspend", who: { key_id: null, user_id: id, name: null } }]);
  expect(JSON.stringify(acts.body)).not.toContain(email);
  expect((await service.admin.get("/api/v1/admin/audit")).body).toMatchObject({ ok: true });
});

it("what an operator's session was answered about a user is not kept after the user is erased, also without the role", async () => {
  const { id, browser } = await newOperator();
  const key = { Origin: service.url, "Idempotency-Key": "create-once" };
  const body = { email: "short-lived@example.com" };
  const made = await browser.post(USERS, body, key);
  expect((await browser.post(USERS, body, key)).body.api_key.key).toBe(made.body.api_key.key);
  await setRole(id, null);
  await service.admin.request("DELETE", `/api/v1/admin/users/${made.body.user.id}`);
  await setRole(id, "admin");
  expect((await browser.post(USERS, body, key)).status).toBe(404);
});

it("wrong passwords are limited as for sign-in, and the limit is the account's own", async () => {
  const [{ browser }, other] = [await newPerson("admin"), await newPerson("admin")];
  const statuses: number[] = [];
  for (let nth = 0; nth < 32; nth += 1) statuses.push((await confirm(browser, "not my password")).status);
  expect(statuses.slice(0, 30)).toEqual(Array.from({ length: 30 }, () => 400));
  expect(statuses.slice(30)).toContain(429);
  expect((await confirm(browser)).status).toBe(429);
  expect((await confirm(other.browser)).status).toBe(200);
});

it("without PURSER_ADMIN_KEY the operator API answers 404 to sessions too", async () => {
  const { browser } = await newOperator();
  const headers = { Cookie: browser.cookie(), "Sec-Fetch-Site": "same-origin" };
  await service.restart({ PURSER_ADMIN_KEY: "" });
  expect((await fetch(`${service.url}/api/v1${USERS}`, { headers })).status).toBe(404);
  await service.restart();
});
