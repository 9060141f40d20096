import { startClockCheck, systemClocks } from "../platform/db/clock-skew.ts";
import { type DueSource, startSweeper } from "../platform/db/sweeper.ts";
import type { Services } from "./services.ts";

const HOUSEKEEPING_MS = 3_600_000;
const SEARCH_MERGE_MS = 10_000;

/** Background work of this node: the worker, deliveries of notices, and sweeps. */
export async function startBackground(services: Services) {
  const {
    config,
    log,
    db,
    signIn,
    ledger,
    requests,
    notices,
    mails,
    vault,
    billing,
    idempotency,
    limits,
    response_items,
    responses,
    schedules,
    runs,
    runner,
    agents,
    threads,
    triggers,
  } = services;
  // Order at the same instant: tokens expire, plans renew and overage is invoiced, then agents run.
  const expiries: DueSource = { name: "expiries", nextDueAt: ledger.nextDueAt, carryOut: ledger.sweep };
  const due: DueSource = {
    name: "schedules",
    nextDueAt: schedules.nextDueAt,
    carryOut: () =>
      schedules.tick({ onDue: agents.onDue, busySchedules: runs.busySchedules, startRuns: runs.startRuns }),
  };
  const waiting: DueSource = {
    name: "schedules that wait for tokens",
    nextDueAt: async () => null,
    carryOut: agents.resumeRefilled,
  };
  const approvals: DueSource = runs.expiries;
  const { budgets } = agents;
  const old: DueSource = { name: "old runs", nextDueAt: async () => null, carryOut: agents.pruneOld };
  const titles: DueSource = { name: "titles of threads", nextDueAt: async () => null, carryOut: threads.addTitles };
  const sources = config.is_drill
    ? [expiries, old]
    : [expiries, ...billing.sources, waiting, budgets, approvals, due, old, titles];
  const swept = config.role === "api" ? sources.filter((source) => source !== due) : sources;
  const clocks = await startClockCheck({ clocks: systemClocks(db), log, metrics: services.metrics });
  const isPaused = async () => {
    await clocks.check();
    return clocks.isExcessive();
  };
  const sweeper = startSweeper({ sources: swept, log, isPaused, onSwept: services.metrics.swept });
  // Embedded storage has one process, so no worker executes the runs of the process before.
  if (db.kind === "embedded") await runs.takeBackAll();
  await runner.start();
  if (!config.is_drill) await notices.start();
  mails.start();
  const housekeeping = setInterval(() => {
    if (clocks.isExcessive()) return;
    for (const sweep of [
      idempotency.sweep,
      limits.sweep,
      response_items.sweep,
      responses.sweep,
      notices.sweep,
      requests.sweep,
      vault.sweep,
      signIn.sweep,
      billing.sweep,
      runs.sweepFreeRuns,
      ledger.end_users.sweep,
      triggers.sweep,
    ])
      sweep().catch((error: Error) => log.warn({ error }, "old data could not be deleted; the next turn tries again"));
  }, HOUSEKEEPING_MS);
  const merging = setInterval(() => {
    runs
      .mergeSearchEntries()
      .catch((error: Error) => log.warn({ error }, "the search of runs was not updated; the next turn tries again"));
  }, SEARCH_MERGE_MS);

  let runner_stopped: Promise<void> | undefined;
  /** Ends the execution of runs. Chats in flight may finish meanwhile. */
  const stopRuns = () => {
    runner_stopped ??= runner.stop();
    return runner_stopped;
  };
  return {
    sources,
    stopRuns,
    isClockWrong: clocks.isExcessive,
    async stop(): Promise<void> {
      await stopRuns();
      clearInterval(housekeeping);
      clearInterval(merging);
      await sweeper.stop();
      await notices.stop();
      await mails.stop();
    },
  };
}
