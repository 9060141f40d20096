import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import { serveApi } from "../../src/app/routes.ts";
import { createServices, type Services } from "../../src/app/services.ts";
import { readConfig } from "../../src/config/config.ts";
import { AGENT_BYTES, KEPT_VERSIONS, USER_ROWS } from "../../src/kernel/constants.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { ADMIN_KEY } from "../support/service.ts";

// contract 2.16 and 6.8.3: no user fills the disk with rows that cost nothing. The service runs without a worker, so runs
// stay queued.

let database: TestDatabase;
let services: Services;
let http: ReturnType<typeof serveApi>;
beforeAll(async () => {
  database = await createTestDatabase();
  const env = {
    LOG_LEVEL: "silent",
    DATA_DIR: database.data_dir,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: `test:${randomBytes(32).toString("base64")}`,
    ...(database.database_url === null ? {} : { DATABASE_URL: database.database_url }),
  };
  services = await createServices(readConfig(env), createLog("silent"));
  http = serveApi(services, { probes: [], sources: [], cut_off: new AbortController().signal });
  services.address.listeningAt("http://127.0.0.1");
});
afterAll(async () => {
  await services.accounts.close();
  await services.db.close();
  await database.drop();
});

let key = ADMIN_KEY;
let user_id: string;
beforeEach(async () => {
  key = ADMIN_KEY;
  const { user, api_key } = (await ask("POST", "admin/users", { email: `${newId()}@example.com` })).body;
  ({ key } = api_key);
  user_id = user.id;
});

async function ask(method: string, path: string, given?: unknown, headers: Record<string, string> = {}) {
  const body = given === undefined ? null : JSON.stringify(given);
  const sent = {
    Authorization: `Bearer ${key}`,
    ...(body !== null && { "Content-Type": "application/json", "Content-Length": `${Buffer.byteLength(body)}` }),
    ...headers,
  };
  const response = await http.inject({
    method: method as "GET",
    url: `/api/v1/${path}`,
    payload: body ?? "",
    headers: sent,
  });
  const is_json = response.headers["content-type"]?.toString().startsWith("application/json") ?? false;
  return { status: response.statusCode, headers: response.headers, body: is_json ? response.json() : null };
}
const sql = <Row>(text: string, values: unknown[] = []) => services.db.query<Row>({ text, values });
const AGENT = { name: "A", model_id: "purser/rehearsal", run_prompt: "Say hello" };
const newAgent = async (): Promise<string> => (await ask("POST", "agents", AGENT)).body.id;

/** Copies the user's one row of a table, with other values of these columns, until there are `count` of them. */
async function copyRow(table: string, changed: Record<string, string>, count: number) {
  const [row] = await sql<{ columns: string[] }>(
    "select array_agg(quote_ident(column_name)) as columns from information_schema.columns where table_name = $1",
    [table],
  );
  const columns = row?.columns ?? [];
  const values = columns.map((column) => changed[column] ?? column);
  await sql(
    `insert into ${table} (${columns}) select ${values} from ${table}, generate_series(2, $2::integer) as n where user_id = $1`,
    [user_id, count],
  );
}
const NEW_ID = "gen_random_uuid()";

