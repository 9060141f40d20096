import { expect, inject, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { runSql } from "../support/postgres-server.ts";
import { createLedgerFixture } from "./ledger-fixture.ts";

const storage = inject("storage");

/** Embedded storage is part of the process: it is never away. */
test.skipIf(storage.kind === "embedded")(
  "a charge waits longer than a hold for a database that is away, and is made once when it is back",
  async () => {
    const server = storage.kind === "postgres" ? storage.url : "";
    const database = await createTestDatabase();
    const name = new URL(database.database_url ?? "").pathname.slice(1);
    const db = await database.open();
    const { ledger, ...world } = createLedgerFixture(db);
    const user_id = await world.account(100);
    const held = await world.hold(user_id, 80);
    if (held.status !== "held") throw new Error(held.code);

    await runSql(server, `alter database ${name} allow_connections false`);
    await runSql(server, `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
    const settling = world.settle(user_id, held.hold_id, 60);
    await expect(world.hold(user_id, 10)).rejects.toMatchObject({ code: "overloaded" }); // after the retries of a hold
    await runSql(server, `alter database ${name} allow_connections true`);

    expect(await settling).toMatchObject({ status: "settled", charged_tokens: 60, replayed: false });
    expect(await ledger.accountStatus(user_id)).toMatchObject({ posted: 40, held: 0 });
    await db.close();
    await database.drop();
  },
);
