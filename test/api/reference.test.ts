import { request } from "node:http";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answer, type Service, startService } from "../support/service.ts";

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

const read = async (path: string) => {
  const response = await fetch(`${service.url}${path}`);
  return { status: response.status, type: response.headers.get("content-type") ?? "", text: await response.text() };
};

describe("health (contract 1)", () => {
  it("/livez and /readyz answer 200 without a key", async () => {
    expect((await read("/livez")).status).toBe(200);
    expect((await read("/readyz")).status).toBe(200);
  });

  it("/metrics is Prometheus text for the operator", async () => {
    const { status, headers, body } = await service.admin.get("/metrics");
    expect([status, headers.get("content-type")]).toEqual([200, expect.stringMatching(/^text\/plain/)]);
    const lines = body.split("\n").filter((line: string) => line !== "" && !line.startsWith("#"));
    expect(lines.length).toBeGreaterThan(5);
    for (const line of lines) expect(line).toMatch(/^[a-zA-Z_:][\w:]*(\{.*\})? [-+.\deE]+(Inf|NaN)?( \d+)?$/);
  });
});

describe("the reference (contract 1)", () => {
  it("/openapi.json is 3.1, every $ref resolves, every path's parameters are declared", async () => {
    const { type, text } = await read("/openapi.json");
    const document = JSON.parse(text);
    expect(type).toMatch(/^application\/json/);
    expect(document.openapi).toMatch(/^3\.1\./);
    const references = [...text.matchAll(/"\$ref":"#\/([^"]+)"/g)].map((match) => match[1] ?? "");
    expect(references.length).toBeGreaterThan(10);
    for (const reference of new Set(references)) {
      const found = reference.split("/").reduce((at, part) => at?.[part], document);
      expect(found, reference).toBeTypeOf("object");
    }
    for (const [path, methods] of Object.entries<Record<string, Operation>>(document.paths)) {
      expect(path).not.toContain(":");
      for (const [method, operation] of Object.entries(methods)) {
        const inPath = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort();
        const declared = (operation.parameters ?? []).filter((each) => each.in === "path").map((each) => each.name);
        if (!("501" in operation.responses)) expect(declared.sort(), `${method} ${path}`).toEqual(inPath);
        expect(operation.summary, `${method} ${path}`).toBeTruthy();
      }
    }
  });

  it("shows the fields of each answer, and null only where null is possible", async () => {
    const { text } = await read("/openapi.json");
    const { paths, components } = JSON.parse(text);
    const shown = (path: string) =>
      paths[path].get.responses[200].content["application/json"].schema.$ref.split("/").at(-1);
    expect(Object.keys(components.schemas[shown("/api/v1/users/me/usage")].properties)).toContain("daily_usage");
    expect(Object.keys(components.schemas.Usage.properties)).toContain("prompt_tokens");
    // A schema that combines an object and "or null" in one allOf excludes null.
    expect(text).not.toMatch(/"allOf":\[\{"\$ref":"[^"]+"\},\{"type":\["object","null"\]\}\]/);
  });

  it("declares each security scheme that an endpoint names, and one for each endpoint except the public ones", async () => {
    const document = JSON.parse((await read("/openapi.json")).text);
    const schemes = Object.keys(document.components.securitySchemes);
    const open: string[] = [];
    for (const [path, methods] of Object.entries<Record<string, Operation>>(document.paths)) {
      for (const operation of Object.values(methods)) {
        if (operation.security?.length === 0) open.push(path);
        for (const each of operation.security ?? []) expect(schemes).toEqual(expect.arrayContaining(Object.keys(each)));
      }
    }
    const public_paths = open.filter((path) => !path.startsWith("/api/v1/auth/"));
    expect(public_paths.sort()).toEqual([
      "/api/v1/api-keys/revoke-leaked",
      "/api/v1/secrets/oauth/client-metadata",
      "/hooks/{trigger_id}",
    ]);
  });

  it("gives every operation a readable, unique name, and has the service's address", async () => {
    const document = JSON.parse((await read("/openapi.json")).text);
    const operations = Object.values<Record<string, { operationId: string }>>(document.paths).flatMap(Object.values);
    const names = operations.map(({ operationId }) => operationId);
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) expect(name).toMatch(/^[a-z][A-Za-z]{2,40}$/);
    expect(names).toEqual(
      expect.arrayContaining(["createChatCompletion", "createResponse", "createMessage", "listAgents", "getProfile"]),
    );
    expect(document.servers).toEqual([{ url: "/", description: "this service" }]);
  });

  it("has patterns that every validator can read, without flags", async () => {
    const { text } = await read("/openapi.json");
    const patterns = [...text.matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)].map(([, found]) => JSON.parse(found ?? ""));
    expect(patterns.length).toBeGreaterThan(5);
    for (const pattern of patterns) {
      expect(pattern).not.toMatch(/^\/|\/[a-z]*$/);
      expect(() => new RegExp(pattern, "u"), pattern).not.toThrow();
    }
    expect(patterns.filter((pattern) => new RegExp(pattern, "u").test("calc")).length).toBeGreaterThan(3);
  });

  it("declares the common errors of every endpoint: 403 with a key, 413 and 415 with a body, 409 and 422 with an Idempotency-Key", async () => {
    const { paths } = JSON.parse((await read("/openapi.json")).text);
    for (const [path, methods] of Object.entries<Record<string, Operation>>(paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        const is_keyed = operation.security?.some((each) => "api_key" in each) ?? false;
        const is_operator = operation.security?.some((each) => "operator_key" in each) ?? false;
        const is_idempotent = method === "post" && (is_keyed || is_operator);
        const declared = Object.keys(operation.responses).map(Number);
        const expected = [
          ...(is_keyed ? [403] : []),
          ...(operation.requestBody === undefined ? [] : [400, 413, 415]),
          ...[431, 503],
          ...(is_idempotent ? [409, 422] : []),
        ];
        expect(declared, `${method} ${path}`).toEqual(expect.arrayContaining(expected));
        const headers = (operation.parameters ?? []).filter((each) => each.in === "header").map(({ name }) => name);
        expect(headers.includes("Idempotency-Key"), `${method} ${path}`).toBe(is_idempotent);
        expect(JSON.stringify(operation.responses).includes("Idempotent-Replayed")).toBe(is_idempotent);
      }
    }
  });

  it("agrees with the answers of the endpoints: each GET of a user with one record of each kind, the POSTs before, and an error", async () => {
    const document = JSON.parse((await read("/openapi.json")).text);
    const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema(document, "api");
    const part = (...keys: string[]) => keys.map((key) => key.replaceAll("~", "~0").replaceAll("/", "~1")).join("/");
    const expectDeclared = (method: string, path: string, { status, body }: Answer) => {
      const schema = part("paths", path, method, "responses", String(status), "content", "application/json", "schema");
      const where = `${method} ${path} ${status}`;
      const validate = ajv.getSchema(encodeURI(`api#/${schema}`));
      expect(validate, where).toBeDefined();
      expect(validate?.(body), `${where}: ${ajv.errorsText(validate?.errors)}`).toBe(true);
    };
    const user = await service.newUser({ tokens: 1_000_000 });
    const made = async (path: string, body?: unknown, headers = {}, template = path) => {
      const answer = await user.post(path, body, headers);
      expectDeclared("post", template, answer);
      return answer.body;
    };
    const agent = { name: "Scout", model_id: "purser/rehearsal", run_prompt: "Say: hello" };
    const messages = [{ role: "user", content: "Say: hello" }];
    const { id } = await made("/api/v1/agents", agent);
    const ids: Record<string, string> = { "/api/v1/agents/{id}": id };
    const runs = "/api/v1/agents/{id}/runs";
    ids.run_id = (await made(`/api/v1/agents/${id}/runs`, undefined, { Prefer: "wait=30" }, runs)).id;
    ids["/api/v1/secrets/{id}"] = (await made("/api/v1/secrets", { name: "A", value: "b" })).id;
    ids["/api/v1/api-keys/{id}"] = (await made("/api/v1/api-keys", { name: "second" })).id;
    ids["/api/v1/billing/purchases/{id}"] = (await made("/api/v1/billing/purchase", { amount_cents: 100 })).id;
    ids["/api/v1/billing/payments/{id}"] = ids["/api/v1/billing/purchases/{id}"] ?? "";
    await made("/api/v1/billing/subscription", { plan_id: "starter" });
    await made("/api/v1/billing/overage/enable");
    await made("/api/v1/chat/completions", { model: "purser/rehearsal", messages });
    await made("/api/v1/chat/completions", { model: "none/such", messages });
    const gets = Object.keys(document.paths).filter((path) => "get" in document.paths[path]);
    let read_count = 0;
    for (const template of gets) {
      const own = Object.keys(ids).find((prefix) => template.startsWith(prefix)) ?? "";
      const path = template.replace("{run_id}", ids.run_id ?? "").replace("{id}", ids[own] ?? user.user_id);
      if (path.includes("{") || template.includes("/auth/") || template.endsWith("/events")) continue;
      const caller = template.startsWith("/api/v1/admin/") ? service.admin : user;
      const answer = await caller.get(path);
      expectDeclared("get", template, answer);
      if (answer.status === 200) read_count += 1;
    }
    expect(read_count).toBeGreaterThan(20);
  });

  it.each(["/docs", "/docs/guides", "/docs/guides/developers", "/"])(
    "%s is a page that loads nothing from other hosts",
    async (path) => {
      const { status, type, text } = await read(path);
      expect([status, type]).toEqual([200, expect.stringMatching(/^text\/html/)]);
      expect(text).toMatch(/^\s*<!doctype html>/i);
      const loaded = [...text.matchAll(/<(?:script|link|img|iframe|source|video|object)\b[^>]*>/gi)].map(String);
      expect(loaded.filter((tag) => /\b(?:src|href|data)\s*=\s*["']?(?:https?:)?\/\//i.test(tag))).toEqual([]);
      expect(text).not.toMatch(/@import|url\(\s*["']?(?:https?:)?\/\//i);
    },
  );

  it("/docs shows every endpoint of the document and every webhook, each with an example", async () => {
    const document = JSON.parse((await read("/openapi.json")).text);
    const { text } = await read("/docs");
    for (const path of Object.keys(document.paths)) expect(text).toContain(path.replaceAll("&", "&amp;"));
    for (const type of Object.keys(document.webhooks)) expect(text).toContain(`<h3><span>WEBHOOK</span> ${type}</h3>`);
    const articles = text.split("<article").slice(1);
    expect(articles.filter((article) => !article.includes("<h4>Example</h4>"))).toEqual([]);
  });

  it("/docs shows the fields of each shape of a value that has several", async () => {
    const { text } = await read("/docs");
    const [article = ""] = text.split('<article id="post-api-v1-chat-completions"')[1]?.split("</article>") ?? [];
    for (const role of ["system", "user", "assistant", "tool"]) {
      expect(article).toContain(`<summary><code>role: &quot;${role}&quot;</code></summary>`);
    }
  });

  it("/docs/guides leads to every guide, and each link and picture of a guide is there", async () => {
    const pages = new Map<string, string>();
    const pictures = new Set<string>();
    const broken: string[] = [];
    const waiting = ["/docs/guides"];
    const links: [from: string, to: string][] = [];
    for (let address = waiting.pop(); address !== undefined; address = waiting.pop()) {
      if (pages.has(address)) continue;
      const { status, text } = await read(address);
      if (status !== 200) broken.push(address);
      pages.set(address, text);
      for (const [, href = ""] of text.matchAll(/<a href="(\/docs[^"]*|#[^"]*)"/g)) {
        const target = href.startsWith("#") ? `${address}${href}` : href;
        links.push([address, target]);
        if (!target.endsWith(".json")) waiting.push(target.split("#")[0] ?? "");
      }
      for (const [, src = ""] of text.matchAll(/<img src="([^"]+)"/g)) pictures.add(src);
    }
    for (const [from, to] of links) {
      const [page = "", fragment] = to.split("#");
      if (fragment !== undefined && !pages.get(page)?.includes(`id="${fragment}"`)) broken.push(`${from} -> ${to}`);
    }
    for (const picture of pictures) if ((await read(picture)).status !== 200) broken.push(picture);
    expect(broken).toEqual([]);
    expect(pages.size).toBeGreaterThan(25);
    expect([...pages.values()].filter((text) => /href="[^"]*\.md["#]/.test(text))).toEqual([]);
  });

  it.each([
    "/docs/guides/nothing",
    "/docs/guides/../../package.json",
    "/docs/guides/%2e%2e/%2e%2e/package.json",
    "/docs/history",
  ])("%s is no page of the guides", async (path) => {
    const answer = await new Promise<number | undefined>((resolve) =>
      request(`${service.url}`, { path }, (response) => resolve(response.resume().statusCode)).end(),
    );
    expect(answer).toBe(404);
  });

  it("/docs/config.schema.json is the JSON Schema of the configuration file", async () => {
    const { status, type, text } = await read("/docs/config.schema.json");
    expect([status, type]).toEqual([200, "application/schema+json"]);
    const isValid = new Ajv2020({ validateFormats: false }).compile(JSON.parse(text));
    expect([isValid({ margin: 2 }), isValid({ margn: 2 })]).toEqual([true, false]);
  });
});

interface Operation {
  requestBody?: unknown;
  summary?: string;
  parameters?: { in: string; name: string }[];
  responses: Record<string, unknown>;
  security?: Record<string, string[]>[];
}
