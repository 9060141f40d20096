import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openBrowser } from "../support/browser.ts";
import { type Service, startService } from "../support/service.ts";
import { tokenOf } from "../support/sign-up.ts";

const PASSWORD = "correct horse battery";

let service: Service;
beforeAll(async () => {
  service = await startService({ env: { PURSER_TRUSTED_PROXIES: "127.0.0.0/8, 10.0.0.0/8" } });
});
afterAll(() => service.stop());

const from = (forwarded: string, path: string, body: object) =>
  openBrowser(service.url).post(`/auth${path}`, body, { Origin: service.url, "X-Forwarded-For": forwarded });
const signUp = (forwarded: string, email: string) => from(forwarded, "/sign-up/email", { email });
const signIn = (forwarded: string, email: string, password: string) =>
  from(forwarded, "/sign-in/email", { email, password });
const reset = (forwarded: string, email: string) => from(forwarded, "/request-password-reset", { email });
const statuses = (answers: { status: number }[]) => answers.map(({ status }) => status);

/** A person with a password, who signed up from the address `forwarded`. */
async function person(forwarded: string, email: string) {
  expect((await signUp(forwarded, email)).status).toBe(202);
  const token = tokenOf(service.linkTo(email));
  expect((await from(forwarded, "/verify-email", { token, password: PASSWORD })).status).toBe(201);
}

describe("limits on signing in (contract 3)", () => {
  it("sign-ups of one client: 30 an hour; another client is not limited", async () => {
    for (let index = 0; index < 30; index += 1) {
      expect((await signUp("192.0.2.1", `ada${index}@example.org`)).status).toBe(202);
    }
    const refused = await signUp("192.0.2.1", "new@example.org");
    expect([refused.status, refused.body.error.code]).toEqual([429, "rate_limited"]);
    expect(Number(refused.headers.get("Retry-After"))).toBeGreaterThan(60);
    expect((await signUp("192.0.2.2", "new@example.org")).status).toBe(202);
  });

  it("forged X-Forwarded-For entries are ignored, and malformed requests do not count", async () => {
    const resetPassword = (forwarded: string, token: unknown = "x") =>
      from(forwarded, "/reset-password", { token, new_password: PASSWORD });
    let counted = 0;
    // One token returns every six seconds, so a slow machine has some more attempts.
    while (counted < 200) {
      const attempt = await resetPassword(`198.51.100.${counted}, 192.0.2.7, 10.1.2.3`);
      if (attempt.status === 429) break;
      expect(attempt.body.error.param).toBe("token");
      counted += 1;
      expect([400, 429]).toContain((await resetPassword("192.0.2.7", 5)).status);
    }
    expect(counted).toBeGreaterThanOrEqual(100);
    expect(counted).toBeLessThan(200);
    expect((await resetPassword("192.0.2.8")).status).toBe(400);
  });

  it("lock-out by e-mail address: one stranger's wrong passwords do not lock the owner out", async () => {
    const email = "grace@example.org";
    await person("192.0.2.3", email);
    const wrong = await Promise.all(Array.from({ length: 40 }, () => signIn("192.0.2.66", email, "wrong password")));
    expect(statuses(wrong).filter((status) => status === 401)).toHaveLength(30);
    expect(statuses(wrong).filter((status) => status === 429)).toHaveLength(10);
    expect((await signIn("192.0.2.3", email, PASSWORD)).status).toBe(200);
    // The stranger's mails to this address do not use up the owner's token bucket either.
    for (let index = 0; index < 7; index += 1) await reset("192.0.2.66", email);
    for (let index = 0; index < 7; index += 1) await signUp("192.0.2.66", email);
    expect((await reset("192.0.2.66", email)).status).toBe(429);
    expect((await reset("192.0.2.3", email)).status).toBe(202);
  });

  it("guessing from many clients: 100 attempts at one account from all clients together; the owner's session still works", async () => {
    const email = "alan@example.org";
    await person("192.0.2.4", email);
    const owner = openBrowser(service.url);
    await owner.post("/auth/sign-in/email", { email, password: PASSWORD });
    const guesses = Array.from({ length: 110 }, (_, index) => signIn(`198.18.0.${index}`, email, "wrong password"));
    expect(statuses(await Promise.all(guesses)).filter((status) => status === 401)).toHaveLength(99);
    const right = await signIn("192.0.2.200", email, PASSWORD);
    expect([right.status, right.body.error.code]).toEqual([429, "rate_limited"]);
    const change = { current_password: PASSWORD, new_password: "another horse entirely" };
    expect((await owner.post("/auth/change-password", change)).status).toBe(200);
  });

  it("guessing the present password in a session: 30 attempts", async () => {
    const email = "joan@example.org";
    await person("192.0.2.9", email);
    const owner = openBrowser(service.url);
    await owner.post("/auth/sign-in/email", { email, password: PASSWORD });
    const change = (current_password: string) =>
      owner.post("/auth/change-password", { current_password, new_password: "another horse entirely" });
    const guesses = await Promise.all(Array.from({ length: 40 }, () => change("wrong password")));
    expect(statuses(guesses).filter((status) => status === 400)).toHaveLength(30);
    expect((await change(PASSWORD)).status).toBe(429);
  });

  it("mails, resets and sign-ins have separate token buckets", async () => {
    const email = "mary@example.org";
    await person("192.0.2.5", email);
    for (let index = 0; index < 30; index += 1) await signIn("192.0.2.5", email, "wrong password");
    expect((await signIn("192.0.2.5", email, PASSWORD)).status).toBe(429);
    for (let index = 0; index < 5; index += 1) expect((await reset("192.0.2.5", email)).status).toBe(202);
    expect((await reset("192.0.2.5", email)).status).toBe(429);
    expect((await signUp("192.0.2.5", email)).status).toBe(202);
  });
});
