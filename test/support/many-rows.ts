import { createLedger } from "../../src/account/ledger/ledger.service.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { insertRuns } from "./console-tasks.ts";

export interface SeededAccount {
  user_id: string;
  agent_id: string;
  /** A run of this agent. */
  run_id: string;
  api_key_id: string;
}

/** A time for copy n, the newest first: half an hour apart. */
const AT = "$5::timestamptz - interval '30 minutes' * n";
/** An id of this time, because lists are sorted by their ids. */
const ID = `(lpad(to_hex((extract(epoch from ${AT}) * 1000)::bigint), 12, '0') || '7000' ||
  '8' || substr(md5($1::uuid::text || n), 1, 15))::uuid`;

/** For each list of the console, how copy n differs from the row that it copies, and the most that the API allows. */
const COPIES: readonly { table: string; changes: string; where?: string; order?: string; most?: number }[] = [
  { table: "agent", changes: `'id', ${ID}, 'name', 'Reader of berth ' || n, 'created_at', ${AT}` },
  {
    table: "schedule",
    changes: `'id', ${ID}, 'agent_id', ${ID}, 'enabled', false, 'next_run_at', null, 'api_key_id', null`,
    where: "name = 'default'",
  },
  { table: "agent_version", changes: `'version', n + 1`, where: "agent_id = $2", order: "version" },
  {
    table: "schedule",
    changes: `'id', gen_random_uuid(), 'name', 'Time ' || n`,
    where: "agent_id = $2 and name = 'default'",
    most: 20,
  },
  { table: "agent_trigger", changes: `'id', ${ID}, 'name', 'Form ' || n`, where: "agent_id = $2", most: 20 },
  { table: "thread", changes: `'id', 'thread-' || n, 'uid', ${ID}, 'updated_at', ${AT}`, where: "agent_id = $2" },
  { table: "run_step", changes: "'index', n + 10", where: "run_id = $3", order: "index", most: 200 },
  {
    table: "api_key",
    changes: `'id', ${ID}, 'name', 'Website ' || n, 'key_hash', sha256(${ID}::text::bytea), 'created_at', ${AT}`,
  },
  { table: "secret", changes: `'id', ${ID}, 'name', 'BERTH_KEY_' || n, 'created_at', ${AT}` },
  { table: "notice", changes: `'id', ${ID}, 'dedupe_key', 'copy ' || n, 'created_at', ${AT}` },
  {
    table: "payment",
    changes: `'id', ${ID}, 'reference', null, 'status', 'failed', 'bucket_id', null, 'paid_cents', 0, 'created_at', ${AT}`,
    where: "purpose = 'top_up'",
  },
  { table: "end_user_budget", changes: "'end_user', 'guest-' || n" },
  { table: "webhook_endpoint", changes: `'id', ${ID}, 'url', 'https://example.com/hook/' || n`, most: 10 },
];

/** Gives each list of an account that has one of everything this many rows, and its ledger as many charges. */
export async function fillLists(db: Db, account: SeededAccount, rows: number): Promise<void> {
  const now = new Date(Date.now() - 60_000).toISOString();
  for (const { table, changes, where = "true", order = "1", most = rows } of COPIES) {
    const columns = await db.query<{ name: string }>({
      text: `select quote_ident(column_name) as name from information_schema.columns
        where table_schema = 'public' and table_name = $1 and is_generated = 'NEVER'`,
      values: [table],
    });
    const names = columns.map(({ name }) => name).join(", ");
    const one = `select * from ${table} where user_id = $1 and ${where} order by ${order} desc limit 1`;
    await db.query({
      text: `insert into ${table} (${names})
        select ${columns.map(({ name }) => `(copy).${name}`).join(", ")} from (
          select jsonb_populate_record(null::${table}, to_jsonb(one) || jsonb_build_object(${changes})) as copy
          from (${one}) as one, generate_series(1, $4::integer - 1) as n
          where $2::uuid is not null and $3::uuid is not null and $5::timestamptz is not null
          -- Without it, each column would make the copy again.
          offset 0
        ) as copies`,
      values: [account.user_id, account.agent_id, account.run_id, Math.min(rows, most), now],
    });
  }
  const agents = await db.query<{ id: string }>({
    text: "select id from agent where user_id = $1 order by id desc limit 20",
    values: [account.user_id],
  });
  const { user_id, agent_id } = account;
  if (rows > 14) await insertRuns(db, { user_id, agent_ids: [agent_id], runs: Math.ceil(rows / 14) * 14 });
  await charge(db, account, { agent_ids: agents.map(({ id }) => id), charges: rows });
}

/** Charges as the ledger makes them, by end users, agents and models. */
async function charge(
  db: Db,
  { user_id, api_key_id }: SeededAccount,
  { agent_ids, charges }: { agent_ids: readonly string[]; charges: number },
): Promise<void> {
  const ledger = createLedger({ db, clock: createSystemClock() });
  const rates = { input_rate_micro: 100_000, output_rate_micro: 400_000 };
  const one = async (n: number) => {
    const [input_tokens, output_tokens] = [20 + (n % 40), 5];
    const call = {
      hold_id: newId(),
      request_id: newId(),
      user_id,
      api_key_id: n % 2 === 0 ? api_key_id : null,
      agent_id: agent_ids[n % agent_ids.length] ?? null,
      run_id: null,
      key_budget_tokens: null,
      labels: { user: `guest-${n}`, "metadata.team": `team-${n % 7}` },
    };
    await ledger.hold({ ...call, amount_tokens: 9, minimum_tokens: 9 });
    await ledger.settle({
      ...call,
      ...rates,
      model: `lab/model-${n % 12}`,
      input_tokens,
      cached_input_tokens: 0,
      cache_write_tokens: 0,
      cache_write_1h_tokens: 0,
      output_tokens,
      cost_tokens: Math.ceil(
        (input_tokens * rates.input_rate_micro + output_tokens * rates.output_rate_micro) / 1_000_000,
      ),
      upstream_cost_micro_usd: null,
    });
  };
  for (let n = 0; n < charges; n += 250) {
    await Promise.all(Array.from({ length: Math.min(250, charges - n) }, (_, k) => one(n + k)));
  }
}

/** Users without tokens, for the operator's lists. */
export async function insertUsers(db: Db, users: number): Promise<void> {
  const ids = "select n, md5('user ' || n)::uuid as id from generate_series(1, $1::integer) as n";
  await db.query({
    text: `insert into users (id, email, created_at) select id, 'guest-' || n || '@example.com', now() from (${ids}) as made`,
    values: [users],
  });
  await db.query({
    text: `insert into account (user_id, opened_at) select id, now() from (${ids}) as made`,
    values: [users],
  });
}
