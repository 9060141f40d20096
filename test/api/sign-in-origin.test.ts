import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Browser, openBrowser } from "../support/browser.ts";
import { type Service, startService } from "../support/service.ts";
import { signUp } from "../support/sign-up.ts";

// OWASP, Cross-Site Request Forgery Prevention: verifying origin with standard headers.

const PASSWORD = "correct horse battery";
const EVIL = "https://evil.example";

let service: Service;
let browser: Browser;
let cookie: string;
beforeAll(async () => {
  service = await startService();
  browser = openBrowser(service.url);
  await signUp(service, { email: "ada@example.org", password: PASSWORD }, browser);
  cookie = browser.cookie();
});
afterAll(() => service.stop());

const refusal = ({ status, body }: { status: number; body: { error?: { code: string } } | null }) => [
  status,
  body?.error?.code,
];
const newKey = (headers: Record<string, string>) => browser.post("/api-keys", { name: "forged" }, headers);

describe("the session cookie is accepted only from the service's own pages", () => {
  it.each([
    ["another site", { Origin: EVIL }],
    ["a neighbour on another port", { Origin: "http://127.0.0.1:1" }],
    ["the same host over https", { Origin: "https://127.0.0.1" }],
    ["a sandboxed frame", { Origin: "null" }],
    ["no origin at all", {}],
    ["no origin, although the browser says same-origin", { "Sec-Fetch-Site": "same-origin" }],
  ])("a write from %s is rejected and writes nothing", async (_, headers) => {
    expect(refusal(await newKey(headers))).toEqual([403, "origin_refused"]);
    expect((await browser.get("/api-keys")).body.api_keys).toEqual([]);
  });

  it.each([
    ["another site's Origin", { Origin: EVIL }, 403],
    ["Sec-Fetch-Site: cross-site", { "Sec-Fetch-Site": "cross-site" }, 403],
    ["Sec-Fetch-Site: same-site", { "Sec-Fetch-Site": "same-site" }, 403],
    ["another site's Referer", { Referer: `${EVIL}/page` }, 403],
    ["no header about its origin", {}, 403],
    ["Sec-Fetch-Site: same-origin", { "Sec-Fetch-Site": "same-origin" }, 200],
  ])("a read with %s", async (_, headers, status) => {
    expect((await browser.get("/users/me", headers)).status).toBe(status);
  });

  it("a read on plain http, where browsers send no Sec-Fetch-Site, is checked by its Referer", async () => {
    expect((await browser.get("/users/me", { Referer: `${service.url}/agents` })).status).toBe(200);
  });

  it("on loopback the service's own pages have three names, and one port", async () => {
    const { port } = new URL(service.url);
    for (const host of ["127.0.0.1", "localhost", "[::1]"]) {
      expect((await newKey({ Origin: `http://${host}:${port}` })).status, host).toBe(201);
    }
    expect((await newKey({ Origin: "http://localhost" })).status).toBe(403);
  });

  it("an API key has priority over the cookie", async () => {
    const { body } = await browser.post("/api-keys", { name: "narrow", scopes: ["chat:read"] });
    const headers = { Cookie: cookie, Authorization: `Bearer ${body.key}`, Origin: EVIL };
    expect(refusal(await browser.get("/api-keys", headers))).toEqual([403, "insufficient_scope"]);
    const wrong = { Cookie: cookie, Authorization: "Bearer nonsense", Origin: service.url };
    expect(refusal(await browser.get("/users/me", wrong))).toEqual([401, "invalid_api_key"]);
  });

  it.each([
    ["short", "x"],
    ["of the right length", "a".repeat(43)],
    ["an escape", "%00"],
    ["a quote", "'--"],
    ["long", "a".repeat(5000)],
  ])("a forged cookie is invalid: %s", async (_, value) => {
    const headers = { Cookie: `purser_session=${value}`, "Sec-Fetch-Site": "same-origin" };
    expect(refusal(await openBrowser(service.url).get("/users/me", headers))).toEqual([401, "session_expired"]);
  });
});

describe("signing in (login CSRF)", () => {
  it("another site's page cannot sign a person in, up or out", async () => {
    const other = openBrowser(service.url, EVIL);
    const credentials = { email: "ada@example.org", password: PASSWORD };
    expect(refusal(await other.post("/auth/sign-in/email", credentials))).toEqual([403, "origin_refused"]);
    expect(refusal(await other.post("/auth/sign-up/email", credentials))).toEqual([403, "origin_refused"]);
    expect(refusal(await browser.post("/auth/sign-out", {}, { Origin: EVIL }))).toEqual([403, "origin_refused"]);
    expect(refusal(await browser.post("/auth/sign-out", {}, {}))).toEqual([403, "origin_refused"]);
    expect((await browser.get("/users/me")).status).toBe(200);
  });

  it("a form, which any site can send without permission, is rejected", async () => {
    const answer = await fetch(`${service.url}/api/v1/auth/sign-in/email`, {
      method: "POST",
      headers: { "Content-Type": "text/plain", Origin: service.url },
      body: JSON.stringify({ email: "ada@example.org", password: PASSWORD }),
    });
    expect(answer.status).toBe(415);
  });

  it("no answer allows another origin to read it", async () => {
    const answer = await browser.get("/users/me", { Origin: service.url });
    expect([...answer.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  });
});

describe("behind https", () => {
  it("the cookie is limited to https and this host, and PURSER_PUBLIC_URL is the one origin", async () => {
    await service.restart({ PURSER_PUBLIC_URL: "https://purser.example" });
    const away = openBrowser(service.url, "https://purser.example");
    const answer = await away.post("/auth/sign-in/email", { email: "ada@example.org", password: PASSWORD });
    const [line] = answer.headers.getSetCookie();
    expect(line).toMatch(/^__Host-purser_session=[\w-]{43}; Max-Age=\d+; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
    expect((await away.get("/users/me")).status).toBe(200);
    expect(refusal(await away.get("/users/me", { Origin: service.url }))).toEqual([403, "origin_refused"]);
    // A cookie from plain http is rejected.
    const old = { Cookie: cookie, Origin: "https://purser.example" };
    expect(refusal(await openBrowser(service.url).get("/users/me", old))).toEqual([401, "missing_api_key"]);
    await service.restart();
  });
});
