import { readFileSync } from "node:fs";
import type { BrowserContext, Page } from "playwright-core";
import { expect } from "vitest";
import type { Db } from "../../src/platform/db/db.ts";
import { NIL_ID } from "../../src/platform/lib/ids.ts";

/** The tasks of docs/guides/console-tasks.md in a browser, each within its clicks. */

const GUIDE = readFileSync("docs/guides/console-tasks.md", "utf8");

/** The clicks that a task may take, by the guide. */
function boundOf(task: string): number {
  const row = GUIDE.split("\n").find((line) => line.split("|")[2]?.trim() === task);
  if (row === undefined) throw new Error(`the guide has no task “${task}”`);
  return Number(row.split("|")[4]);
}

/** Counts the clicks of pages in this context, over all of their documents. */
export async function countClicks(context: BrowserContext): Promise<void> {
  await context.addInitScript(() => {
    addEventListener(
      "click",
      // A key that presses a button has no detail.
      ({ isTrusted, detail }) => {
        if (isTrusted && detail > 0) sessionStorage.clicks = Number(sessionStorage.clicks ?? 0) + 1;
      },
      { capture: true },
    );
  });
}

const clicksOf = (page: Page) => page.evaluate(() => Number(sessionStorage.clicks ?? 0));

/** Does the task of the guide on the page, and compares its clicks with the guide's. */
export async function inClicks(page: Page, task: string, act: () => Promise<unknown>): Promise<void> {
  const before = await clicksOf(page);
  await act();
  const clicks = (await clicksOf(page)) - before;
  console.log(`${task}: ${clicks} of ${boundOf(task)} clicks`);
  expect(clicks, task).toBeLessThanOrEqual(boundOf(task));
}

/** Does the task of the guide on the page without a click. */
export async function byKeyboard(page: Page, task: string, act: () => Promise<unknown>): Promise<void> {
  boundOf(task);
  await act();
  expect(await clicksOf(page), task).toBe(0);
}

export interface SeededRuns {
  user_id: string;
  agent_ids: readonly string[];
  /** How many, evenly over the last 14 days. */
  runs: number;
}

/**
 * Inserts finished runs without charges. Every 20th failed, every 50th succeeded with errors, every tenth read a page with
 * instructions. A run of each day names the ship
 * "Albatross" and how many days ago it was. `runs` is a multiple of 14.
 */
export async function insertRuns(db: Db, { user_id, agent_ids, runs }: SeededRuns): Promise<void> {
  await db.query({
    text: `insert into run (user_id, id, agent_id, agent_version, trigger, status, queued_at, started_at, finished_at, model_id,
        input_tokens, output_tokens, cost_tokens, steps_count, error, output, engine_input, priority, failed_calls)
      select $1,
        -- Lists are sorted by ids, which begin with the time.
        (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '70008' || substr(md5($1::uuid::text || n), 1, 15))::uuid,
        ($2::uuid[])[1 + n % cardinality($2::uuid[])], 1, 'manual',
        case when fails then 'failed' else 'succeeded' end,
        at, at + interval '1 second', at + interval '5 seconds', case n % 3 when 0 then 'lab/small' else 'lab/large' end,
        900 + n, 80, 300 + n % 700, 1,
        case when fails then '{"code": "model_unavailable", "message": "The model answered with an error."}'::jsonb end,
        case when not fails then
          format('Report %s: berth %s is free until noon.', n, n % 40) ||
          case when n % ($3::integer / 14) = 0 then ' The Albatross left on day ' || n / ($3::integer / 14) || '.' else '' end
        end,
        '{}', 1, case when n % 50 = 3 then 1 else 0 end
      from generate_series(0, $3::integer - 1) as n,
        lateral (select now() - interval '1 minute' - interval '14 days' * n / $3::integer as at, n % 20 = 7 and n % ($3::integer / 14) <> 0 as fails) as facts`,
    values: [user_id, agent_ids, runs],
  });
  await db.query({
    text: `insert into run_step (user_id, run_id, index, type, name, status, arguments, result, safety, started_at, finished_at)
      select user_id, id, 0, 'tool', 'web_fetch', 'succeeded', '{"url": "https://example.com/berths"}', '"Berths"',
        '{"verdict": {"injected": true}, "removed": [], "marked": []}', started_at, finished_at
      from run where user_id = $1 and output like '%4: berth%'`,
    values: [user_id],
  });
}

export interface SeededUsage {
  user_id: string;
  agent_ids: readonly string[];
  /** How many, evenly over the last 30 days. */
  calls: number;
}

/**
 * Inserts calls of two models with their sums by day: a third without an agent, half for one of 1,000 end users, and
 * some for a team. They have no entries, so the ledger's audit would find them.
 */
export async function seedUsage(db: Db, { user_id, agent_ids, calls }: SeededUsage): Promise<void> {
  await db.query({
    text: `insert into usage_event (user_id, hold_id, request_id, model, agent_id, input_tokens, cached_input_tokens, output_tokens,
        input_rate_micro, output_rate_micro, cost, charged, overage, absorbed, entries_after, entries_to, created_at, labels)
      select $1, gen_random_uuid(), 'request ' || n, case when n % 5 < 3 then 'lab/small' else 'lab/large' end,
        ($2::uuid[])[n % (cardinality($2::uuid[]) + 1)], 400, 0, 64, 1000000, 1000000, cost, cost, 0, 0, n, n + 1,
        now() - make_interval(secs => n::float8 * 86400 * 29 / $3),
        case when n % 2 = 0 then jsonb_build_object('user', 'customer ' || (n * 31) % 2000) || case when n % 3 = 0
          then jsonb_build_object('metadata.team', 'team ' || n % 7) else '{}' end end
      from (select n, 500 + (n * 7919) % 3000 * (1 + n % 4) as cost from generate_series(1, $3::integer) as n) as call`,
    values: [user_id, agent_ids, calls],
  });
  await db.query({
    text: `insert into usage_daily (user_id, day, model, agent_id, api_key_id, requests, input_tokens, cached_input_tokens, output_tokens, cost)
      select user_id, (created_at at time zone 'UTC')::date, model, coalesce(agent_id, $2), $2, count(*), sum(input_tokens), 0,
          sum(output_tokens), sum(cost)
        from usage_event where user_id = $1 group by 1, 2, 3, 4`,
    values: [user_id, NIL_ID],
  });
  await db.query({
    text: `insert into usage_label_daily (user_id, name, value, day, requests, input_tokens, output_tokens, cost)
      select user_id, key, value, (created_at at time zone 'UTC')::date, count(*), sum(input_tokens), sum(output_tokens), sum(cost)
        from usage_event cross join jsonb_each_text(labels) where user_id = $1 group by 1, 2, 3, 4`,
    values: [user_id],
  });
}
