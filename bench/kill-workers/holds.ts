import { createLedger } from "../../src/ledger/ledger.service.ts";
import { createSystemClock } from "../../src/platform/clock.ts";
import type { Db } from "../../src/platform/db.ts";

/**
 * For a place with stopped nodes: expires the remaining holds, sweeps like a node, and returns the tokens still held
 * and the audit's result. `open` is the number of holds that dead nodes left.
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
  if (left?.holds !== 0 || left.held !== 0) {
    problems.push(`${left?.holds} holds of ${left?.held} tokens were not let go`);
  }
  return { open: expired.length, problems };
}
