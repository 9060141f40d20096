import { request as httpRequest } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { approverOf } from "../support/approvals.ts";
import { BODIES, QUERIES } from "../support/bad-bodies.ts";
import { ADMIN_KEY, type Answer, type Client, type Service, startService } from "../support/service.ts";
import { snapshot } from "../support/snapshot.ts";

const BODY_BYTES = 300_000;
/** These accept larger bodies; limits.body_bytes does not lower their limit. */
const MODEL_ROUTES = new Set([
  "POST /api/v1/chat/completions",
  "POST /api/v1/responses",
  "POST /api/v1/responses/input_tokens",
  "POST /api/v1/messages",
  "POST /api/v1/messages/count_tokens",
  "POST /api/v1/embeddings",
  "POST /api/v1/agents/{id}/chat",
]);
/** Its bodies are messages of a protocol with its own errors: test/api/mcp-endpoint. */
const MCP = "POST /api/v1/mcp";
const MODEL_BYTES = 33_554_432;
/** A valid id that no user has. */
const UNKNOWN_ID = "01900000-0000-7000-8000-000000000000";

interface Operation {
  route: string;
  method: string;
  path: string;
  query: string[];
  takesBody: boolean;
}

let service: Service;
let user: Client;
let approver: Omit<Client, "user_id">;
let operations: Operation[];
/** Ids of `user`'s objects, by the path segment before the parameter. */
let own: Record<string, string>;

beforeAll(async () => {
  service = await startService({
    env: { PURSER_TEST_CLOCK: "2026-01-01T00:00:00Z" },
    config: { limits: { body_bytes: BODY_BYTES, requests_per_minute: 1_000_000 } },
  });
  user = await service.newUser({ tokens: 1_000_000 });
  approver = await approverOf(service, user);
  own = await objectsOf(user);
  const { paths } = await (await fetch(`${service.url}/openapi.json`)).json();
  operations = Object.entries<Record<string, never>>(paths).flatMap(([path, methods]) =>
    Object.entries<{ parameters?: { in: string; name: string }[]; requestBody?: unknown; responses: object }>(
      methods,
    ).map(([method, operation]) => ({
      route: `${method.toUpperCase()} ${path}`,
      method: method.toUpperCase(),
      path,
      query: (operation.parameters ?? []).filter((each) => each.in === "query").map((each) => each.name),
      takesBody: operation.requestBody !== undefined,
    })),
  );
});
afterAll(() => service.stop());

async function objectsOf(client: Client): Promise<Record<string, string>> {
  const key = await client.post("/api/v1/api-keys", { name: "spare" });
  const agent = await client.post("/api/v1/agents", {
    name: "mine",
    model_id: "purser/rehearsal",
    run_prompt: "Say: hi",
  });
  const run = await client.post(`/api/v1/agents/${agent.body.id}/runs`, undefined, { Prefer: "wait=20" });
  const thread = await client.post(`/api/v1/agents/${agent.body.id}/threads`, {});
  const daily = { name: "own", interval: "daily", times: ["12:00"] };
  const schedule = await client.post(`/api/v1/agents/${agent.body.id}/schedules`, daily);
  const trigger = await client.post(`/api/v1/agents/${agent.body.id}/triggers`, { name: "own", verify: "bearer" });
  await fetch(trigger.body.url, {
    method: "POST",
    headers: { Authorization: `Bearer ${trigger.body.secret}`, "Content-Type": "application/json" },
    body: "{}",
  });
  const { deliveries } = (await client.get(`/api/v1/agents/${agent.body.id}/triggers/${trigger.body.id}/deliveries`))
    .body;
  const secret = await client.post("/api/v1/secrets", { name: "OWN", value: "value" });
  const endpoint = await client.post("/api/v1/webhook-endpoints", {
    url: "https://a.example/",
    events: ["run.failed"],
  });
  const response = await client.post("/api/v1/responses", { model: "purser/rehearsal", input: "Say: hi" });
  return {
    secrets: secret.body.id,
    "api-keys": key.body.id,
    agents: agent.body.id,
    versions: "1",
    users: client.user_id,
    // The user has no invoice and no action. Any id works, because the tests reach only the body's checks.
    actions: client.user_id,
    invoices: client.user_id,
    keys: client.user_id,
    purchases: client.user_id,
    buckets: client.user_id,
    runs: run.body.id,
    threads: thread.body.id,
    schedules: schedule.body.id,
    triggers: trigger.body.id,
    deliveries: deliveries[0].id,
    responses: response.body.id,
    "webhook-endpoints": endpoint.body.id,
    "end-user-budgets": "ada",
    providers: "openai",
  };
}

