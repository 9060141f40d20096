import { expect, inject, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";

/** Embedded storage has one connection. */
test.skipIf(inject("storage").kind === "embedded")(
  "statements of the hot path reuse the connection that has them prepared, also under other load",
  async () => {
    const database = await createTestDatabase();
    const db = await database.open();
    const pidOf = async (hot_path: boolean) => {
      const [row] = await db.query<{ pid: number }>({ text: "select pg_backend_pid() as pid", hot_path });
      return row?.pid;
    };
    const first = await pidOf(true);
    const others = Array.from({ length: 5 }, () => db.query({ text: "select pg_sleep(0.3)" }));
    const pids = [await pidOf(true), await pidOf(true)];
    const elsewhere = await pidOf(false);
    await Promise.all(others);
    pids.push(await pidOf(true));
    expect(pids).toEqual([first, first, first]);
    expect(elsewhere).not.toBe(first);
    await db.close();
    await database.drop();
  },
);
