import { randomBytes, randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLedger } from "../../src/account/ledger/ledger.service.ts";
import { createMails } from "../../src/account/notices/mails.service.ts";
import { createAccounts } from "../../src/account/users/accounts.service.ts";
import { createSignIn } from "../../src/account/users/sign-in.service.ts";
import { createSignInStore } from "../../src/account/users/sign-in.store.ts";
import { SCOPES } from "../../src/api/contract/caller.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createCipher } from "../../src/platform/lib/cipher.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { createMailer } from "../../src/platform/net/mail.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createMetrics } from "../../src/platform/telemetry/metrics.ts";
import { openBrowser } from "../support/browser.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { cheapPasswords } from "../support/passwords.ts";
import { startService } from "../support/service.ts";

// Internal behaviour: stored rows, the cache, and concurrent requests.

const PASSWORD = "correct horse battery";
const CLIENT = "192.0.2.1";
const clock = createSystemClock();

let database: TestDatabase;
let db: Db;
let statements: string[];
let logged: { to?: string; link?: string }[];
let signIn: Awaited<ReturnType<typeof createSignIn>>;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
  statements = [];
  logged = [];
  signIn = await open(db);
});
afterAll(async () => {
  await signIn.close();
  await db.close();
  await database.drop();
});

/** A node's sign-in over `own`. Its statements are recorded, and its mails go to the log. */
function open(own: Db) {
  const log = createLog("info", null, { write: (line) => void logged.push(JSON.parse(line)) });
  const query: Db["query"] = (statement) => {
    statements.push(statement.text);
    return own.query(statement);
  };
  const ledger = createLedger({ db: own, clock });
  return createSignIn({
    db: { ...own, query },
    clock,
    log,
    mails: createMails({
      db: own,
      cipher: createCipher(randomBytes(32), "mails"),
      mailer: createMailer(null, { log, clock }),
      log,
      metrics: createMetrics(),
    }),
    passwords: cheapPasswords(),
    url: () => "https://purser.example",
    signup: "open",
    verification: "link",
    async openAccount(tx, { id }) {
      await ledger.openAccount(tx, { user_id: id, trial: null });
      return "used_before";
    },
  });
}

async function tokenFor(email: string): Promise<string> {
  await expect.poll(() => logged.some(({ to }) => to === email)).toBe(true);
  const link = logged.findLast(({ to }) => to === email)?.link ?? "";
  return link.split("#token=")[1] ?? "";
}
async function newPerson(email: string) {
  await signIn.signUp({ email, client: CLIENT });
  return signIn.verifyEmail(await tokenFor(email), PASSWORD);
}

it("each session of a person begins with the routing bucket of the keys", async () => {
  const { token, signed_in } = await newPerson("routed@example.org");
  const again = await signIn.signIn({ email: "routed@example.org", password: PASSWORD, client: CLIENT });
  const accounts = await createAccounts({ db, clock });
  const caller = { user_id: signed_in.user.id, api_key_id: null, key_budget_tokens: null, scopes: SCOPES };
  const { key } = await accounts.createApiKey(caller, { name: "laptop" });
  await accounts.close();
  expect([again.token.slice(0, 2), key.slice(12, 14)]).toEqual([token.slice(0, 2), token.slice(0, 2)]);
});

