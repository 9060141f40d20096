import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { CELLS, type CellName, freePort, startRouter } from "./support/cell-router.ts";
import { newDatabaseFolder } from "./support/folder.ts";
import { type PostgresServer, runSql, startPostgres } from "./support/postgres-server.ts";
import { type RunningProcess, startProcess } from "./support/process.ts";
import { ADMIN_KEY } from "./support/service.ts";

// `npm run cells`: two independent cells behind HAProxy with deploy/haproxy-cells.cfg. Calls of the API through the router,
// then cell b is killed under load. Exits with 1 if a call of a user in cell a fails.

const USERS = 4;
const LOAD_MS = 6_000;
const MOST_SHOWN = 10;

interface Cell {
  name: CellName;
  postgres: PostgresServer;
  service: RunningProcess;
  url: string;
}

/** Calls by cell: all, and the ones without the expected answer. */
const counts = { a: { calls: 0, failed: 0 }, b: { calls: 0, failed: 0 } };
const problems: string[] = [];

async function startCell(name: CellName, router: string): Promise<Cell> {
  const postgres = await startPostgres({ folder: newDatabaseFolder(`cell-${name}`) });
  await runSql(postgres.url("postgres"), "create database purser");
  const service = startProcess({
    PORT: "0",
    DATABASE_URL: postgres.url("purser"),
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: `test:${randomBytes(32).toString("base64")}`,
    PURSER_ROUTING_BUCKETS: CELLS[name],
    PURSER_PUBLIC_URL: router,
    PURSER_TRUSTED_PROXIES: "127.0.0.1/32",
    PURSER_PAYMENTS: "none",
  });
  return { name, postgres, service, url: await service.listening };
}

/** One call of a user of `cell`; counted as failed unless its status is `expected`. */
async function call(cell: CellName, url: string, init: RequestInit, expected: number) {
  counts[cell].calls += 1;
  const answer = await fetch(url, init).catch((error: Error) => error);
  const status = answer instanceof Error ? answer.message : answer.status;
  const text = answer instanceof Error ? "" : await answer.text();
  if (status !== expected) {
    counts[cell].failed += 1;
    problems.push(`cell ${cell}: ${init.method} ${url}: ${status} ${text.slice(0, 120)}`);
  }
  return {
    headers: answer instanceof Error ? null : answer.headers,
    body: text.startsWith("{") ? JSON.parse(text) : text,
  };
}

const json = (method: string, headers: Record<string, string>, body?: unknown): RequestInit => ({
  method,
  headers: { "Content-Type": "application/json", ...headers },
  ...(body === undefined ? {} : { body: JSON.stringify(body) }),
});

/** Users of a cell, created at its own address, with their keys. */
async function createUsers({ name, url }: Cell): Promise<string[]> {
  const keys: string[] = [];
  for (let nth = 0; nth < USERS; nth += 1) {
    const body = { email: `user${nth}@${name}.example` };
    const operator = { Authorization: `Bearer ${ADMIN_KEY}` };
    keys.push((await call(name, `${url}/api/v1/admin/users`, json("POST", operator, body), 201)).body.api_key.key);
  }
  return keys;
}

