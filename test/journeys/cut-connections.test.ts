import { connect, createServer, type Socket } from "node:net";
import { expect, inject, test } from "vitest";
import { openPostgres } from "../../src/platform/db/postgres.adapter.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { createTestDatabase } from "../support/database.ts";
import { runSql } from "../support/postgres-server.ts";

test.skipIf(inject("storage").kind === "embedded")(
  "a cut connection fails only its running statement, and the next statement gets another connection",
  async () => {
    const { database_url, open, drop } = await createTestDatabase();
    const db = await open();
    const ours = "from pg_stat_activity where datname = current_database() and application_name = 'purser'";
    const watch = (text: string) => runSql(database_url ?? "", text) as Promise<{ pid: number; state: string }[]>;
    const cut = () => watch(`select pg_terminate_backend(pid) ${ours}`);
    const backends = () => watch(`select pid, state ${ours}`);
    const backend = async () => (await db.query<{ pid: number }>({ text: "select pg_backend_pid() as pid" }))[0]?.pid;

    const first = await backend();
    await cut();
    await expect.poll(async () => (await backends()).some(({ pid }) => pid === first)).toBe(false);
    await new Promise(setImmediate); // a last message that arrived with the answer to the poll
    expect(await backend()).not.toBe(first);

    const at_work = db.query({ text: "select pg_sleep(30)" }).catch((error: { code: string }) => error.code);
    await expect.poll(async () => (await backends()).some(({ state }) => state === "active")).toBe(true);
    await cut();
    expect(await at_work).toBe("57P01");
    expect(await backend()).toBeTypeOf("number");

    await db.close();
    await drop();
  },
);

/** A proxy to `url` whose connections a test can cut. */
async function cutWay(url: string) {
  const pairs: [Socket, Socket][] = [];
  const server = createServer((near) => {
    const far = connect({ host: new URL(url).hostname, port: Number(new URL(url).port) });
    near.pipe(far).pipe(near);
    for (const socket of [near, far]) socket.on("error", () => {});
    pairs.push([near, far]);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const via = new URL(url);
  via.hostname = "127.0.0.1";
  via.port = String((server.address() as { port: number }).port);
  return {
    url: via.href,
    reset: () => {
      for (const [near] of pairs) near.resetAndDestroy();
    },
    /** Stops the traffic of all open connections, without a notice to either end. */
    silence: () => {
      for (const [near, far] of pairs) {
        near.unpipe(far).pause();
        far.unpipe(near).pause();
      }
    },
    close: () => {
      for (const socket of pairs.flat()) socket.destroy();
      server.close();
    },
  };
}

/** No migrations: they could take longer than `answer_ms`, and these tests need no table. */
const prepare = async () => {};

test.skipIf(inject("storage").kind === "embedded").each(["reset", "silence"] as const)(
  "a connection that is cut during a transaction, by %s, fails only that transaction",
  async (how) => {
    const { database_url, drop } = await createTestDatabase();
    const way = await cutWay(database_url ?? "");
    const db = await openPostgres({ url: way.url, log: createLog("silent"), answer_ms: 500, prepare });
    for (const text of ["select 1", "select pg_sleep(0.2)"]) {
      const cut = db.transaction(async (tx) => {
        await tx.query({ text: "select 1" });
        const at_work = tx.query({ text });
        at_work.catch(() => {}); // the test checks the next statement
        way[how]();
        await new Promise((resolve) => setTimeout(resolve, 50)); // until the error event, which no code awaits
        await at_work;
        await tx.query({ text: "select 2" });
      });
      await expect(cut).rejects.toThrow();
      expect(await db.transaction((tx) => tx.query({ text: "select 3 as answer" }))).toEqual([{ answer: 3 }]);
    }
    await db.close();
    way.close();
    await drop();
  },
);

test.skipIf(inject("storage").kind === "embedded")(
  "a statement that the server does not answer in time fails, unless it has no timeout",
  async () => {
    const { database_url, drop } = await createTestDatabase();
    const db = await openPostgres({ url: database_url ?? "", log: createLog("silent"), answer_ms: 100, prepare });
    const slow = { text: "select pg_sleep(0.5)" };
    await expect(db.query(slow)).rejects.toThrow("timeout");
    await expect(db.transaction((tx) => tx.query(slow))).rejects.toThrow();
    expect(await db.query({ ...slow, no_timeout: true })).toHaveLength(1);
    expect(await db.transaction((tx) => tx.query({ ...slow, no_timeout: true }))).toHaveLength(1);
    await db.close();
    await drop();
  },
);

test.skipIf(inject("storage").kind === "embedded")(
  "transactions are read committed under any default of the database: ten that change one row all succeed",
  async () => {
    const { database_url, drop } = await createTestDatabase();
    const [name] = await runSql(database_url ?? "", "select quote_ident(current_database()) as name");
    const database = (name as { name: string }).name;
    await runSql(database_url ?? "", `alter database ${database} set default_transaction_isolation = 'serializable'`);
    const db = await openPostgres({ url: database_url ?? "", log: createLog("silent") });
    await db.query({ text: "create table counter as select 0 as n" });
    const raise = () =>
      db.transaction(async (tx) => {
        await tx.query({ text: "select n from counter" });
        await new Promise((resolve) => setTimeout(resolve, 50)); // until all have begun
        await tx.query({ text: "update counter set n = n + 1" });
      });
    await Promise.all(Array.from({ length: 10 }, raise));
    expect(await db.query({ text: "select n from counter" })).toEqual([{ n: 10 }]);
    await db.close();
    await drop();
  },
);
