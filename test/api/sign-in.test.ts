import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { type Browser, openBrowser } from "../support/browser.ts";
import { type Service, startService } from "../support/service.ts";
import { signUp } from "../support/sign-up.ts";

const PASSWORD = "correct horse battery";
const START = "2026-03-01T00:00:00Z";

let service: Service;
beforeAll(async () => {
  service = await startService({ env: { PURSER_TEST_CLOCK: START } });
});
afterAll(() => service.stop());

let sequence = 0;
const newAddress = () => {
  sequence += 1;
  return `person${sequence}@example.org`;
};

/** A person who has signed up and is signed in. */
async function signedUp(): Promise<{ browser: Browser; email: string; id: string }> {
  const browser = openBrowser(service.url);
  const email = newAddress();
  const { status, body } = await signUp(service, { email, password: PASSWORD }, browser);
  expect(status).toBe(201);
  return { browser, email, id: body.user.id };
}
const signIn = (email: string, password = PASSWORD, browser = openBrowser(service.url)) =>
  browser.post("/auth/sign-in/email", { email, password }).then((answer) => ({ ...answer, browser }));
const codeOf = ({ status, body }: { status: number; body: { error?: { code: string } } | null }) => [
  status,
  body?.error?.code,
];

describe("signing up and in (contract 3)", () => {
  it("a sign-up gets a trial", async () => {
    const { browser, email } = await signedUp();
    const me = await browser.get("/users/me");
    expect(me.body).toMatchObject({ email, token_balance: 625_000, is_trial: true });
    expect((await browser.get("/api-keys")).body.api_keys).toEqual([]);
    expect((await service.admin.get("/api/v1/admin/audit")).body.ok).toBe(true);
  });

  it("the session endpoint returns the signed-in user, or null", async () => {
    const { browser, email, id } = await signedUp();
    const { body } = await browser.get("/auth/get-session");
    expect(body).toEqual({
      user: { id, email },
      session: { expires_at: "2026-03-31T00:00:00.000Z" },
      signup: "open",
      verification: service.database.kind === "embedded" ? "none" : "link",
      delivery: "log",
    });
    const nobody = await openBrowser(service.url).get("/auth/get-session");
    expect(nobody.body).toMatchObject({ user: null, session: null });
  });

  it.runIf(inject("storage").kind === "embedded")(
    "on loopback without SMTP_URL, a sign-up needs no link but a password",
    async () => {
      const post = (body: object) => openBrowser(service.url).post("/auth/sign-up/email", body);
      const email = newAddress();
      const refused = await post({ email });
      expect([...codeOf(refused), refused.body.error.param]).toEqual([400, "missing_field", "password"]);
      expect((await post({ email, password: PASSWORD })).body).toMatchObject({ user: { email }, trial: "granted" });
      expect(codeOf(await post({ email, password: PASSWORD }))).toEqual([409, "email_taken"]);
    },
  );

  it("all spellings of an address are one account", async () => {
    const { email } = await signedUp();
    const again = await signUp(service, { email: email.toUpperCase(), password: PASSWORD });
    expect(again.status).not.toBe(201);
    expect((await signIn(email.toUpperCase())).status).toBe(200);
  });

  it("a wrong password, an unknown address and a user without a password get the same answer", async () => {
    const { email } = await signedUp();
    const made = await service.admin.post("/api/v1/admin/users", { email: newAddress() });
    const answers = await Promise.all([
      signIn(email, "wrong password"),
      signIn("nobody@example.org"),
      signIn(made.body.user.email),
    ]);
    const shown = answers.map(({ status, body }) => [status, { ...body.error, request_id: "" }]);
    expect(shown[0]).toMatchObject([401, { code: "invalid_credentials" }]);
    expect(shown[1]).toEqual(shown[0]);
    expect(shown[2]).toEqual(shown[0]);
    expect(answers.every(({ headers }) => headers.getSetCookie().length === 0)).toBe(true);
  });

  it("a password in another Unicode form is the same password", async () => {
    const email = newAddress();
    await signUp(service, { email, password: "caf\u00e9 au lait" });
    expect((await signIn(email, "cafe\u0301 au lait")).status).toBe(200);
  });

  it("an answer is not cacheable, and shows no token to scripts", async () => {
    const { browser, email } = await signedUp();
    const answer = await signIn(email);
    expect(answer.headers.get("Cache-Control")).toBe("no-store");
    const [line = ""] = answer.headers.getSetCookie();
    expect(line).toMatch(/^purser_session=[\w-]{43}; Max-Age=2592000; Path=\/; HttpOnly; SameSite=Lax$/);
    expect(JSON.stringify(answer.body)).not.toContain(line.slice(15, 58));
    expect(browser.cookie()).not.toBe(answer.browser.cookie());
  });

  it("PURSER_SIGNUP=closed rejects new people, and existing users can sign in", async () => {
    const { email } = await signedUp();
    await service.restart({ PURSER_SIGNUP: "closed" });
    const refused = await openBrowser(service.url).post("/auth/sign-up/email", {
      email: newAddress(),
      password: PASSWORD,
    });
    expect(codeOf(refused)).toEqual([403, "signup_closed"]);
    expect((await signIn(email)).status).toBe(200);
    await service.restart();
  });
});

