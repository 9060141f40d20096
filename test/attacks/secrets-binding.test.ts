import { createHmac } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ToolCall } from "../../src/agents/tools/tools.types.ts";
import type { AuthSettings, WebFetchSettings } from "../../src/api/contract/tools.ts";
import { leaksIn } from "../support/encodings.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import { scoreOf } from "../support/score.ts";
import { type Site, startSite } from "../support/sites.ts";
import { aCall, toolsWith } from "../support/tools.ts";

// A secret goes only to the places that its owner's settings bind it to. A model, a page or a server cannot change this.

const SECRET = "sk_live_bound/9fZq+77=KdwE3x";
const STATUSES = [301, 302, 303, 307, 308];
const INJECTS: AuthSettings["inject"][] = [
  { type: "bearer" },
  { type: "basic", username: "ada" },
  { type: "header", name: "X-Api-Key" },
  { type: "query", name: "key" },
  { type: "hmac", header: "X-Signature" },
];

let site: Site;
let other: Site;
let receiver: Receiver;
const score = scoreOf("secrets bound", "leaks");

beforeAll(async () => {
  other = await startSite({ "/": { body: "elsewhere" } });
  const pages: Parameters<typeof startSite>[0] = {
    "/": { body: "home" },
    "/v1/a": { body: "inside" },
    "/private": { body: "not bound" },
    "/v1/back": { status: 302, headers: { location: `${other.url}/` } },
  };
  for (const status of STATUSES) {
    pages[`/v1/away/${status}`] = { status, headers: { location: `${other.url}/` } };
    pages[`/v1/home/${status}`] = { status, headers: { location: "/v1/a" } };
    pages[`/v1/out/${status}`] = { status, headers: { location: "/private" } };
  }
  site = await startSite(pages);
  receiver = await startReceiver();
});
beforeEach(() => {
  site.requests.length = 0;
  other.requests.length = 0;
});
afterAll(async () => {
  await Promise.all([site.close(), other.close(), receiver.close()]);
});

interface Attack {
  auth?: Partial<AuthSettings>;
  settings?: Partial<WebFetchSettings>;
  secret?: string;
  allow?: string[];
  method?: string;
  more?: Partial<ToolCall>;
}

async function fetching(url: string, attack: Attack = {}) {
  const { auth, settings, secret = SECRET, allow = [site.host, other.host], method, more } = attack;
  const { tools, opened } = toolsWith({ allow, secrets: { KEY: secret }, resolve: async () => ["127.0.0.1"] });
  const binding = { secret: "KEY", hosts: [site.host], inject: { type: "bearer" as const }, ...auth };
  const tools_config = { web_fetch: { enabled: true, auth: [binding], ...settings } };
  const args = method === undefined ? { url } : { url, method };
  const result = await tools.call(aCall("web_fetch", args, { tools_config, ...more }));
  score.tried();
  const leaks = leaksIn(Buffer.from(JSON.stringify([result, other.requests])), [secret]);
  score.slipped(...leaks);
  expect(leaks).toEqual([]);
  return { result, opened };
}
const carried = (seen: Site["requests"][number] | undefined) =>
  JSON.stringify(seen).includes(SECRET) ||
  JSON.stringify(seen).includes(encodeURIComponent(SECRET)) ||
  /"authorization"|"x-api-key"|"x-signature"/.test(JSON.stringify(seen));

describe("a secret is added when the request is sent", () => {
  it.each([
    [{ type: "bearer" }, "authorization", `Bearer ${SECRET}`],
    [{ type: "basic", username: "ada" }, "authorization", `Basic ${Buffer.from(`ada:${SECRET}`).toString("base64")}`],
    [{ type: "header", name: "X-Api-Key" }, "x-api-key", SECRET],
  ] as const)("as %j", async (inject, header, value) => {
    const { result, opened } = await fetching(`${site.url}/v1/a`, { auth: { inject } });
    expect(result).toMatchObject({ status: "succeeded" });
    expect(site.requests[0]?.headers[header]).toBe(value);
    expect(opened).toEqual([`KEY ${site.host}`]);
  });

  it("as a parameter, which replaces one that the model wrote", async () => {
    const inject = { type: "query", name: "key" } as const;
    await fetching(`${site.url}/v1/a?key=mine&b=%7E`, { auth: { inject } });
    expect(site.requests[0]?.path).toBe(`/v1/a?b=%7E&key=${encodeURIComponent(SECRET)}`);
    await fetching(`${site.url}/v1/a?b=%7E`, { auth: { inject } });
    expect(site.requests[1]?.path).toBe(`/v1/a?b=%7E&key=${encodeURIComponent(SECRET)}`);
  });
});