/** The path with these ids, chosen by the segment before each parameter. */
const pathOf = (path: string, ids: Record<string, string>) =>
  path.replaceAll(/([\w-]+)\/\{(\w+)\}/g, (_, before: string) => `${before}/${ids[before] ?? "purser/rehearsal"}`);
const clientOf = (path: string) => {
  if (path.startsWith("/api/v1/admin/")) return service.as(ADMIN_KEY);
  return path.endsWith("/actions/{action_id}") ? approver : user;
};
const send = ({ method, path }: Operation, body: unknown, ids = own, headers = {}): Promise<Answer> =>
  clientOf(path).request(method, pathOf(path, ids), body, headers);
const refusal = ({ status, body }: Answer) => [status, body.error?.code, body.error?.param];
/** The beginnings of the schema library's messages, which do not say what to do. */
const RAW = /is not valid|\b(Invalid|Too (small|big)|received)\b/;
const withBodies = () => operations.filter((operation) => operation.takesBody && operation.route !== MCP);

async function expectNothingWritten(act: () => Promise<void>): Promise<void> {
  const before = await snapshot(service, user);
  await act();
  expect(await snapshot(service, user)).toEqual(before);
}

/** They take parameters that clients send (pages of Anthropic's, `include` of OpenAI's), and read none of them. */
const READ_NO_PARAMETER = ["GET /api/v1/models", "GET /api/v1/responses/{response_id}"];

describe("bad input (contract 2)", () => {
  it("is tested for every endpoint that takes a body or a filter", () => {
    expect(
      withBodies()
        .map((operation) => operation.route)
        .sort(),
    ).toEqual(Object.keys(BODIES).sort());
    const filtered = operations.filter(
      ({ query, route }) =>
        !READ_NO_PARAMETER.includes(route) && query.some((name) => name !== "limit" && name !== "cursor"),
    );
    expect(filtered.map((operation) => operation.route).sort()).toEqual(Object.keys(QUERIES).sort());
  });

  it.each(Object.keys(BODIES))(
    "%s: each wrong body is rejected with its code and param, and nothing is written",
    async (route) => {
      const operation = operations.find((each) => each.route === route);
      const row = BODIES[route];
      if (operation === undefined || row === undefined) throw new Error(`${route} is not there`);
      await expectNothingWritten(async () => {
        const unknown = row.open ? [] : ([[{ frobnicate: 1 }, "unknown_field", "frobnicate"]] as const);
        for (const [change, code, param] of [...row.bad, ...unknown]) {
          const answer = await send(operation, { ...row.valid, ...change });
          expect.soft(refusal(answer), JSON.stringify(change).slice(0, 100)).toEqual([400, code, param]);
          expect.soft(answer.body.error.message).not.toMatch(RAW);
        }
      });
    },
  );

  it.each(Object.keys(BODIES))("%s: a body that is no JSON object, no JSON or too large is rejected", async (route) => {
    const operation = operations.find((each) => each.route === route);
    if (operation === undefined) throw new Error(`${route} is not there`);
    await expectNothingWritten(async () => {
      for (const text of ["{", "[]", "null", "5", '"text"', "{'name': 1}", "\uFFFF", '{"a":1}}']) {
        expect.soft(refusal(await send(operation, text)), text).toEqual([400, "invalid_json", null]);
      }
      const valid = JSON.stringify(BODIES[route]?.valid);
      for (const type of [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonx",
      ]) {
        const answer = await send(operation, valid, own, { "Content-Type": type });
        expect.soft(refusal(answer), type).toEqual([415, "unsupported_media_type", null]);
      }
      const limit = MODEL_ROUTES.has(route) ? MODEL_BYTES : BODY_BYTES;
      const large = `{"name": "${"x".repeat(limit)}"}`;
      expect.soft(refusal(await send(operation, large))).toEqual([413, "body_too_large", null]);
      expect.soft(refusal(await sendChunked(operation, large))).toEqual([413, "body_too_large", null]);
    });
  });

  it.each(Object.entries(QUERIES))("%s: each wrong filter is rejected by its name", async (route, rows) => {
    const operation = operations.find((each) => each.route === route);
    for (const [query, param] of rows) {
      const path = pathOf(operation?.path ?? "", own);
      const answer = await clientOf(path).request(operation?.method ?? "", `${path}?${query}`);
      expect.soft(refusal(answer), query).toEqual([400, "invalid_value", param]);
      expect.soft(answer.body.error.message).not.toMatch(RAW);
    }
  });

  it("every list: a filter without a value, so that an unset variable of a script finds nothing that it did not mean", async () => {
    // Each text has an empty part, and 0 ms are an empty number.
    const accepted = ["name", "search", "min_ms"];
    const lists = operations.filter(
      ({ method, query, route }) => method === "GET" && query.length > 0 && !READ_NO_PARAMETER.includes(route),
    );
    expect(lists.length).toBeGreaterThanOrEqual(20);
    for (const { path, query, route } of lists) {
      // OpenAI's clients send `include`, which is not read.
      for (const name of query.filter((each) => !path.includes("/responses/") || !each.startsWith("include"))) {
        const needed = route === "GET /api/v1/admin/requests" && name !== "request_id" ? "request_id=x&" : "";
        const answer = await clientOf(path).get(`${pathOf(path, own)}?${needed}${name}=`);
        const expected = accepted.includes(name)
          ? [200, undefined, undefined]
          : [400, name === "cursor" ? "invalid_cursor" : "invalid_value", name];
        expect.soft(refusal(answer), `${route} ${name}=`).toEqual(expected);
      }
    }
  });

  it("every list: a limit outside 1 to 100 and a cursor of another list", async () => {
    const lists = operations.filter(
      ({ query, route }) => query.includes("cursor") && !READ_NO_PARAMETER.includes(route),
    );
    expect(lists.length).toBeGreaterThanOrEqual(7);
    const forged = [`1.${"-".repeat(36)}`, "1.9999-99-99T99:99:99.999Z", "1.99999999999999999999", "2.5", "1."];
    const cursors = ["nonsense", "", "%00", "MQ", ...forged.map((text) => Buffer.from(text).toString("base64url"))];
    for (const { path, route } of lists) {
      const list = pathOf(path, own);
      const needed = route === "GET /api/v1/admin/requests" ? "request_id=x&" : "";
      for (const limit of ["0", "101", "-1", "abc", "1.5", ""]) {
        const answer = await clientOf(path).get(`${list}?${needed}limit=${limit}`);
        expect.soft(refusal(answer), `${route} limit=${limit}`).toEqual([400, "invalid_value", "limit"]);
      }
      for (const cursor of cursors) {
        const answer = await clientOf(path).get(`${list}?${needed}cursor=${cursor}`);
        expect.soft(refusal(answer), `${route} cursor=${cursor}`).toEqual([400, "invalid_cursor", "cursor"]);
      }
    }
  });
});