interface Kind {
  kind: string;
  most: number;
  code: string;
  says: string;
  /** Has `count` rows of the kind. */
  fill(count: number): Promise<unknown>;
  /** Creates one more. */
  create(n: number): ReturnType<typeof ask>;
  remove(made: { id: string }, n: number): ReturnType<typeof ask>;
}
let agent_id: string;
const KINDS: Kind[] = [
  {
    kind: "agents",
    most: USER_ROWS.agents,
    code: "agent_limit_reached",
    says: "You have 1000 agents. Delete one first.",
    async fill(count) {
      await newAgent();
      await copyRow("agent", { id: NEW_ID }, count);
    },
    create: () => ask("POST", "agents", AGENT),
    remove: ({ id }) => ask("DELETE", `agents/${id}`),
  },
  {
    kind: "API keys that are neither revoked nor expired",
    most: USER_ROWS.api_keys,
    code: "api_key_limit_reached",
    says: "You have 1000 API keys that are neither revoked nor expired. Revoke one first.",
    fill: (count) => copyRow("api_key", { id: NEW_ID, key_hash: `sha256(${NEW_ID}::text::bytea)` }, count),
    create: () => ask("POST", "api-keys", { name: "another" }),
    remove: ({ id }) => ask("DELETE", `api-keys/${id}`),
  },
  {
    kind: "threads without a turn",
    most: USER_ROWS.empty_threads,
    code: "thread_limit_reached",
    says: "You have 10000 threads without a turn. Chat in one, or delete one first.",
    async fill(count) {
      agent_id = await newAgent();
      await ask("POST", `agents/${agent_id}/threads`, { id: "first" });
      await copyRow("thread", { uid: NEW_ID, id: `${NEW_ID}::text` }, count);
    },
    create: () => ask("POST", `agents/${agent_id}/threads`, {}),
    remove: ({ id }) => ask("DELETE", `agents/${agent_id}/threads/${id}`),
  },
  {
    kind: "budgets of end users",
    most: USER_ROWS.end_user_budgets,
    code: "budget_limit_reached",
    says: "You have 100000 budgets of end users. Delete one first.",
    async fill(count) {
      await ask("PUT", "end-user-budgets/first", { budget_tokens: 1 });
      await copyRow("end_user_budget", { end_user: "'user-' || n" }, count);
    },
    create: (n) => ask("PUT", `end-user-budgets/new-${n}`, { budget_tokens: 5 }),
    remove: (_, n) => ask("DELETE", `end-user-budgets/new-${n}`),
  },
  {
    kind: "webhook endpoints",
    most: USER_ROWS.webhook_endpoints,
    code: "endpoint_limit_reached",
    says: "You have 10 endpoints. Delete one first.",
    async fill(count) {
      await ask("POST", "webhook-endpoints", { url: "https://example.com/", events: ["run.failed"] });
      await copyRow("webhook_endpoint", { id: NEW_ID }, count);
    },
    create: () => ask("POST", "webhook-endpoints", { url: "https://example.com/", events: ["run.failed"] }),
    remove: ({ id }) => ask("DELETE", `webhook-endpoints/${id}`),
  },
];

describe("a user at the limit", () => {
  test.each(KINDS)("of $kind: of two creates at once one fails, and a deletion makes room", async (row) => {
    await row.fill(row.most - 1);
    const both = await Promise.all([row.create(0), row.create(1)]);
    const [made, failed] = both[0].status === 409 ? [both[1], both[0]] : both;
    expect([200, 201]).toContain(made.status);
    expect([failed.status, failed.body.error.code, failed.body.error.message]).toEqual([409, row.code, row.says]);
    expect((await row.create(2)).status).toBe(409);
    expect((await row.remove(made.body, both.indexOf(made))).status).toBe(204);
    expect((await row.create(2)).status).toBe(made.status);
    expect((await row.create(3)).status).toBe(409);
  });

  test("of budgets may change the budgets that exist, and another user is not concerned", async () => {
    await ask("PUT", "end-user-budgets/first", { budget_tokens: 1 });
    await copyRow("end_user_budget", { end_user: "'user-' || n" }, USER_ROWS.end_user_budgets);
    expect((await ask("PUT", "end-user-budgets/user-2", { budget_tokens: 9 })).body.budget_tokens).toBe(9);
    expect((await ask("PUT", "end-user-budgets/new", { budget_tokens: 9 })).status).toBe(409);
    key = ADMIN_KEY;
    ({ key } = (await ask("POST", "admin/users", { email: `${newId()}@example.com` })).body.api_key);
    expect((await ask("PUT", "end-user-budgets/new", { budget_tokens: 9 })).status).toBe(200);
  });
});

test("threads with a turn are not counted: their model calls were paid", async () => {
  agent_id = await newAgent();
  await ask("POST", `agents/${agent_id}/threads`, { id: "first" });
  await sql("update thread set last_turn = 1, last_run_id = $2 where user_id = $1", [user_id, newId()]);
  await copyRow("thread", { uid: NEW_ID, id: `${NEW_ID}::text` }, USER_ROWS.empty_threads + 1);
  expect((await ask("POST", `agents/${agent_id}/threads`, {})).status).toBe(201);
});