describe("for a signing secret, the receiver gets HMAC-SHA256 in hex", () => {
  const signature = (text: string) => createHmac("sha256", SECRET).update(text).digest("hex");
  const auth = { inject: { type: "hmac", header: "X-Signature" }, methods: ["GET", "POST"] } as const;
  const methods: WebFetchSettings["methods"] = ["GET", "POST"];
  it("of the body", async () => {
    const body = '{"berth": 7}';
    const more = { arguments_json: JSON.stringify({ url: `${site.url}/v1/a?b=1`, method: "POST", body }) };
    await fetching("", { auth: { ...auth, methods }, settings: { methods }, more });
    expect(site.requests[0]?.headers["x-signature"]).toBe(signature(body));
  });
  it("of path and query, if there is no body", async () => {
    await fetching(`${site.url}/v1/a?b=%7E&c=%20`, { auth: { ...auth, methods } });
    expect(site.requests[0]?.headers["x-signature"]).toBe(signature("/v1/a?b=%7E&c=%20"));
  });
  it.each(["before", "after"])(
    "of the address that is sent, with a secret parameter that is bound %s the signing secret",
    async (order) => {
      const { tools } = toolsWith({ allow: [site.host], secrets: { SIGN: SECRET, KEY: "parameter-0123456789" } });
      const hosts = [site.host];
      const bindings = [
        { secret: "KEY", hosts, inject: { type: "query" as const, name: "key" } },
        { secret: "SIGN", hosts, inject: auth.inject },
      ];
      const tools_config = {
        web_fetch: { enabled: true, auth: order === "before" ? bindings : bindings.toReversed() },
      };
      const result = await tools.call(aCall("web_fetch", { url: `${site.url}/v1/a?b=1` }, { tools_config }));
      expect(site.requests[0]?.path).toBe("/v1/a?b=1&key=parameter-0123456789");
      expect(site.requests[0]?.headers["x-signature"]).toBe(signature("/v1/a?b=1&key=parameter-0123456789"));
      expect(JSON.stringify(result)).not.toContain("parameter-0123456789");
    },
  );
});

describe("redirects", () => {
  it.each(INJECTS)("to another origin do not carry it, by $type", async (inject) => {
    for (const status of STATUSES) {
      const { result } = await fetching(`${site.url}/v1/away/${status}`, {
        auth: { inject, hosts: [site.host, other.host] },
      });
      expect(result.status).toBe("succeeded");
      expect(other.requests.some(carried)).toBe(false);
    }
  });
  it.each(STATUSES)(
    "a %i on the same origin is checked again: it carries the secret only within the binding",
    async (status) => {
      await fetching(`${site.url}/v1/home/${status}`, { auth: { paths: ["/v1/*"] } });
      expect(site.requests.map(carried)).toEqual([true, true]);
      site.requests.length = 0;
      await fetching(`${site.url}/v1/out/${status}`, { auth: { paths: ["/v1/*"] } });
      expect(site.requests.map(carried)).toEqual([true, false]);
    },
  );
  it("to another origin and back do not carry it", async () => {
    const away = await startSite({
      "/": (_request, response) => response.writeHead(302, { location: `${home.url}/back` }).end(),
    });
    const home = await startSite({ "/": { status: 302, headers: { location: `${away.url}/` } }, "/back": {} });
    await fetching(`${home.url}/`, { auth: { hosts: [home.host] }, allow: [home.host, away.host] });
    expect([...home.requests, ...away.requests].map(carried)).toEqual([true, false, false]);
    await Promise.all([away.close(), home.close()]);
  });
});