describe("objects that are not the caller's (contract 2: 404, never 403)", () => {
  const strange = ["5", UNKNOWN_ID, "not-a-uuid", "%2e%2e", "'%20or%201=1--", "%F0%9F%92%A9", "x".repeat(300)];

  it("unknown ids and invalid ids are 404 on every endpoint", async () => {
    await expectNothingWritten(async () => {
      for (const operation of operations.filter(({ path }) => path.includes("{"))) {
        // Any name of an end user may have a budget (contract 5), and a path's name is checked like a body's.
        if (operation.path === "/api/v1/end-user-budgets/{user}") continue;
        for (const id of strange) {
          // A client that sends ".." asks for the list of all users, runs or threads.
          if (id === "%2e%2e" && /\/admin\/users\/\{id\}\/|\/agents\/\{id\}\/(runs|threads)$/.test(operation.path))
            continue;
          const ids = Object.fromEntries(Object.keys({ ...own, models: 1 }).map((name) => [name, id]));
          const answer = await send(operation, BODIES[operation.route]?.valid, ids);
          expect.soft(refusal(answer), `${operation.route} with ${id}`).toEqual([404, "not_found", null]);
        }
      }
    });
  });

  it("a NUL in any parameter of a path is 400 on every endpoint, with or without a key", async () => {
    await expectNothingWritten(async () => {
      for (const operation of operations.filter(({ path }) => path.includes("{"))) {
        const parameters = [...operation.path.matchAll(/\{\w+\}/g)].map(([name]) => name);
        for (const parameter of parameters) {
          for (const nul of ["%00", "a%00b", `${UNKNOWN_ID}%00`]) {
            const path = pathOf(operation.path.replace(parameter, nul), own);
            const body = BODIES[operation.route]?.valid;
            const answers = [clientOf(operation.path), service.as("none")].map((client) =>
              client.request(operation.method, path, body),
            );
            for (const answer of await Promise.all(answers)) {
              expect.soft(refusal(answer), `${operation.method} ${path}`).toEqual([400, "invalid_value", null]);
            }
          }
        }
      }
    });
  });

  it("a NUL in an address of the console returns the console's page to a browser, and 400 to a program", async () => {
    const asked = (Accept: string) => fetch(`${service.url}/agents/a%00`, { headers: { Accept } });
    const page = await asked("text/html");
    expect([page.status, page.headers.get("Content-Type")]).toEqual([200, expect.stringContaining("text/html")]);
    expect((await asked("application/json")).status).toBe(400);
  });

  it("another user's ids are 404 on every endpoint, below the other user's agent and below the caller's", async () => {
    const other = await service.newUser();
    const theirs = await objectsOf(other);
    await expectNothingWritten(async () => {
      const own_paths = operations.filter(
        ({ path }) => path.includes("{") && !/\/admin\/|\/models\/|\/end-user-budgets\//.test(path),
      );
      expect(own_paths.length).toBeGreaterThan(8);
      for (const operation of own_paths) {
        const answer = await send(operation, BODIES[operation.route]?.valid, theirs);
        expect.soft(refusal(answer), operation.route).toEqual([404, "not_found", null]);
        if (!operation.path.includes("{run_id}")) continue;
        const mixed = await send(operation, BODIES[operation.route]?.valid, { ...own, runs: theirs.runs ?? "" });
        expect.soft(refusal(mixed), `${operation.route} under our agent`).toEqual([404, "not_found", null]);
      }
    });
    expect((await other.get(`/api/v1/agents/${theirs.agents}`)).status).toBe(200);
  });
});