test("of the revoked keys the newest thousand are kept", async () => {
  const first = (await ask("POST", "api-keys", { name: "first" })).body;
  await ask("DELETE", `api-keys/${first.id}`);
  const revoked = () => sql("select from api_key where user_id = $1 and revoked_at is not null", [user_id]);
  await sql(
    `insert into api_key (id, user_id, name, key_hash, prefix, last_four, scopes, created_at, revoked_at)
      select ('f' || substr(gen_random_uuid()::text, 2))::uuid, $1, 'newer', sha256(gen_random_uuid()::text::bytea), '', '', '{}', now(), now()
        from generate_series(1, $2)`,
    [user_id, USER_ROWS.api_keys + 5],
  );
  expect((await ask("POST", "api-keys", { name: "another" })).status).toBe(201);
  expect(await revoked()).toHaveLength(USER_ROWS.api_keys);
  expect(await sql("select from api_key where id = $1", [first.id])).toEqual([]);
  expect((await ask("GET", "users/me")).status).toBe(200);
});

test("keys that have expired are not counted, and are kept as revoked ones are", async () => {
  const fill = (expires_at: string) =>
    sql(
      `insert into api_key (id, user_id, name, key_hash, prefix, last_four, scopes, created_at, expires_at)
        select gen_random_uuid(), $1, 'old', sha256(gen_random_uuid()::text::bytea), '', '', '{}', now(), now() + $3::interval
          from generate_series(1, $2)`,
      [user_id, USER_ROWS.api_keys + 5, expires_at],
    );
  await fill("-1 hour");
  expect((await ask("POST", "api-keys", { name: "another" })).status).toBe(201);
  expect(await sql("select from api_key where user_id = $1 and expires_at <= now()", [user_id])).toHaveLength(
    USER_ROWS.api_keys,
  );
  await fill("1 hour");
  expect((await ask("POST", "api-keys", { name: "another" })).body.error.code).toBe("api_key_limit_reached");
});

