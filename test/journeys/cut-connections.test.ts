import { expect, inject, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { runSql } from "../support/postgres-server.ts";

test.skipIf(inject("storage").kind === "embedded")(
  "connections that are cut, idle or at work, fail only the statement at work: the next one gets another",
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
    await new Promise(setImmediate); // its last words, if they came with the answer to the poll
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
