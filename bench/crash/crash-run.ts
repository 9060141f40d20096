import { setTimeout } from "node:timers/promises";
import { createLog } from "../../src/platform/log.ts";
import { openDb } from "../../src/platform/open-db.ts";
import { type BenchService, configure, type Place, startService } from "../support/service.ts";
import { seededRandom } from "../support/statistics.ts";
import { type Callers, type CrashUser, startCallers } from "./callers.ts";
import { createChecks } from "./checks.ts";
import { startSlowUpstream } from "./upstream.ts";

/** All runs that were accepted are to end within this time, and the sweep is to let dead holds go. */
const REST_MS = 300_000;
const REST_POLL_MS = 200;
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
  kills: number;
  /** Model calls answered, and those that a kill cut off. */
  acknowledged: number;
  cut_off: number;
  top_ups: number;
  runs: number;
  violations: string[];
}

/**
 * Kills the service under load (kill -9) at moments that the seed decides, starts it again and compares what its callers
 * were told with what it has written; goes on until `goOn` says no. At the end the leases of what died are brought to
 * their expiry in the database, rather than waited for: its holds must go, and its runs must end.
 */
export async function crashRun(place: Place, plan: CrashPlan): Promise<CrashReport> {
  const random = seededRandom(plan.seed);
  const upstream = await startSlowUpstream();
  configure(place, upstream.url);
  place.env.PURSER_PAYMENTS = "sandbox";
  let service = await startService(place);
  try {
    const users: CrashUser[] = [];
    for (let index = 0; index < plan.users; index += 1) users.push(await newUser(service));
    const violations: string[] = [];
    let kills = 0;
    const callers = startCallers(users, plan.callers_per_user, random);
    const checks = createChecks(users, callers.seen);
    try {
      while (violations.length === 0 && plan.goOn(kills)) {
        callers.point(service);
        await untilAnswered(callers);
        await setTimeout(plan.life_ms.least + random() * (plan.life_ms.most - plan.life_ms.least));
        await service.kill();
        kills += 1;
        await callers.pause();
        service = await startService(place);
        violations.push(...(await checks.afterKill(service)));
      }
    } finally {
      await callers.stop();
    }
    await service.stop();
    violations.push(...(await endLeases(place, users, callers)));
    service = await startService(place);
    const deadline_ms = performance.now() + REST_MS;
    while ((await checks.isBusy(service)) && performance.now() < deadline_ms) await setTimeout(REST_POLL_MS);
    violations.push(...(await checks.afterKill(service)), ...(await checks.atRest(service)));
    return { kills, violations, ...countsOf(callers) };
  } finally {
    await service.stop();
    await upstream.close();
  }
}

async function newUser(service: BenchService): Promise<CrashUser> {
  const user = await service.newUser();
  const body = { name: "runner", model_id: "bench/instant", run_prompt: "Say: hello" };
  const { id } = await service.call<{ id: string }>("POST", "/api/v1/agents", { key: user.key, body });
  return { ...user, agent_id: id };
}

/** A kill proves something only once a caller was told something: on a busy machine the first answer takes a while. */
async function untilAnswered(callers: Callers): Promise<void> {
  const before = countsOf(callers).acknowledged;
  const deadline_ms = performance.now() + ANSWER_MS;
  while (countsOf(callers).acknowledged === before && performance.now() < deadline_ms) await setTimeout(10);
}

function countsOf(callers: Callers) {
  const counts = { acknowledged: 0, cut_off: 0, top_ups: 0, runs: 0 };
  for (const { acknowledged, unanswered, buckets, runs } of callers.seen.values()) {
    counts.acknowledged += acknowledged.size;
    counts.cut_off += unanswered.size;
    counts.top_ups += buckets.size;
    counts.runs += runs.size;
  }
  return counts;
}

/** Makes the leases of holds and runs due, as time would; each open hold must belong to a call that died or to a run. */
async function endLeases(place: Place, users: readonly CrashUser[], callers: Callers): Promise<string[]> {
  const db = await openDb({ database_url: place.database_url, data_dir: place.folder, log: createLog("silent") });
  try {
    const wrong: string[] = [];
    await db.query({ text: "update run set lease_until = clock_timestamp() where lease_until is not null" });
    for (const { id } of users) {
      const holds = await db.query<{ run_id: string | null }>({
        text: "update hold set expires_at = clock_timestamp() where user_id = $1 returning run_id",
        values: [id],
      });
      const of_calls = holds.filter(({ run_id }) => run_id === null).length;
      const died = callers.seen.get(id)?.unanswered.size ?? 0;
      if (of_calls > died) wrong.push(`user ${id}: ${of_calls} holds of calls are open, and ${died} calls died`);
    }
    return wrong;
  } finally {
    await db.close();
  }
}
