import { execFile } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Client, type Service, startService } from "../support/service.ts";

// The client of clients/typescript. `npm run types` checks its types, which a generator makes.

const PACKAGE = join(import.meta.dirname, "../../clients/typescript");
/** Its types are not there before a build, so it is imported without them. */
const SOURCE: string = join(PACKAGE, "src/index.ts");
const { createClient, PurserError } = await import(SOURCE);

let service: Service;
let user: Client;
let folder: string;
beforeAll(async () => {
  service = await startService();
  user = await service.newUser();
  folder = mkdtempSync(join(tmpdir(), "purser-client-"));
  const installed = join(folder, "node_modules/@purser/client");
  mkdirSync(installed, { recursive: true });
  writeFileSync(join(installed, "package.json"), '{"type": "module", "exports": "./src/index.ts"}');
  symlinkSync(join(PACKAGE, "src"), join(installed, "src"));
  writeFileSync(join(folder, "package.json"), '{"type": "module"}');
});
afterAll(async () => {
  await service.stop();
  rmSync(folder, { recursive: true });
});

describe("the examples", () => {
  const run = async (file: string) => {
    const env = { ...process.env, PURSER: service.url, KEY: user.key };
    return (await promisify(execFile)(process.execPath, [file], { cwd: folder, env })).stdout;
  };

  it.each([
    ["completion.ts", /^hello\nhello: \d+ tokens\n$/],
    ["agent.ts", /^succeeded: good morning\n404 not_found\n$/],
    ["list.ts", /^third, second, first\n$/],
  ])("%s prints what it says", async (file, printed) => {
    copyFileSync(join(PACKAGE, "examples", file), join(folder, file));
    expect(await run(file)).toMatch(printed);
  });

  it("are all run by this test, and the README names each", () => {
    const files = readdirSync(join(PACKAGE, "examples")).filter((file) => file.endsWith(".ts"));
    const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
    expect(files).toEqual(["agent.ts", "completion.ts", "list.ts"]);
    expect(files.filter((file) => !readme.includes(`(examples/${file})`))).toEqual([]);
  });

  it("of the README prints the answer and its cost", async () => {
    const [, example = ""] = /```ts\n([\s\S]*?)```/.exec(readFileSync(join(PACKAGE, "README.md"), "utf8")) ?? [];
    writeFileSync(join(folder, "readme.ts"), example);
    expect(await run("readme.ts")).toMatch(/^hello \d+\n$/);
  });
});

describe("a call", () => {
  let server: Server;
  let url: string;
  let asked: { method: string; path: string; headers: IncomingHttpHeaders }[];
  let answers: ((response: ServerResponse) => void)[];
  beforeAll(async () => {
    server = createServer((request, response) => {
      request.resume();
      asked.push({ method: request.method ?? "", path: request.url ?? "", headers: request.headers });
      answers.shift()?.(response);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => void server.close());
  beforeEach(() => {
    asked = [];
  });
  const answer =
    (status: number, headers: Record<string, string> = {}, body: object = {}) =>
    (response: ServerResponse) =>
      void response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(body));
  const broken = (response: ServerResponse) => void response.destroy();
  const client = (options = {}) => createClient({ baseUrl: url, apiKey: "key", ...options });

  it.each<[string, ((response: ServerResponse) => void)[], number, number | null]>([
    ["is repeated after 429, as Retry-After says", [answer(429, { "Retry-After": "1" }), answer(200)], 2, null],
    ["is repeated after 503", [answer(503), answer(200)], 2, null],
    ["is repeated after a connection that broke", [broken, answer(200)], 2, null],
    ["is given up after two repetitions", [answer(502), answer(502), answer(502)], 3, 502],
    ["is not repeated after 400", [answer(400)], 1, 400],
    ["is not repeated if X-Should-Retry is false", [answer(503, { "X-Should-Retry": "false" })], 1, 503],
    ["is repeated if X-Should-Retry is true", [answer(402, { "X-Should-Retry": "true" }), answer(200)], 2, null],
    ["is not repeated if it would wait for over a minute", [answer(429, { "Retry-After": "3600" })], 1, 429],
  ])("%s", async (_, given, calls, status) => {
    answers = given;
    const result = await client()
      .post("/api/v1/agents", { body: { name: "Scout" } })
      .then(
        () => null,
        (error: { status: number }) => error.status,
      );
    expect([asked.length, result]).toEqual([calls, status]);
    // All tries have one key, so the POST is done once.
    expect(new Set(asked.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
    expect(asked.every(({ headers }) => headers.authorization === "Bearer key")).toBe(true);
  });

  it("encodes names in the path and the query", async () => {
    answers = [answer(200)];
    await client().get("/api/v1/models/{model}", {
      path: { model: "lab/plain" },
      query: { a: "x y", none: undefined, metadata: { team: "a&b" }, from: new Date(0), list: [1, 2] },
    });
    const query = "a=x+y&metadata%5Bteam%5D=a%26b&from=1970-01-01T00%3A00%3A00.000Z&list=1&list=2";
    expect(asked[0]?.path).toBe(`/api/v1/models/lab%2Fplain?${query}`);
  });

  it("that is aborted ends at once, also while it waits to be repeated", async () => {
    answers = [answer(429, { "Retry-After": "30" })];
    const signal = AbortSignal.timeout(300);
    await expect(client().get("/api/v1/agents", { signal })).rejects.toThrow(/abort|timeout/i);
  });

  it("that follows a run connects again after the last event, until none is left", async () => {
    const events = (text: string) => (response: ServerResponse) => {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write(text);
      response.end();
    };
    answers = [
      events('id: 1\nevent: run.queued\ndata: {"n": 1}\n\n'),
      events('id: 2\nevent: run.finished\ndata: {"n": 2}\n\n'),
      (response) => void response.writeHead(204).end(),
    ];
    const path = { id: "a", run_id: "b" };
    const seen = [];
    for await (const { id, event, data } of client().follow("/api/v1/agents/{id}/runs/{run_id}/events", { path })) {
      seen.push([id, event, data.n]);
    }
    expect(seen).toEqual([
      ["1", "run.queued", 1],
      ["2", "run.finished", 2],
    ]);
    expect(asked.map(({ headers }) => headers["last-event-id"])).toEqual([undefined, "1", "2"]);
  });
});

it("an error has the service's code, message and request id", async () => {
  const client = createClient({ baseUrl: service.url, apiKey: "wrong" });
  const error = await client.get("/api/v1/users/me").catch((thrown: Error) => thrown);
  expect(error).toBeInstanceOf(PurserError);
  expect(error).toMatchObject({ status: 401, code: "invalid_api_key", param: null, requestId: expect.any(String) });
  expect(error.message).toContain("not valid");
});
