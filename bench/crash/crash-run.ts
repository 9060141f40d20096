import { setTimeout } from "node:timers/promises";
import { openDb } from "../../src/platform/db/open-db.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { type BenchService, configure, type Place, startService } from "../support/service.ts";
import { seededRandom } from "../support/statistics.ts";
import { type Callers, type CrashUser, startCallers } from "./callers.ts";
import { createChecks } from "./checks.ts";
import { startSlowUpstream } from "./upstream.ts";

/** Within this time all accepted runs must end, and the sweep must release dead holds. */
const REST_MS = 300_000;
const REST_POLL_MS = 200;
const ANSWER_MS = 20_000;

export interface CrashPlan {
  seed: number;
  users: number;
  callers_per_user: number;
  /** Bounds of the time between the first answer after a start and the kill. */
  life_ms: { least: number; most: number };
  /** Whether to continue after this number of kills. */
  goOn(kills: number): boolean;
}

export interface CrashReport {
  kills: number;
  /** Model calls that were answered, and calls that a kill interrupted. */
  acknowledged: number;
  cut_off: number;
  top_ups: number;
  runs: number;
  violations: string[];
}

/**
 * Kills the service under load (kill -9) at moments chosen by the seed, restarts it, and compares the callers' answers
 * with its records, until `goOn` returns false. At the end it expires the leases of dead processes in the database:
 * their holds must be released, and their runs must end.
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

export async function newUser(service: BenchService): Promise<CrashUser> {
  const user = await service.newUser();
  const body = { name: "runner", model_id: "bench/instant", run_prompt: "Say: hello" };
  const { id } = await service.call<{ id: string }>("POST", "/api/v1/agents", { key: user.key, body });
  return { ...user, agent_id: id };
}

/** A kill is useful only after a caller received an answer, which takes a while on a busy machine. */
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

/** Expires the leases of holds and runs. Each open hold must belong to a dead call or to a run. */
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
      const hot_path = holds.filter(({ run_id }) => run_id === null).length;
      const died = callers.seen.get(id)?.unanswered.size ?? 0;
      if (hot_path > died) wrong.push(`user ${id}: ${hot_path} holds of calls are open, and ${died} calls died`);
    }
    return wrong;
  } finally {
    await db.close();
  }
}
