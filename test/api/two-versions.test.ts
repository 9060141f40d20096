import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { migrate } from "../../src/platform/db/migrate.ts";
import { ask, useLab } from "../support/lab.ts";
import { withoutNode } from "../support/raw-database.ts";
import type { Client } from "../support/service.ts";
import { completion } from "../support/upstream.ts";

// While a newer version runs beside this one, tables have columns that this one does not know.

/** SQL functions fill rows of these. A version that adds a column to one of them replaces the functions too. */
const FILLED_BY_FUNCTIONS = "{hold,usage_event,entry,crossing}";
/** A migration that only expands: a new table, and a column in every other one. */
const NEXT = `create table of_the_test (id integer);
  do $$ declare name text; begin
    for name in select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
        and relname <> all ('${FILLED_BY_FUNCTIONS}') loop
      execute format('alter table %I add column of_the_next text', name);
    end loop;
  end $$`;

const lab = useLab(undefined, { env: { PURSER_PAYMENTS: "sandbox" } });
beforeAll(() => lab.upstream.answer(completion()));

/** A new user's requests, in their order, and their statuses. */
async function statusesOfNewUser(): Promise<string[]> {
  const user: Client = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const agent = { name: "Scout", model_id: "lab/plain", run_prompt: "Look." };
  const statuses: string[] = [];
  const send = async (method: string, path: string, body?: object, headers?: Record<string, string>) => {
    const answer = await user.request(method, `/api/v1${path}`, body, headers);
    statuses.push(`${method} ${path.replace(/[0-9a-f-]{36}/, "{id}")}: ${answer.status}`);
    return answer.body;
  };
  const { id } = await send("POST", "/agents", agent);
  await send("POST", "/chat/completions", ask("lab/plain"));
  await send("POST", "/chat/completions", ask(`agent/${id}`));
  await send("POST", `/agents/${id}/runs`, undefined, { Prefer: "wait=30" });
  await send("PUT", `/agents/${id}`, { description: "Looks." });
  await send("GET", `/agents/${id}`);
  await send("POST", `/agents/${id}/chat`, { messages: [{ role: "user", content: "hello" }] });
  await send("POST", "/secrets", { name: "KEY", value: "0123456789abcdef", allowed_hosts: ["example.com"] });
  await send("POST", "/billing/purchase", { amount_cents: 500 });
  for (const list of ["/agents", `/agents/${id}/runs`, "/secrets", "/notices", "/api-keys"]) await send("GET", list);
  for (const read of ["/users/me", "/users/me/usage", "/users/me/transactions"]) await send("GET", read);
  await send("DELETE", `/agents/${id}`);
  return statuses;
}

test("two versions beside each other: a node answers every request as before after a newer version has migrated its database", async () => {
  const before = await Promise.all([statusesOfNewUser(), statusesOfNewUser()]);
  expect(before[0]?.filter((line) => !/: 2\d\d$/.test(line))).toEqual([]);
  const folder = mkdtempSync(join(tmpdir(), "purser-migrations-"));
  cpSync("migrations", folder, { recursive: true });
  writeFileSync(join(folder, "9999_of_the_test.sql"), NEXT);
  await withoutNode(lab.service.database, (connection) => migrate({ connect: async () => connection }, folder));
  rmSync(folder, { recursive: true });
  expect(await Promise.all([statusesOfNewUser(), statusesOfNewUser()])).toEqual(before);
});
