import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openBrowser } from "../support/browser.ts";
import { type Service, startService } from "../support/service.ts";

const PASSWORD = "correct horse battery";

let service: Service;
beforeAll(async () => {
  service = await startService({ env: { PURSER_TRUSTED_PROXIES: "127.0.0.0/8, 10.0.0.0/8" } });
});
afterAll(() => service.stop());

const from = (forwarded: string, path: string, body: object) =>
  openBrowser(service.url).post(`/auth${path}`, body, { Origin: service.url, "X-Forwarded-For": forwarded });
const signUp = (forwarded: string, email: string) => from(forwarded, "/sign-up/email", { email, password: PASSWORD });
const signIn = (forwarded: string, password: string) =>
  from(forwarded, "/sign-in/email", { email: "grace@example.org", password });

describe("limits on signing in (contract 3)", () => {
  it("sign-ups of one address: 30 an hour; another address is not concerned", async () => {
    expect((await signUp("192.0.2.1", "ada@example.org")).status).toBe(201);
    for (let index = 1; index < 30; index += 1) {
      expect((await signUp("192.0.2.1", "ada@example.org")).status).toBe(409);
    }
    const refused = await signUp("192.0.2.1", "new@example.org");
    expect([refused.status, refused.body.error.code]).toEqual([429, "rate_limited"]);
    expect(Number(refused.headers.get("Retry-After"))).toBeGreaterThan(60);
    expect((await signUp("192.0.2.2", "new@example.org")).status).toBe(201);
  });

  it("what a client writes before its proxy does is not believed, and what is not well formed uses nothing up", async () => {
    const reset = (forwarded: string, token: unknown = "x") =>
      from(forwarded, "/reset-password", { token, new_password: PASSWORD });
    for (let index = 0; index < 100; index += 1) {
      expect((await reset(`198.51.100.${index}, 192.0.2.7`)).body.error.param).toBe("token");
      expect((await reset("192.0.2.7", 5)).status).toBe(400);
    }
    expect((await reset("198.51.100.200, 192.0.2.7, 10.1.2.3")).status).toBe(429);
    expect((await reset("192.0.2.8")).status).toBe(400);
  });

  it("tries at one account, wherever they come from; the right password waits too", async () => {
    expect((await signUp("192.0.2.3", "grace@example.org")).status).toBe(201);
    const wrong = Array.from({ length: 30 }, (_, index) => signIn(`192.0.2.${100 + index}`, "wrong password"));
    expect((await Promise.all(wrong)).map(({ status }) => status)).toEqual(Array(30).fill(401));
    const right = await signIn("192.0.2.200", PASSWORD);
    expect([right.status, right.body.error.code]).toEqual([429, "rate_limited"]);
  });
});
