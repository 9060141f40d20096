import { afterAll, beforeAll, expect, it } from "vitest";
import { deleteOldFailed, type FailedRow, insertFailed } from "../../src/account/requests/requests.store.ts";
import { createAccounts } from "../../src/account/users/accounts.service.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

// contract 5.15.1: how many failed requests are kept.

const clock = createSystemClock();
let database: TestDatabase;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = await database.open();
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

const failed = (user_id: string, created_at: string): FailedRow => ({
  user_id,
  id: newId(),
  request_id: "r",
  api: "messages",
  api_key_id: null,
  end_user: null,
  model: null,
  http_status: 429,
  error_code: "rate_limited",
  error_message: null,
  param: null,
  duration_ms: 1,
  created_at,
});
const idsOf = async (user_id: string) => {
  const text = "select id from failed_request where user_id = $1 order by id";
  return (await db.query<{ id: string }>({ text, values: [user_id] })).map(({ id }) => id);
};

it("a user's newest failed requests of some days are kept, and none of an erased user is written", async () => {
  const [ada, bob] = [newId(), newId()];
  const rows = Array.from({ length: 5 }, () => failed(ada, "2026-05-02T00:00:00.000Z"));
  const old = failed(bob, "2026-04-01T00:00:00.000Z");
  const young = failed(bob, "2026-05-02T00:00:00.000Z");
  await insertFailed(db, [...rows, old, young]);
  await deleteOldFailed(db, "2026-05-01T00:00:00.000Z", 3);
  expect(await idsOf(ada)).toEqual(rows.slice(2).map(({ id }) => id));
  expect(await idsOf(bob)).toEqual([young.id]);
  const accounts = await createAccounts({ db, clock });
  const email = `${newId()}@example.com`;
  const { user } = await db.transaction((tx) => accounts.createUser(tx, { email, key_name: "k" }));
  await db.transaction((tx) => accounts.eraseUser(tx, user.id));
  await insertFailed(db, [failed(user.id, clock.now())]);
  expect(await idsOf(user.id)).toEqual([]);
  await accounts.close();
});