describe("versions of agents", () => {
  const versionStatus = async (id: string, version: number) =>
    (await ask("GET", `agents/${id}/versions/${version}`)).status;

  test("are kept if they are among the newest 50 or an unfinished run pins them", async () => {
    const id = await newAgent();
    const change = (n: number) => ask("PUT", `agents/${id}`, { description: `change ${n}` });
    expect((await change(2)).body.version).toBe(2);
    const run = (await ask("POST", `agents/${id}/runs`)).body;
    expect(run).toMatchObject({ status: "queued", agent_version: 2 });
    const last = KEPT_VERSIONS + 4;
    for (let n = 3; n <= last; n += 1) expect((await change(n)).body.version).toBe(n);
    const kept = await sql<{ version: number }>(
      "select version from agent_version where agent_id = $1 order by version",
      [id],
    );
    const newest = Array.from({ length: KEPT_VERSIONS }, (_, n) => last - KEPT_VERSIONS + 1 + n);
    expect(kept.map(({ version }) => version)).toEqual([2, ...newest]);
    expect([await versionStatus(id, 2), await versionStatus(id, 3), await versionStatus(id, last)]).toEqual([
      200, 404, 200,
    ]);

    await ask("POST", `agents/${id}/runs/${run.id}/cancel`);
    await change(last + 1);
    expect(await versionStatus(id, 2)).toBe(404);
  });

  test("and settings of a deleted agent are deleted with it; its name stays for its runs and the ledger", async () => {
    const id = await newAgent();
    expect((await ask("POST", `agents/${id}/runs`)).status).toBe(202);
    await ask("PUT", `agents/${id}`, {
      system_prompt: "Private",
      schedule_enabled: true,
      schedule_interval: "daily",
      schedule_time: "09:00",
    });
    expect((await ask("DELETE", `agents/${id}`)).status).toBe(204);
    expect(await sql("select from agent_version where agent_id = $1", [id])).toEqual([]);
    const left = await sql("select name, system_prompt, run_prompt from agent where id = $1", [id]);
    expect(left).toEqual([{ name: "A", system_prompt: null, run_prompt: null }]);
  });

  test("and everything else of an agent that never ran are deleted with it: a loop of creates and deletes leaves no row", async () => {
    const id = await newAgent();
    expect((await ask("GET", `agents/${id}/webhook-key`)).status).toBe(200);
    await ask("PUT", `agents/${id}`, { schedule_enabled: true, schedule_interval: "daily", schedule_time: "09:00" });
    await ask("POST", `agents/${id}/threads`, { id: "empty" });
    expect((await ask("DELETE", `agents/${id}`)).status).toBe(204);
    expect((await ask("DELETE", `agents/${id}`)).status).toBe(404);
    for (const table of ["agent", "agent_version", "agent_webhook_key", "schedule", "thread"]) {
      expect.soft(await sql(`select from ${table} where user_id = $1`, [user_id]), table).toEqual([]);
    }
  });

  // Half a gigabyte of writes, which are the same on both storages.
  test.skipIf(inject("storage").kind === "embedded")(
    "of one user have 256 MB together: what grows beyond that fails until an agent is deleted, and an agent can be switched off",
    async () => {
      const [large, other] = [await newAgent(), await newAgent()];
      const parts = 5;
      // Uncompressed, so that one text has its whole size.
      await sql("alter table agent_version alter column config set storage external");
      for (let n = 1; n <= parts; n += 1) {
        await sql(
          `insert into agent_version (user_id, agent_id, version, config, created_at)
          values ($1, $2, 1 + $3::integer, jsonb_build_object('x', repeat('x', $4)), now())`,
          [user_id, large, n, Math.ceil(AGENT_BYTES / parts)],
        );
      }
      const create = () => ask("POST", "agents", AGENT);
      const change = (description: string) => ask("PUT", `agents/${other}`, { description });
      const more = "more ".repeat(100);
      for (const { status, body } of [await create(), await change(more)]) {
        expect([status, body.error.code]).toEqual([409, "agent_storage_full"]);
        expect(body.error.message).toBe("Your agents and their earlier versions have 256 MB. Delete an agent first.");
      }
      expect((await ask("GET", `agents/${other}`)).body).toMatchObject({ version: 1, description: null });

      const off = await ask("PUT", `agents/${other}`, { is_active: false });
      expect(off.body).toMatchObject({ version: 2, is_active: false });
      expect([await versionStatus(other, 1), await versionStatus(other, 2)]).toEqual([404, 200]);
      expect((await change("off")).body.version).toBe(3);

      expect((await ask("DELETE", `agents/${large}`)).status).toBe(204);
      expect([(await create()).status, (await change(more)).status]).toEqual([201, 200]);
    },
  );
});

describe("answers that are kept for an Idempotency-Key", () => {
  const twice = async (path: string, body: unknown, Key: string = newId()) => {
    const send = () => ask("POST", path, body, { "Idempotency-Key": Key });
    const [first, second] = [await send(), await send()];
    expect(second.status).toBe(first.status);
    return second.headers["idempotent-replayed"] === "true";
  };
  const kept = () => sql("select from idempotency_key where user_id = $1", [user_id]);

  test("are not those of requests that only read: they could repeat a megabyte for nothing", async () => {
    expect(await twice("safety/sanitize", { content: "hello", kind: "text" })).toBe(false);
    for (const name of ["get_run", "list_runs"]) {
      const params = { name, arguments: name === "get_run" ? { run_id: newId() } : {} };
      const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
      const Accept = "application/json, text/event-stream";
      const { status } = await ask("POST", "mcp", message, { "Idempotency-Key": newId(), Accept });
      expect(status).toBe(200);
    }
    expect(await kept()).toEqual([]);
    expect(await twice("agents", AGENT)).toBe(true);
  });

  test("have 256 MB if they are new agents of over 8 KB; a smaller one is kept in any case", async () => {
    const large = { ...AGENT, system_prompt: "x".repeat(9_000) };
    expect(await twice("agents", large)).toBe(true);
    await sql(
      `insert into idempotency_key (user_id, key, request_hash, status, headers, body, created_at, locked_until)
        select $1, 'filled-' || n, '', 201, '{}', convert_to(repeat('x', 8000000), 'UTF8'), now(), now()
          from generate_series(1, 34) as n`,
      [user_id],
    );
    expect(await twice("agents", large)).toBe(false);
    expect(await twice("agents", AGENT)).toBe(true);
  });
});