describe("hostile bodies", () => {
  it("extreme nesting does not crash the service", async () => {
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    const text = `{"model":"purser/rehearsal","messages":[{"role":"user","content":"hi"}],"x":${deep}}`;
    expect((await user.post("/api/v1/chat/completions", text)).status).toBe(400);
    expect((await user.post("/api/v1/agents", `{"name":"a","tools_config":${deep}}`)).status).toBe(400);
  });

  it("grants beyond exact integers are rejected, and the account still works", async () => {
    const owner = await service.newUser({ trial: false });
    const grant = () =>
      service.admin.post(`/api/v1/admin/users/${owner.user_id}/grants`, { amount_tokens: 1e15, source: "top_up" });
    for (let index = 0; index < 9; index += 1) expect((await grant()).status).toBe(201);
    expect(refusal(await grant())).toEqual([400, "invalid_value", "amount_tokens"]);
    expect((await owner.get("/api/v1/users/me")).body.token_balance).toBe(9e15);
  });

  it("a field named __proto__ is an unknown field", async () => {
    const answer = await user.post("/api/v1/api-keys", '{"name":"x","__proto__":{"scopes":["chat:read"]}}');
    expect(refusal(answer)).toEqual([400, "unknown_field", "__proto__"]);
  });

  it("an error repeats only the ends of a long name, and what to do; so an Idempotency-Key keeps no copy of the name", async () => {
    const long = "x".repeat(60_000);
    const key = { "Idempotency-Key": "a-long-name" };
    for (const _ of ["first", "second"]) {
      const answer = await user.post("/api/v1/agents", `{"name":"a","${long}":1}`, key);
      expect([answer.status, answer.body.error.code]).toEqual([400, "unknown_field"]);
      expect(answer.headers.get("Idempotent-Replayed")).toBe(null);
      const { message, param } = answer.body.error;
      expect([message.length, param.length]).toEqual([1_999, 499]);
      expect(message).toMatch(/^x+…x+ is not a field of this request\. Remove it or correct its spelling\.$/);
    }
  });

  it("the message about a body's syntax never quotes the body", async () => {
    const { body } = await user.post("/api/v1/api-keys", '{"name": "hunter2" oops}');
    expect(JSON.stringify(body)).not.toContain("hunter2");
    expect(body.error.message).toMatch(/position \d+/);
  });
});

/** Sends a body in chunks, without Content-Length. */
function sendChunked({ method, path }: Operation, text: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = { Authorization: `Bearer ${clientOf(path).key}`, "Content-Type": "application/json" };
    const call = httpRequest(`${service.url}${pathOf(path, own)}`, { method, headers }, async (response) => {
      const body = JSON.parse(Buffer.concat(await Array.fromAsync(response as AsyncIterable<Buffer>)).toString());
      resolve({ status: response.statusCode ?? 0, headers: new Headers(), body });
    });
    call.on("error", reject);
    for (let at = 0; at < text.length; at += 65_536) call.write(text.slice(at, at + 65_536));
    call.end();
  });
}
