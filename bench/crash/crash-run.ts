import { setTimeout } from "node:timers/promises";
import { createLog } from "../../src/platform/log.ts";
import { openDb } from "../../src/platform/open-db.ts";
import { type BenchUser, configure, type Place, startService } from "../support/service.ts";
import { seededRandom } from "../support/statistics.ts";
import { type Callers, startCallers } from "./callers.ts";
import { createChecks } from "./checks.ts";
import { startSlowUpstream } from "./upstream.ts";

/** The sweeper lets dead holds go within a second or so. */
const SWEEP_MS = 15_000;
const ANSWER_MS = 20_000;

export interface CrashPlan {
  seed: number;
  users: number;
  callers_per_user: number;
  /** Bounds of the time between the first answer after a start and the kill. */
  life_ms: { least: number; most: number };
  /** Whether to go on after so many kills. */
  goOn(kills: number): boolean;
}

export interface CrashReport {
  seed: number;
  kills: number;
  acknowledged: number;
  /** Calls that a kill cut off. */
  cut_off: number;
  /** Tokens that those held at the end, all let go once their holds had expired. */
  held_by_dead: number;
  violations: string[];
}

/**
 * Kills the service under load (kill -9) at moments that the seed decides, starts it again and compares what its callers
 * were told with what it has written; goes on until `goOn` says no. At the end the holds of the calls that died are
 * brought to their expiry in the database, rather than waited for, and must go.
 */
export async function crashRun(place: Place, plan: CrashPlan): Promise<CrashReport> {
  const random = seededRandom(plan.seed);
  const upstream = await startSlowUpstream();
  configure(place, upstream.url);
  let service = await startService(place);
  try {
    const users: BenchUser[] = [];
    for (let index = 0; index < plan.users; index += 1) users.push(await service.newUser());
    const checks = createChecks(users);
    const violations: string[] = [];
    let kills = 0;
    const callers = startCallers(users, plan.callers_per_user);
    try {
      while (violations.length === 0 && plan.goOn(kills)) {
        callers.point(service.url);
        await untilAnswered(callers);
        await setTimeout(plan.life_ms.least + random() * (plan.life_ms.most - plan.life_ms.least));
        await service.kill();
        kills += 1;
        await callers.pause();
        service = await startService(place);
        violations.push(...(await checks.violations(service, callers.seen)));
      }
    } finally {
      await callers.stop();
    }
    const held_by_dead = await checks.held(service);
    await service.stop();
    violations.push(...(await expireHolds(place, users, callers)));
    service = await startService(place);
    if (!(await untilNothingHeld(() => checks.held(service)))) violations.push("dead calls still hold tokens");
    violations.push(...(await checks.violations(service, callers.seen)));
    return { seed: plan.seed, kills, held_by_dead, violations, ...countsOfCalls(callers) };
  } finally {
    await service.stop();
    await upstream.close();
  }
}

/** A kill proves something only once a caller was told something: on a busy machine the first answer takes a while. */
async function untilAnswered(callers: Callers): Promise<void> {
  const before = countsOfCalls(callers).acknowledged;
  const deadline_ms = performance.now() + ANSWER_MS;
  while (countsOfCalls(callers).acknowledged === before && performance.now() < deadline_ms) await setTimeout(10);
}

function countsOfCalls(callers: Callers) {
  let acknowledged = 0;
  let cut_off = 0;
  for (const seen of callers.seen.values()) {
    acknowledged += seen.acknowledged.size;
    cut_off += seen.unanswered.size;
  }
  return { acknowledged, cut_off };
}

/** Makes the open holds due, as 15 minutes would; each must belong to a call that died. */
async function expireHolds(place: Place, users: readonly BenchUser[], callers: Callers): Promise<string[]> {
  const db = await openDb({ database_url: place.database_url, data_dir: place.folder, log: createLog("silent") });
  try {
    const wrong: string[] = [];
    for (const { id } of users) {
      const holds = await db.query({
        text: "update hold set expires_at = clock_timestamp() - interval '1 second' where user_id = $1 returning id",
        values: [id],
      });
      const died = callers.seen.get(id)?.unanswered.size ?? 0;
      if (holds.length > died) wrong.push(`user ${id}: ${holds.length} open holds, with ${died} calls that died`);
    }
    return wrong;
  } finally {
    await db.close();
  }
}

async function untilNothingHeld(held: () => Promise<number>): Promise<boolean> {
  const deadline_ms = performance.now() + SWEEP_MS;
  while ((await held()) > 0) {
    if (performance.now() > deadline_ms) return false;
    await setTimeout(100);
  }
  return true;
}
