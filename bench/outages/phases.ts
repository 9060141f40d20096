import { setTimeout } from "node:timers/promises";
import { openDb } from "../../src/platform/db/open-db.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import type { CrashUser } from "../crash/callers.ts";
import { createChecks } from "../crash/checks.ts";
import { newUser } from "../crash/crash-run.ts";
import type { BenchService, Place } from "../support/service.ts";
import { type Load, startLoad } from "./load.ts";

const REST_MS = 240_000;
const REST_POLL_MS = 300;
/** On a busy machine, a cluster may replace its primary once more after a phase. The checks wait for it this long. */
const CHECK_MS = 120_000;

/** One phase of an outage harness, for the table. */
export interface Phase {
  name: string;
  seconds: number;
  longest_gap_ms: number;
  statuses: Record<string, number>;
  /** Acknowledged charges, runs and top-ups that are missing, and other faults. Empty: nothing was lost. */
  lost: string[];
}

/** The nodes behind the load balancer, by their names. */
export type Nodes = Map<string, BenchService>;

/** A load on `nodes`, and the comparison of its answers with the service's records after each phase. */
export interface Day {
  load: Load;
  phases: Phase[];
  /** Runs `work` under load. Then the callers pause, and every acknowledged result must be in the records. */
  phase(name: string, work: () => Promise<void>): Promise<void>;
  /** Ends the leases of dead processes, and waits until all runs have ended. */
  finish(place: Place): Promise<void>;
}

export async function startDay(
  nodes: Nodes,
  options: { users: number; per_user: number; random: () => number },
): Promise<Day> {
  const anyNode = () => {
    const [node] = nodes.values();
    if (node === undefined) throw new Error("no node is running");
    return patient(node);
  };
  const users: CrashUser[] = [];
  for (let index = 0; index < options.users; index += 1) users.push(await newUser(anyNode()));
  const { per_user, random } = options;
  const load = startLoad({ users, per_user, random, nodes: () => [...nodes.values()] });
  const checks = createChecks(users, load.seen);
  const phases: Phase[] = [];
  return {
    load,
    phases,
    async phase(name, work) {
      load.resume();
      load.take();
      const began_ms = performance.now();
      await work();
      await load.untilAnswered(20);
      const seconds = (performance.now() - began_ms) / 1_000;
      const figures = load.take();
      await load.pause();
      const lost = await checks.afterKill(anyNode());
      phases.push({ name, seconds, ...figures, lost });
      console.error(`${name}: ${seconds.toFixed(1)} s, ${JSON.stringify(figures.statuses)}, lost ${lost.length}`);
    },
    async finish(place) {
      const began_ms = performance.now();
      await load.stop();
      await endLeases(place);
      while ((await checks.isBusy(anyNode())) && performance.now() - began_ms < REST_MS) await setTimeout(REST_POLL_MS);
      const lost = [...(await checks.afterKill(anyNode())), ...(await checks.atRest(anyNode()))];
      const seconds = (performance.now() - began_ms) / 1_000;
      phases.push({
        name: "every run has ended, every hold is settled",
        seconds,
        longest_gap_ms: 0,
        statuses: {},
        lost,
      });
    },
  };
}

/** The node with calls that are repeated while the service answers 503. */
function patient(node: BenchService): BenchService {
  const call = async <Body>(...asked: Parameters<BenchService["call"]>): Promise<Body> => {
    for (const deadline_ms = performance.now() + CHECK_MS; ; await setTimeout(REST_POLL_MS)) {
      try {
        return await node.call<Body>(...asked);
      } catch (error) {
        if (!/: 503 /.test((error as Error).message) || performance.now() > deadline_ms) throw error;
      }
    }
  };
  return { ...node, call };
}

/** Otherwise the holds of dead processes would end only after two minutes. */
async function endLeases({ database_url, folder: data_dir }: Place): Promise<void> {
  if (database_url === null) return;
  const db = await openDb({ database_url, data_dir, log: createLog("silent") });
  try {
    await db.query({ text: "update run set lease_until = clock_timestamp() where lease_until is not null" });
    await db.query({ text: "update hold set expires_at = clock_timestamp()" });
  } finally {
    await db.close();
  }
}

/** Prints the phases as a Markdown table, and sets the exit code. */
export function printPhases(title: string, phases: readonly Phase[]): void {
  const statusesOf = ({ statuses }: Phase) =>
    Object.entries(statuses)
      .sort()
      .map(([status, count]) => `${status}: ${count}`)
      .join(", ");
  const rows = phases.map(
    (phase) =>
      `| ${phase.name} | ${phase.lost.length === 0 ? "nothing" : phase.lost.length} | ${phase.seconds.toFixed(0)} s | ${(phase.longest_gap_ms / 1_000).toFixed(1)} s | ${statusesOf(phase)} |`,
  );
  console.log(
    `\n${title}\n\n| phase | lost | took | longest time without service | answers by status |\n|---|---|--:|--:|---|`,
  );
  console.log(rows.join("\n"));
  for (const { name, lost } of phases) for (const each of lost) console.log(`${name}: ${each}`);
  if (phases.some(({ lost }) => lost.length > 0)) process.exitCode = 1;
}
