import { createLedger } from "../../src/account/ledger/ledger.service.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";

/**
 * For a place with stopped nodes: expires the remaining holds, sweeps like a node, and returns the tokens still held,
 * the audit's result, and users whose number of runs at work is wrong. `open` is the number of holds that dead nodes left.
 */
export async function expireHolds(db: Db): Promise<{ open: number; problems: string[] }> {
  const ledger = createLedger({ db, clock: createSystemClock() });
  const expired = await db.query({
    text: "update hold set expires_at = clock_timestamp() - interval '1 second' returning id",
  });
  await ledger.sweep();
  const [left] = await db.query<{ holds: number; held: number }>({
    text: "select (select count(*) from hold) as holds, (select coalesce(sum(held), 0) from account) as held",
  });
  const { violations } = await ledger.audit();
  const problems = violations.map(({ invariant, detail }) => `after the sweep, ${invariant}: ${detail}`);
  const miscounted = await db.query<{ user_id: string; counted: number; at_work: number }>({
    text: `select user_id, coalesce(sum(counted), 0)::integer as counted, coalesce(sum(at_work), 0)::integer as at_work from (
        select user_id, runs as counted, 0 as at_work from runs_at_work where user_id <> '00000000-0000-0000-0000-000000000000'
        union all select user_id, change, 0 from runs_at_work_change
        union all select user_id, 0, 1 from run where phase = 'working'
      ) as rows group by user_id having sum(counted) <> sum(at_work)`,
  });
  for (const { user_id, counted, at_work } of miscounted) {
    problems.push(`${counted} runs at work are counted for ${user_id}, but there are ${at_work}`);
  }
  if (left?.holds !== 0 || left.held !== 0) {
    problems.push(`${left?.holds} holds of ${left?.held} tokens were not let go`);
  }
  return { open: expired.length, problems };
}
