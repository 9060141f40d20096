import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Client, type Service, startService } from "../support/service.ts";

// Embedded storage on loopback without configuration: sign-ups need no link, and purchases cost nothing. A proxy on the
// same machine would offer both to the whole internet.

let service: Service;
let user: Client;
beforeAll(async () => {
  service = await startService();
  user = await service.newUser({ trial: false });
});
afterAll(() => service.stop());

let sequence = 0;
const signUp = () => {
  sequence += 1;
  return { path: "/auth/sign-up/email", body: { email: `person${sequence}@example.org`, password: "correct horse" } };
};
const writes: Record<string, () => { path: string; body: object }> = {
  "a sign-up": signUp,
  "a purchase": () => ({ path: "/billing/purchase", body: { amount_cents: 1_000_000 } }),
  "a subscription": () => ({ path: "/billing/subscription", body: { plan_id: "enterprise" } }),
};

/** fetch() sets its own Host. */
function post(path: string, body: object, headers: Record<string, string>) {
  const sent = { "Content-Type": "application/json", Authorization: `Bearer ${user.key}`, ...headers };
  // biome-ignore lint/suspicious/noExplicitAny: a test reads any field
  return new Promise<{ status: number; body: any }>((resolve, reject) => {
    const asked = request(`${service.url}/api/v1${path}`, { method: "POST", headers: sent }, async (answer) => {
      const text = Buffer.concat(await answer.toArray()).toString();
      resolve({ status: answer.statusCode ?? 0, body: JSON.parse(text) });
    });
    asked.on("error", reject);
    asked.end(JSON.stringify(body));
  });
}

const proxied: [string, Record<string, string>][] = [
  ["X-Forwarded-For", { "X-Forwarded-For": "203.0.113.9" }],
  ["X-Forwarded-For of this machine", { "X-Forwarded-For": "127.0.0.1" }],
  ["X-Forwarded-Host", { "X-Forwarded-Host": "localhost" }],
  ["X-Forwarded-Proto", { "x-forwarded-proto": "https" }],
  ["X-Forwarded-Port", { "X-Forwarded-Port": "443" }],
  ["an empty X-Forwarded-Server", { "X-Forwarded-Server": "" }],
  ["Forwarded", { Forwarded: "for=203.0.113.9" }],
  ["Via", { Via: "1.1 proxy" }],
  ["X-Real-IP", { "X-Real-IP": "203.0.113.9" }],
  ["the Host of a public name", { Host: "purser.example" }],
  ["a Host that begins like loopback", { Host: "127.0.0.1.example:3000" }],
];

describe.each(Object.keys(writes))("%s through a proxy that is not configured", (name) => {
  it.each(proxied)("is rejected: %s", async (_header, headers) => {
    const { path, body } = writes[name]?.() ?? signUp();
    const refused = await post(path, body, headers);
    expect([refused.status, refused.body.error.code]).toEqual([403, "proxy_not_configured"]);
    expect(refused.body.error.message).toMatch(/PURSER_PUBLIC_URL.*PURSER_TRUSTED_PROXIES/);
    expect((await user.get("/api/v1/users/me")).body).toMatchObject({ token_balance: 0, plan: null });
  });

  it.each(["127.0.0.1", "localhost:3000", "[::1]:3000", "127.8.8.8"])("is accepted at %s", async (Host) => {
    const { path, body } = writes[name]?.() ?? signUp();
    const buyer = await service.newUser({ trial: false });
    const { status, body: answer } = await post(path, body, { Host, Authorization: `Bearer ${buyer.key}` });
    expect([status, answer.error?.code]).toEqual([status < 300 ? status : 200, undefined]);
  });
});

it("a key's other calls work through such a proxy", async () => {
  const headers = { "X-Forwarded-For": "203.0.113.9" };
  expect((await user.get("/api/v1/billing/plans", headers)).status).toBe(200);
  expect((await user.post("/api/v1/api-keys", { name: "another" }, headers)).status).toBe(201);
});

it("with PURSER_PUBLIC_URL and PURSER_TRUSTED_PROXIES a sign-up through the proxy needs its link, and purchases are disabled", async () => {
  await service.restart({ PURSER_PUBLIC_URL: "https://purser.example", PURSER_TRUSTED_PROXIES: "127.0.0.1/32" });
  const headers = { "X-Forwarded-For": "203.0.113.9", Host: "purser.example" };
  const { path, body } = signUp();
  expect((await post(path, { ...body, password: undefined }, headers)).status).toBe(202);
  const bought = await post("/billing/purchase", { amount_cents: 100 }, headers);
  expect([bought.status, bought.body.error.code]).toEqual([503, "payments_not_configured"]);
});