describe("a request outside the binding gets no secret", () => {
  const at = (text: string) => text.replaceAll("SITE", site.host).replaceAll("PORT", String(site.port));
  it.each([
    "http://SITE.evil.example:PORT/v1/a",
    "http://evil.example:PORT/v1/a?x=SITE",
    "http://evil.example:PORT/SITE",
    "http://evil.example:PORT#SITE",
    "http://evil.example:PORT\\@SITE/v1/a",
    "http://SITE@evil.example:PORT/v1/a",
    "http://localhost:PORT/v1/a",
    "http://a.localhost:PORT/v1/a",
  ])("%s is another host", async (url) => {
    const allow = [
      site.host,
      ...["evil.example", "127.0.0.1.evil.example", "localhost", "a.localhost"].map((host) => `${host}:${site.port}`),
    ];
    const { opened } = await fetching(at(url), { allow });
    expect(opened).toEqual([]);
    expect(site.requests.some(carried)).toBe(false);
  });
  it.each([
    "/private",
    "/v1",
    "/V1/a",
    "/v1/../private",
    "/v1/%2e%2e/private",
    "/v1/..%2fprivate",
    "/v1/%2e%2e%2fprivate",
    "/v1/..;/private",
    "/v1/..%5cprivate",
    "/v1/%252e%252e/private",
    "/v1/%c0%ae%c0%ae/private",
    "/v1/%u002e%u002e/private",
    "/v1/%ef%bc%8e%ef%bc%8e/private",
    "/v1/..%00/private",
    "/v1/%0d%0aHost:%20evil.example",
    "/v1/a%00.private",
    "//v1/a",
    "/v1//private",
    "/x/v1/a",
    "/?/v1/a",
  ])("the path %s is not /v1/*", async (path) => {
    const { opened } = await fetching(site.url + path, { auth: { paths: ["/v1/*"] } });
    expect(opened).toEqual([]);
    expect(site.requests.some(carried)).toBe(false);
  });
  it("another method", async () => {
    const settings = { methods: ["GET", "POST", "DELETE"] } as const;
    await fetching(`${site.url}/v1/a`, { settings: { ...settings, methods: [...settings.methods] }, method: "DELETE" });
    expect(site.requests.map(carried)).toEqual([false]);
  });
  it("plain http to a host that the operator did not name: the call is refused, and the secret is not opened", async () => {
    const { result, opened } = await fetching(`${site.url}/v1/a`, { allow: ["127.0.0.0/8"] });
    expect(result.error).toMatchObject({ code: "egress_refused" });
    expect(result.error?.message).toContain("KEY");
    expect([opened, site.requests]).toEqual([[], []]);
  });
  it("a name that resolves differently the second time (DNS rebinding)", async () => {
    const answers = [["127.0.0.1"], ["10.0.0.1"]];
    const host = `rebinding.example:${site.port}`;
    const { tools } = toolsWith({
      allow: [host],
      secrets: { KEY: SECRET },
      resolve: async () => answers.shift() ?? [],
    });
    const auth = [{ secret: "KEY", hosts: [host], inject: { type: "bearer" as const } }];
    const tools_config = { web_fetch: { enabled: true, auth } };
    const result = await tools.call(aCall("web_fetch", { url: `http://${host}/v1/a` }, { tools_config }));
    score.tried();
    expect(result.status).toBe("succeeded");
    expect([answers.length, site.requests[0]?.headers.host]).toEqual([1, host]);
  });
});

describe("the value of a secret", () => {
  it.each(["with\r\nHost: evil.example", "with\nline break", "with\0nul", "with\u007fdelete"])(
    "%j does not split a request",
    async (secret) => {
      for (const inject of [{ type: "bearer" }, { type: "header", name: "X-Key" }] as const) {
        const { result } = await fetching(`${site.url}/v1/a`, { secret, auth: { inject } });
        expect(result.error?.message).toContain("KEY");
        expect(site.requests).toEqual([]);
      }
    },
  );
  it("with fewer than 8 characters is sent only by basic and hmac, and the answer is omitted", async () => {
    const secret = "hunter2";
    for (const inject of INJECTS) {
      site.requests.length = 0;
      const { result } = await fetching(`${site.url}/v1/a`, { secret, auth: { inject } });
      const may = inject.type === "basic" || inject.type === "hmac";
      expect(site.requests).toHaveLength(may ? 1 : 0);
      expect(result.status).toBe(may ? "succeeded" : "failed");
      expect(result.result).not.toContain("inside");
    }
    const { result } = await fetching(`${site.url}/v1/away/302`, {
      secret,
      auth: { inject: { type: "basic", username: "a" } },
    });
    expect(result.result).toContain("HTTP 302");
    expect(other.requests).toEqual([]);
  });
});

describe("model text that names secrets (LangChain CVE-2025-68664, varlock#934)", () => {
  it.each(["{{secret}}", "{{KEY}}", "$KEY", "{{secrets.KEY}}", "<KEY>", "%KEY%", "env:KEY", "[secret]"])(
    "%s stays text",
    async (marker) => {
      await fetching(`${site.url}/private?q=${encodeURIComponent(marker)}`, { auth: { paths: ["/v1/*"] } });
      expect(decodeURIComponent(site.requests[0]?.path ?? "")).toBe(`/private?q=${marker}`);
      const { tools } = toolsWith({ allow: [receiver.host], secrets: { KEY: SECRET } });
      const tools_config = { send_webhook: { enabled: true, urls: [`${receiver.url}/hook`], secret: "KEY" } };
      await tools.call(
        aCall("send_webhook", { url: `${receiver.url}/hook`, payload: { text: marker } }, { tools_config }),
      );
      score.tried();
      expect(receiver.received.at(-1)?.body).toBe(JSON.stringify({ text: marker }));
      expect(leaksIn(Buffer.from(JSON.stringify(receiver.received)), [SECRET])).toEqual([]);
    },
  );
});

it("a step whose secret was deleted names the secret, and sends nothing", async () => {
  const { result } = await fetching(`${site.url}/v1/a`, { auth: { secret: "GONE" } });
  expect(result.error).toMatchObject({ code: "secret_missing" });
  expect(result.error?.message).toContain("GONE");
  expect(site.requests).toEqual([]);
});
