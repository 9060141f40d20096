import { get } from "node:http";
import { promisify } from "node:util";
import { brotliCompress, constants } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { KEYLESS_PER_MINUTE } from "../../src/api/http/keyless-limit.ts";
import { STREAMS_PER_USER } from "../../src/api/http/live-callers.ts";
import { ask, type Lab, startLab } from "../support/lab.ts";
import { metricsOf } from "../support/metrics.ts";
import { ADMIN_KEY, type Client, type Service, startService } from "../support/service.ts";
import { completion, hanging } from "../support/upstream.ts";

// Attacks that need no key, or only a cheap one, and once slowed a node down for all others: contract 1.7, 2.12 and 2.13.

let lab: Lab;
let service: Service;
let user: Client;
beforeAll(async () => {
  const env = { PURSER_TRUSTED_PROXIES: "127.0.0.1/32", PURSER_PUBLIC_URL: "https://purser.example" };
  lab = await startLab(undefined, { env });
  service = lab.service;
  user = await service.newUser({ trial: false, tokens: 10_000_000 });
});
afterAll(() => lab.stop());

interface Asked {
  method?: string;
  key?: string | undefined;
  from?: string;
  headers?: Record<string, string>;
}
async function read(path: string, { method = "GET", key, from = "192.0.2.1", headers = {} }: Asked = {}) {
  const authorization = key === undefined ? {} : { Authorization: `Bearer ${key}` };
  const sent = { "X-Forwarded-For": from, ...authorization, ...headers };
  const response = await fetch(service.url + path, { method, headers: sent, redirect: "manual" });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

describe("/metrics on the public port", () => {
  const GUESSED = `purser_live_${"0".repeat(40)}`;

  it("is for operators only, by PURSER_ADMIN_KEY or a named key of any role until it is revoked", async () => {
    const made = await service.admin.post("/api/v1/admin/keys", { name: "prometheus", role: "read" });
    const { key, id } = made.body;
    const statuses = async (of: string | undefined) =>
      Promise.all(["GET", "HEAD"].map(async (method) => (await read("/metrics", { method, key: of })).status));
    expect(await statuses(undefined)).toEqual([401, 401]);
    expect(await statuses(user.key)).toEqual([401, 401]);
    expect(await statuses(GUESSED)).toEqual([401, 401]);
    expect(await statuses(ADMIN_KEY)).toEqual([200, 200]);
    expect(await statuses(key)).toEqual([200, 200]);
    await service.admin.request("DELETE", `/api/v1/admin/keys/${id}`);
    expect(await statuses(key)).toEqual([401, 401]);
  });

  it("is off without an operator's key in the settings", async () => {
    const other = await startService({ env: { PURSER_ADMIN_KEY: "" } });
    for (const key of [undefined, ADMIN_KEY, GUESSED]) {
      const headers: Record<string, string> = key === undefined ? {} : { Authorization: `Bearer ${key}` };
      expect((await fetch(`${other.url}/metrics`, { headers })).status).toBe(404);
    }
    await other.stop();
  });

  it("is made at most once a second, however often it is read", async () => {
    const began_ms = performance.now();
    const texts = new Set<string>();
    for (let wave = 0; wave < 20; wave += 1) {
      const answers = await Promise.all(Array.from({ length: 20 }, () => read("/metrics", { key: ADMIN_KEY })));
      for (const { text } of answers) texts.add(text);
    }
    expect(texts.size).toBeLessThanOrEqual(Math.floor((performance.now() - began_ms) / 1_000) + 2);
  });
});

describe("the labels of the metrics", () => {
  const METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "PROPFIND", "MKCOL", "PURGE", "SEARCH", "LOCK", "REPORT"];
  const seriesIn = (text: string) =>
    new Set(text.split("\n").flatMap((line) => /^(purser_\w+(?:\{.*\})?) /.exec(line)?.[1] ?? []));

  /** Requests in which every part that a caller chooses is made up, with and without a key. */
  async function attack(word: string) {
    const { paths } = JSON.parse((await read("/openapi.json")).text);
    const known = Object.keys(paths).map((path) => path.replaceAll(/\{\w+\}/g, word));
    const routes = [
      `/${word}`,
      `/api/v1/${word}`,
      `/assets/${word}.js`,
      `/api/v1/auth/${word}`,
      `/docs/${word}`,
      ...known,
    ];
    for (const [nth, route] of routes.entries()) {
      const from = `198.51.100.${nth % 200}`;
      await Promise.all(METHODS.map((method) => read(route, { method, from })));
    }
    for (const key of [user.key, `purser_live_${word.padEnd(40, "x")}`, ADMIN_KEY]) {
      for (const method of METHODS) {
        for (const route of [`/${word}`, `/api/v1/${word}`, `/api/v1/agents/${word}`])
          await read(route, { method, key });
      }
    }
    const message = [{ role: "user", content: "hello" }];
    for (const model of [word, `lab/${word}`, `agent/${word}`, `agent/018f3c6e-0000-7000-8000-000000000000`]) {
      await user.post("/api/v1/chat/completions", { model, messages: message, user: word, metadata: { [word]: word } });
      await user.post("/api/v1/embeddings", { model, input: word });
    }
    lab.upstream.answer(completion());
    await user.post("/api/v1/chat/completions", { ...ask("lab/plain"), user: word, metadata: { [word]: word } });
    const agent = { name: word, model_id: "lab/plain", run_prompt: word };
    const { id } = (await user.post("/api/v1/agents", agent)).body;
    await user.post(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=30" });
    await user.post("/api/v1/chat/completions", ask(`agent/${id}`));
  }

  it("do not grow by what callers make up: routes, methods, models, agents, users and metadata", async () => {
    await attack("firstword");
    const before = seriesIn(await metricsOf(service.url));
    await attack("secondword");
    const text = await metricsOf(service.url);
    expect([...seriesIn(text)].filter((series) => !before.has(series))).toEqual([]);
    expect(text).not.toMatch(/firstword|secondword|PROPFIND|MKCOL/);
  });

  it("do not grow with the routes of the API that a caller without a key tries", async () => {
    const { paths } = JSON.parse((await read("/openapi.json")).text);
    const text = await metricsOf(service.url);
    const tried = Object.keys(paths).filter((path) => path.startsWith("/api/v1/admin/"));
    for (const route of tried) expect(text).not.toContain(`route="${route}",status="401"`);
  });
});

describe("requests without a key", () => {
  /** Each kind of request that proves no key. Those with a key are of routes that ask for none, or have none at all. */
  const KINDS: [string, Asked][] = [
    ["/nowhere", {}],
    ["/nowhere", { key: "made-up" }],
    ["/openapi.json", { headers: { "Accept-Encoding": "gzip" } }],
    ["/docs", {}],
    ["/", {}],
    ["/page", { headers: { Accept: "text/html" } }],
    ["/nul%00", {}],
    ["/api/v1/agents", {}],
    ["/api/v1/nowhere", {}],
    ["/api/v1/agents", { method: "OPTIONS" }],
    ["/api/v1/chat/completions", { method: "POST" }],
    ["/api/v1/admin/users", {}],
    ["/metrics", {}],
    ["/metrics", { method: "POST" }],
  ];

  it("have one limit per address, over all routes; a valid key, health and other addresses are always answered", async () => {
    const from = "203.0.113.7";
    const statuses = new Set<number>();
    for (let sent = KINDS.length; sent < KEYLESS_PER_MINUTE; sent += KINDS.length) {
      const answers = await Promise.all(KINDS.map(([path, asked]) => read(path, { ...asked, from })));
      for (const { status } of answers) statuses.add(status);
    }
    expect([...statuses].sort()).toEqual([200, 400, 401, 404, 405]);
    // The limit refills with 20 requests a second while the test works, so each kind is sent until one is over it.
    for (const [path, asked] of KINDS) {
      const over = async () => {
        const answers = await Promise.all(Array.from({ length: 50 }, () => read(path, { ...asked, from })));
        return answers.find(({ status }) => status === 429);
      };
      const rejected = await vi.waitUntil(over, { timeout: 60_000, interval: 0 });
      expect.soft(Number(rejected.headers.get("Retry-After")), path).toBeGreaterThan(0);
      const { error } = JSON.parse(rejected.text);
      expect.soft(error, path).toMatchObject({ type: "rate_limit_error", code: "rate_limited" });
    }
    expect((await read("/api/v1/agents", { from, key: user.key })).status).toBe(200);
    expect((await read("/api/v1/admin/users", { from, key: ADMIN_KEY })).status).toBe(200);
    for (const path of ["/livez", "/readyz"]) expect((await read(path, { from })).status).toBe(200);
    for (const path of ["/nowhere", "/openapi.json"]) expect((await read(path)).status).not.toBe(429);
  });

  it("of /openapi.json do not compress it again", { retry: 2 }, async () => {
    const one = async (encoding: string) => {
      const headers = { "Accept-Encoding": encoding, "X-Forwarded-For": "192.0.2.9" };
      const answer = await fetch(`${service.url}/openapi.json`, { headers });
      return { encoding: answer.headers.get("Content-Encoding"), text: await answer.text() };
    };
    const plain = await one("identity");
    expect(plain.encoding).toBeNull();
    for (const encoding of ["br", "gzip"]) expect(await one(encoding)).toEqual({ encoding, text: plain.text });
    /** Reads it as it is sent, so that this process decompresses nothing. */
    const readRaw = () =>
      new Promise((resolve, reject) => {
        const headers = { "Accept-Encoding": "br", "X-Forwarded-For": "192.0.2.9" };
        get(`${service.url}/openapi.json`, { headers }, (answer) => answer.resume().on("end", resolve)).on(
          "error",
          reject,
        );
      });
    const processorTime = async (work: () => Promise<unknown>) => {
      const before = process.cpuUsage();
      for (let nth = 0; nth < 50; nth += 1) await work();
      const { user: user_us, system } = process.cpuUsage(before);
      return user_us + system;
    };
    const params = { [constants.BROTLI_PARAM_QUALITY]: 4 };
    const compressing = await processorTime(() => promisify(brotliCompress)(Buffer.from(plain.text), { params }));
    expect(await processorTime(readRaw)).toBeLessThan(compressing);
  });
});

describe("streams of one user", () => {
  it("beyond the limit of a node are 429 with Retry-After, also run events and agents; other users stream on", async () => {
    const agent = { name: "Slow", model_id: "lab/plain", run_prompt: "Go." };
    const { id } = (await user.post("/api/v1/agents", agent)).body;
    lab.upstream.answer(hanging());
    const asked = lab.upstream.requests.length;
    const run = (await user.post(`/api/v1/agents/${id}/runs`)).body;
    await lab.upstream.until(() => lab.upstream.requests.length > asked);
    const events = `/api/v1/agents/${id}/runs/${run.id}/events`;
    const leaving = new AbortController();
    const follow = async () => {
      const headers = { Authorization: `Bearer ${user.key}` };
      const answer = await fetch(service.url + events, { headers, signal: leaving.signal });
      if (answer.status !== 200) await answer.text();
      return answer;
    };
    const opened: Response[] = [];
    while (opened.length < STREAMS_PER_USER) opened.push(...(await Promise.all(Array.from({ length: 50 }, follow))));
    expect(opened.filter(({ status }) => status !== 200)).toEqual([]);
    const refused = [
      await user.get(events),
      await user.post("/api/v1/chat/completions", ask("lab/plain", { stream: true })),
      await user.post("/api/v1/messages", ask("lab/plain", { stream: true, max_tokens: 10 })),
      await user.post("/api/v1/responses", { model: "lab/plain", input: "hello", stream: true }),
      await user.post(`/api/v1/agents/${id}/chat`, { messages: [{ role: "user", content: "hello" }], stream: true }),
    ];
    for (const { status, headers, body } of refused) {
      expect.soft([status, body.error.type]).toEqual([429, "rate_limit_error"]);
      expect.soft(Number(headers.get("Retry-After"))).toBeGreaterThan(0);
      expect.soft(body.error.message).toContain("open streams");
    }
    expect((await user.get(`/api/v1/agents/${id}`)).status).toBe(200);
    const other = await service.newUser({ trial: false, tokens: 100_000 });
    lab.upstream.answer(completion());
    const stream = () => ask("lab/plain", { stream: true });
    expect((await other.post("/api/v1/chat/completions", stream())).status).toBe(200);
    leaving.abort();
    await expect.poll(async () => (await user.post("/api/v1/chat/completions", stream())).status).toBe(200);
    await user.post(`/api/v1/agents/${id}/runs/${run.id}/cancel`);
  });
});

describe("Strict-Transport-Security", () => {
  it.each([
    ["GET", "/"],
    ["GET", "/docs"],
    ["GET", "/nowhere"],
    ["GET", "/api/v1/agents"],
    ["POST", "/api/v1/chat/completions"],
    ["OPTIONS", "/api/v1/agents"],
  ])("is on %s %s where PURSER_PUBLIC_URL is https", async (method, path) => {
    const { headers } = await read(path, { method, key: user.key });
    expect(headers.get("Strict-Transport-Security")).toMatch(/^max-age=\d{8,}$/);
  });

  it("is on a model call's answer and its stream", async () => {
    lab.upstream.answer(completion());
    for (const stream of [false, true]) {
      const { status, headers } = await user.post("/api/v1/chat/completions", ask("lab/plain", { stream }));
      expect([status, headers.get("Strict-Transport-Security")]).toEqual([200, expect.stringMatching(/^max-age=/)]);
    }
  });

  it("is on no answer where the address is http", async () => {
    const other = await startService();
    for (const path of ["/", "/api/v1/agents", "/livez"]) {
      expect((await fetch(other.url + path)).headers.get("Strict-Transport-Security")).toBeNull();
    }
    await other.stop();
  });
});
