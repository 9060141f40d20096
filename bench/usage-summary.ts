import { openDb } from "../src/platform/db/open-db.ts";
import { createSystemClock } from "../src/platform/lib/clock.ts";
import { createLog } from "../src/platform/telemetry/log.ts";
import { type PostgresServer, startPostgres } from "../test/support/postgres-server.ts";
import { closedLoop, type LoadMeasure } from "./support/load.ts";
import type { Effort, Outcome } from "./support/outcome.ts";
import { type BenchUser, createPlace, type Place, startService, unlimit } from "./support/service.ts";

const SIZES = { embedded: [1_000, 100_000], postgres: [1_000, 100_000, 1_000_000] } as const;
const DAYS = 30;
const SECONDS = 2;

/** Read call by call, because no daily sum has both. */
const BREAKDOWN = { calls: 100_000 as const, path: `usage/breakdown?days=${DAYS}&group_by=user&then_by=model` };

/** GET /api/v1/users/me/usage for users with few and with very many requests in the window, and a breakdown of many. */
export async function usageSummary(effort: Effort): Promise<Outcome> {
  const server = await startPostgres();
  try {
    const rows = [...(await measure(null, effort)), ...(await measure(server, effort))];
    const p50 = (name: string) => rows.find((row) => row.name === name)?.measure.p50_ms ?? Number.NaN;
    const few = SIZES.postgres[0] * effort.scale;
    const many = (SIZES.postgres.at(-1) ?? 0) * effort.scale;
    return {
      name: "usage-summary",
      title: "Usage summary",
      tables: [
        {
          caption: `The summary of ${DAYS} days, one caller`,
          columns: ["p50, ms", "p99, ms"],
          rows: rows.map(({ name, measure: { p50_ms, p99_ms } }) => ({ name, values: [p50_ms, p99_ms] })),
          drawn: [0],
        },
      ],
      ratios: [
        {
          of: `PostgreSQL, ${many.toLocaleString("en-US")} requests`,
          to: `${few.toLocaleString("en-US")} requests`,
          value: p50(rowName("postgres", many)) / p50(rowName("postgres", few)),
          goal: "about 1",
        },
        { of: "PostgreSQL, p50", to: "2 ms", value: p50(rowName("postgres", many)) / 2, goal: "≤ 1" },
        {
          of: "PostgreSQL, breakdown, p50",
          to: "1 s",
          value: p50(breakdownName("postgres", effort)) / 1000,
          goal: "≤ 1",
        },
      ],
    };
  } finally {
    await server.stop();
  }
}

function rowName(storage: Place["storage"], requests: number): string {
  return `${storage === "postgres" ? "PostgreSQL" : "embedded"}, ${requests.toLocaleString("en-US")} requests`;
}

const breakdownName = (storage: Place["storage"], { scale }: Effort) =>
  rowName(storage, BREAKDOWN.calls * scale).replace(",", ", by end user and model,");

async function measure(
  server: PostgresServer | null,
  effort: Effort,
): Promise<{ name: string; measure: LoadMeasure }[]> {
  const place = await createPlace(server);
  unlimit(place);
  const sizes = SIZES[place.storage].map((size) => size * effort.scale);
  const maker = await startService(place);
  const users: BenchUser[] = [];
  for (const _ of sizes) users.push(await maker.newUser());
  await maker.stop();
  await seed(place, users, sizes);
  const service = await startService(place, { core: "service" });
  const found = [];
  const many = [...SIZES[place.storage]].indexOf(BREAKDOWN.calls);
  const rows = [
    ...sizes.map((requests, index) => ({ name: rowName(place.storage, requests), index, path: `usage?days=${DAYS}` })),
    { name: breakdownName(place.storage, effort), index: many, path: BREAKDOWN.path },
  ];
  for (const { name, index, path } of rows) {
    const headers = { authorization: `Bearer ${users[index]?.key}` };
    const target = { port: service.port, path: `/api/v1/users/me/${path}`, headers, body: null };
    await closedLoop(target, { callers: 1, seconds: 0.5 * effort.scale });
    const measured = await closedLoop(target, { callers: 1, seconds: SECONDS * effort.scale });
    if (measured.failures > 0) throw new Error(`usage: ${measured.failure}`);
    found.push({ name, measure: measured });
  }
  await service.stop();
  await place.drop();
  return found;
}

/** Creates requests of each user over the window, on 5 models, with the rollup that the ledger would write. */
async function seed(place: Place, users: readonly BenchUser[], sizes: readonly number[]): Promise<void> {
  const { database_url, folder } = place;
  const db = await openDb({ database_url, data_dir: folder, log: createLog("silent") });
  const now = createSystemClock().now();
  for (const [index, user] of users.entries()) {
    await db.query({
      text: `insert into usage_event (user_id, hold_id, request_id, model, input_tokens, cached_input_tokens,
          output_tokens, input_rate_micro, output_rate_micro, cost, charged, overage, absorbed, entries_after,
          entries_to, created_at, labels)
        select $1, gen_random_uuid(), 'request ' || n, 'bench/model' || n % 5, 40, 0, 64, 333333, 1000001, 78, 78, 0,
          0, n, n + 1, $2::timestamptz - make_interval(secs => n::float8 * 86400 * ${DAYS - 1} / $3),
          jsonb_build_object('user', 'customer ' || n % 500)
        from generate_series(1, $3::integer) n`,
      values: [user.id, now, sizes[index]],
    });
    await db.query({
      text: `insert into usage_daily (user_id, day, model, agent_id, api_key_id, requests, input_tokens,
          cached_input_tokens, output_tokens, cost)
        select user_id, (created_at at time zone 'UTC')::date, model, '00000000-0000-0000-0000-000000000000',
          '00000000-0000-0000-0000-000000000000', count(*), sum(input_tokens), sum(cached_input_tokens),
          sum(output_tokens), sum(cost)
        from usage_event where user_id = $1 group by 1, 2, 3`,
      values: [user.id],
    });
  }
  await db.query({ text: "analyze" });
  await db.close();
}