describe("a session", () => {
  it("has all scopes for /api/v1, but no access to the operator's API without a role", async () => {
    const { browser } = await signedUp();
    const key = await browser.post("/api-keys", { name: "from the console" });
    expect([key.status, key.body.scopes.length]).toEqual([201, 10]);
    expect((await service.as(key.body.key).get("/api/v1/users/me")).status).toBe(200);
    const agent = await browser.post("/agents", { name: "mine", model_id: "purser/rehearsal" });
    expect(agent.status).toBe(201);
    expect((await browser.get("/admin/users")).body.error.code).toBe("insufficient_role");
  });

  it("ends with its sign-out, and another session of the same person does not", async () => {
    const { browser, email } = await signedUp();
    const other = (await signIn(email)).browser;
    const stolen = browser.cookie();
    expect((await browser.post("/auth/sign-out")).status).toBe(204);
    expect(browser.cookie()).toBe("");
    const headers = { Cookie: stolen, "Sec-Fetch-Site": "same-origin" };
    expect(codeOf(await openBrowser(service.url).get("/users/me", headers))).toEqual([401, "session_expired"]);
    expect((await other.get("/users/me")).status).toBe(200);
    expect((await browser.post("/auth/sign-out")).status).toBe(204);
  });

  it("ends everywhere at once", async () => {
    const { browser, email } = await signedUp();
    const others = await Promise.all([signIn(email), signIn(email)]);
    for (const other of others) expect((await other.browser.get("/users/me")).status).toBe(200);
    expect((await browser.post("/auth/sign-out-everywhere")).status).toBe(204);
    for (const other of others) {
      expect(codeOf(await other.browser.get("/users/me"))).toEqual([401, "session_expired"]);
    }
  });

  it("is ended by a change of password in another session, which requires the old password", async () => {
    const { browser, email } = await signedUp();
    const other = (await signIn(email)).browser;
    const change = (current_password: string) =>
      browser.post("/auth/change-password", { current_password, new_password: "another horse entirely" });
    const refused = await change("not my password");
    expect([...codeOf(refused), refused.body.error.param]).toEqual([400, "invalid_value", "current_password"]);
    expect((await change(PASSWORD)).status).toBe(200);
    expect((await browser.get("/users/me")).status).toBe(200);
    expect(codeOf(await other.get("/users/me"))).toEqual([401, "session_expired"]);
    expect((await signIn(email)).status).toBe(401);
    expect((await signIn(email, "another horse entirely")).status).toBe(200);
  });

  it("of a suspended user gets 403 until they are resumed, and so does their password", async () => {
    const { browser, email, id } = await signedUp();
    expect((await browser.get("/users/me")).status).toBe(200);
    await service.admin.post(`/api/v1/admin/users/${id}/suspend`);
    expect(codeOf(await browser.get("/users/me"))).toEqual([403, "account_suspended"]);
    expect(codeOf(await signIn(email))).toEqual([403, "account_suspended"]);
    expect(codeOf(await signIn(email, "wrong password"))).toEqual([401, "invalid_credentials"]);
    await service.admin.post(`/api/v1/admin/users/${id}/resume`);
    expect((await browser.get("/users/me")).status).toBe(200);
  });

  it("of an erased user is invalid, and their address is free again", async () => {
    const { browser, email, id } = await signedUp();
    expect((await browser.get("/users/me")).status).toBe(200);
    expect((await service.admin.request("DELETE", `/api/v1/admin/users/${id}`)).status).toBe(204);
    expect(codeOf(await browser.get("/users/me"))).toEqual([401, "session_expired"]);
    expect((await signIn(email)).status).toBe(401);
    const again = await signUp(service, { email, password: PASSWORD });
    expect(again.status).toBe(201);
    expect(again.body.user.id).not.toBe(id);
  });

  it("ends when the user deletes the account and all its data, which requires the password", async () => {
    const { browser, email, id } = await signedUp();
    const other = (await signIn(email)).browser;
    const { key } = (await browser.post("/api-keys", { name: "program" })).body;
    await browser.post("/secrets", { name: "STRIPE", value: "sk_test_0123456789abcdef" });
    const erase = (current_password: string) => browser.post("/auth/delete-account", { current_password });
    const refused = await erase("not my password");
    expect([...codeOf(refused), refused.body.error.param]).toEqual([400, "invalid_value", "current_password"]);
    expect((await browser.get("/users/me")).status).toBe(200);
    expect((await erase(PASSWORD)).status).toBe(204);
    await expect.poll(async () => codeOf(await other.get("/users/me"))).toEqual([401, "session_expired"]);
    await expect.poll(async () => (await service.as(key).get("/api/v1/users/me")).status).toBe(401);
    expect(codeOf(await erase(PASSWORD))).toEqual([401, "session_expired"]);
    expect((await signIn(email)).status).toBe(401);
    expect((await service.admin.get(`/api/v1/admin/users/${id}`)).status).toBe(404);
    expect((await service.admin.get("/api/v1/admin/audit")).body.ok).toBe(true);
  });

  it("expires after 30 days, with a code that says so", async () => {
    const { browser } = await signedUp();
    await service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-03-30T23:59:59Z" });
    expect((await browser.get("/users/me")).status).toBe(200);
    await service.admin.request("PUT", "/api/v1/admin/clock", { now: "2026-03-31T00:00:00Z" });
    expect(codeOf(await browser.get("/users/me"))).toEqual([401, "session_expired"]);
    expect((await browser.get("/auth/get-session")).body.user).toBeNull();
    expect(codeOf(await browser.post("/auth/sign-out-everywhere"))).toEqual([401, "session_expired"]);
  });

  it("survives a restart of the service", async () => {
    const { browser } = await signedUp();
    const cookie = browser.cookie();
    await service.restart();
    const after = await openBrowser(service.url).get("/users/me", {
      Cookie: cookie,
      "Sec-Fetch-Site": "same-origin",
    });
    expect(after.status).toBe(200);
  });
});