/** A program's calls with its key: every kind, by Bearer and x-api-key. */
async function useApi(cell: CellName, router: string, key: string): Promise<void> {
  const bearer = { Authorization: `Bearer ${key}` };
  const api = `${router}/api/v1`;
  const ask = { model: "purser/rehearsal", messages: [{ role: "user", content: "Say hello." }] };
  const agent = {
    name: `agent ${randomBytes(4).toString("hex")}`,
    run_prompt: "Say hello.",
    model_id: "purser/rehearsal",
  };
  await call(cell, `${api}/users/me`, json("GET", bearer), 200);
  await call(cell, `${api}/users/me`, json("GET", { "x-api-key": key }), 200);
  await call(cell, `${api}/chat/completions`, json("POST", bearer, ask), 200);
  await call(cell, `${api}/chat/completions`, json("POST", bearer, { ...ask, stream: true }), 200);
  await call(cell, `${api}/responses`, json("POST", bearer, { model: ask.model, input: "Say hello." }), 200);
  await call(cell, `${api}/messages`, json("POST", { "x-api-key": key }, { ...ask, max_tokens: 100 }), 200);
  const created = (await call(cell, `${api}/agents`, json("POST", bearer, agent), 201)).body;
  await call(cell, `${api}/agents/${created.id}/runs`, json("POST", bearer), 202);
  await call(cell, `${api}/agents/${created.id}/chat`, json("POST", bearer, { messages: ask.messages }), 200);
  await call(cell, `${api}/agents/${created.id}/runs`, json("GET", bearer), 200);
  await call(cell, `${api}/secrets`, json("GET", bearer), 200);
  await call(cell, `${api}/users/me/usage`, json("GET", bearer), 200);
  await call(cell, `${api}/users/me/transactions?format=csv`, json("GET", bearer), 200);
  const second = (await call(cell, `${api}/api-keys`, json("POST", bearer, { name: "second" }), 201)).body;
  await call(cell, `${api}/users/me`, json("GET", { "x-api-key": second.key }), 200);
  await call(cell, `${api}/api-keys/${second.id}`, json("DELETE", bearer), 204);
  await call(cell, `${api}/agents/${created.id}`, json("DELETE", bearer), 204);
}

/** A person signs up at the router and uses the console with a session of the default cell. */
async function signUp(router: string, { service }: Cell): Promise<void> {
  const [email, password] = ["person@example.com", "a long and unusual password"];
  const from = { Origin: router };
  await call("a", `${router}/api/v1/auth/sign-up/email`, json("POST", from, { email }), 202);
  while (!service.stderr().includes("#token=")) await delay(50);
  const token = /#token=([\w-]+)/.exec(service.stderr())?.[1];
  const { headers } = await call(
    "a",
    `${router}/api/v1/auth/verify-email`,
    json("POST", from, { token, password }),
    201,
  );
  const cookie = headers?.getSetCookie()[0]?.split(";")[0] ?? "";
  await call("a", `${router}/api/v1/users/me`, json("GET", { ...from, Cookie: cookie }), 200);
  await call(
    "a",
    `${router}/api/v1/api-keys`,
    json("POST", { ...from, Cookie: cookie }, { name: "from the console" }),
    201,
  );
}

function report(phase: string): void {
  for (const name of ["a", "b"] as const) {
    const { calls, failed } = counts[name];
    process.stdout.write(`${phase.padEnd(24)} cell ${name}: ${calls} calls, ${failed} failed\n`);
    Object.assign(counts[name], { calls: 0, failed: 0 });
  }
}

const port = await freePort();
const [a, b] = await Promise.all([
  startCell("a", `http://127.0.0.1:${port}`),
  startCell("b", `http://127.0.0.1:${port}`),
]);
const router = await startRouter({ a: a.url, b: b.url }, port);
const keys = { a: await createUsers(a), b: await createUsers(b) };
for (const name of ["a", "b"] as const) for (const key of keys[name]) await useApi(name, router.url, key);
await signUp(router.url, a);
report("both cells");
let is_ok = problems.length === 0;

const until_ms = performance.now() + LOAD_MS;
const load = async (name: CellName, key: string) => {
  while (performance.now() < until_ms) await useApi(name, router.url, key).catch(() => {});
};
const working = Promise.all([...keys.a.map((key) => load("a", key)), ...keys.b.map((key) => load("b", key))]);
await delay(LOAD_MS / 3);
b.service.signal("SIGKILL");
await b.postgres.stop();
await working;
is_ok &&= counts.a.failed === 0 && counts.b.failed > 0;
report("cell b killed under load");

const gone = await fetch(`${router.url}/api/v1/users/me`, json("GET", { Authorization: `Bearer ${keys.b[0]}` }));
const answer = `${gone.status}, Retry-After ${gone.headers.get("Retry-After")}, code ${(await gone.json()).error.code}`;
process.stdout.write(`a user of cell b: ${answer}\n`);
for (const problem of problems.filter((text) => text.startsWith("cell a")).slice(0, MOST_SHOWN))
  process.stdout.write(`${problem}\n`);
process.stdout.write(is_ok ? "no call of cell a failed\n" : "FAILED\n");
await router.stop();
a.service.signal("SIGTERM");
await a.service.ended;
await a.postgres.stop();
process.exit(is_ok ? 0 : 1);