describe("the database", () => {
  it("has no password, session or link that a reader could use", async () => {
    await signIn.signUp({ email: "pending@example.org", password: PASSWORD, client: CLIENT });
    const pending = await tokenFor("pending@example.org");
    const { token } = await newPerson("stored@example.org");
    signIn.requestPasswordReset({ email: "stored@example.org", client: CLIENT });
    await expect
      .poll(() => logged.findLast(({ to }) => to === "stored@example.org")?.link)
      .toContain("/reset-password");
    const reset = await tokenFor("stored@example.org");
    const rows: string[] = [];
    for (const table of ["password", "session", "sign_up", "password_reset"]) {
      const stored = await db.query<{ row: string }>({ text: `select t::text as row from ${table} t` });
      expect(stored.length, table).toBeGreaterThan(0);
      rows.push(...stored.map(({ row }) => row));
    }
    for (const secret of [PASSWORD, token, pending, reset]) {
      const forms = [secret, Buffer.from(secret).toString("hex"), Buffer.from(secret, "base64url").toString("hex")];
      for (const form of forms) expect(rows.join("\n")).not.toContain(form);
    }
  });

  it("loses expired rows in a sweep, and no others", async () => {
    const { token } = await newPerson("swept@example.org");
    await db.query({
      text: "insert into sign_up (token_hash, email, expires_at) values ('\\x01', 'old@example.org', $1)",
      values: ["2020-01-01T00:00:00.000Z"],
    });
    await signIn.sweep();
    expect(await db.query({ text: "select 1 from sign_up where email = 'old@example.org'" })).toEqual([]);
    expect((await signIn.who(token)).user.email).toBe("swept@example.org");
  });
});

describe("a session", () => {
  it("costs no statement once it is cached, and is rejected on every node once it has ended", {
    retry: 2,
  }, async () => {
    const elsewhere_db = database.kind === "postgres" ? await database.open() : db;
    const elsewhere = await open(elsewhere_db);
    const { token } = await newPerson(`cached-${randomUUID()}@example.org`);
    for (const node of [signIn, elsewhere]) await node.authenticate(token);
    statements.splice(0);
    for (let index = 0; index < 100; index += 1) {
      for (const node of [signIn, elsewhere]) await node.authenticate(token);
    }
    expect(statements).toEqual([]);
    await signIn.signOut(token);
    for (const node of [signIn, elsewhere]) {
      await expect
        .poll(() => node.authenticate(token).catch((error) => error.code), { timeout: 1000 })
        .toBe("session_expired");
    }
    await elsewhere.close();
    if (elsewhere_db !== db) await elsewhere_db.close();
  });

  it("does not begin with a password that is being changed", async () => {
    const { signed_in } = await newPerson("raced@example.org");
    const user_id = signed_in.user.id;
    const store = createSignInStore(db);
    const old = (await store.personByEmail("raced@example.org"))?.password_hash ?? "";
    const now = clock.now();
    const session = { token_hash: Buffer.from("raced"), user_id, created_at: now, expires_at: now };
    let begun: Promise<boolean> | undefined;
    await db.transaction(async (tx) => {
      await store.setPassword(tx, { user_id, hash: "another", now, proven_email: null });
      begun = store.insertSession(db, session, old);
      await tx.query({ text: "select pg_sleep(0.2)" });
      await store.deleteSessions(tx, user_id);
    });
    expect(await begun).toBe(false);
    expect(await db.query({ text: "select 1 from session where user_id = $1", values: [user_id] })).toEqual([]);
  });
});

describe("without SMTP_URL, if others can reach the service", () => {
  it("the link is written to the log, and the answer says so", async () => {
    const service = await startService({ env: { HOST: "0.0.0.0", PURSER_PUBLIC_URL: "https://purser.example" } });
    const browser = openBrowser(service.url, "https://purser.example");
    const current = await browser.get("/auth/get-session");
    expect(current.body).toMatchObject({ signup: "open", verification: "link", delivery: "log" });
    const asked = await browser.post("/auth/sign-up/email", { email: "ada@example.org", password: PASSWORD });
    expect([asked.status, asked.body]).toEqual([202, { status: "link_sent", delivery: "log" }]);
    await service.stop();

    await signIn.signUp({ email: "logged@example.org", client: CLIENT });
    expect(await tokenFor("logged@example.org")).toMatch(/^[\w-]{43}$/);
    expect(logged.findLast(({ to }) => to === "logged@example.org")?.link).toContain(
      "https://purser.example/verify-email#token=",
    );
  });
});
