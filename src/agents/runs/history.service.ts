import type { AgentKey } from "../../api/contract/agents.ts";
import { RUN_STATUSES, type RunDetail, type RunRecord, type StepRecord } from "../../api/contract/runs.ts";
import { errors } from "../../kernel/errors.ts";
import { createBatches } from "../../platform/db/batch-queue.ts";
import type { Db, Reader, Sql, Tx } from "../../platform/db/db.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import { isUuid } from "../../platform/lib/ids.ts";
import * as history from "./history.store.ts";
import { toBegunRun, toFoundRun, toRunDetail, toRunRecord } from "./run-record.ts";
import type { RunSignals } from "./run-signals.ts";
import type { BegunRun, JournalStep, RunFilter, RunKey, RunLease, RunSearch, RunSnapshot } from "./runs.types.ts";
import { type FoundRow, mergeSearchEntries, type SearchCursor, searchRuns } from "./search.store.ts";

/** Steps that are read together. Most runs have fewer, and a step can have 200 KB and more. */
const STEPS_AT_ONCE = 25;
/** Runs of an export that are read together. */
const EXPORT_RUNS = 1_000;

interface HistoryDeps {
  db: Db;
  clock: Clock;
  signals: RunSignals;
  /** Limit of the batch that answers simultaneous reads in one query. */
  batch_limit: number;
  /** The database for long reads. */
  reads(): Promise<Reader>;
}

/** Reads of runs: lists, details, journals, and the queue's figures. */
export function createHistory({ db, clock, signals, batch_limit, reads }: HistoryDeps) {
  const details = createBatches(batch_limit, (keys: RunKey[]) => history.selectDetails(db, keys, STEPS_AT_ONCE));
  /** The run, or "long" if it has more than STEPS_AT_ONCE steps. 404. */
  const readShortRun = async (agent: AgentKey, run_id: string): Promise<RunDetail | "long"> => {
    const found = isUuid(run_id) ? await details({ user_id: agent.user_id, run_id }) : undefined;
    if (found === "long") return found;
    if (found?.run.agent_id !== agent.agent_id) throw errors.notFound("This run");
    return toRunDetail(found);
  };
  /** The run without its steps. 404. */
  const readLongRun = async (agent: AgentKey, run_id: string): Promise<RunDetail> => {
    const run = await history.selectRun(db, agent.user_id, run_id);
    if (run?.agent_id !== agent.agent_id) throw errors.notFound("This run");
    return toRunDetail({ run, steps: [] });
  };
  async function* readSteps(key: RunKey): AsyncGenerator<StepRecord[]> {
    let after = -1;
    for (;;) {
      const page = await history.selectStepPage(db, key, { after, limit: STEPS_AT_ONCE });
      if (page.length > 0) yield page;
      if (page.length < STEPS_AT_ONCE) return;
      after = page.at(-1)?.index ?? after;
    }
  }
  const getRun = async (agent: AgentKey, run_id: string): Promise<RunDetail> => {
    const run = await readShortRun(agent, run_id);
    if (run !== "long") return run;
    const record = await readLongRun(agent, run_id);
    return { ...record, steps: (await Array.fromAsync(readSteps({ user_id: agent.user_id, run_id }))).flat() };
  };
  return {
    /** Runs of an agent, newest first; `before_id` is the last run of the page before. */
    async listRuns(
      agent: AgentKey,
      filter: RunFilter,
      page: { limit: number; before_id: string | null },
    ): Promise<RunRecord[]> {
      return (await history.selectRuns(db, agent, filter, page)).map(toRunRecord);
    },
    /** Runs of one user or of all users, newest first, each with its user. */
    async allRuns(
      filter: Parameters<typeof history.selectAllRuns>[1],
      page: { limit: number; before_id: string | null },
    ): Promise<(RunRecord & { user_id: string })[]> {
      const rows = await history.selectAllRuns(db, filter, page);
      return rows.map((row) => ({ ...toRunRecord(row), user_id: row.user_id }));
    },
    /** A user's runs over all agents, newest first, those of deleted agents included. */
    searchRuns: async (user_id: string, filter: RunSearch, page: { limit: number; after: SearchCursor | null }) =>
      (await searchRuns(db, user_id, filter, page)).map(toFoundRun),
    /** All of these runs, in parts. */
    async *exportRuns(user_id: string, filter: RunSearch) {
      const sql = await reads();
      let after: SearchCursor | null = null;
      for (;;) {
        const rows: FoundRow[] = await searchRuns(sql, user_id, filter, { limit: EXPORT_RUNS, after });
        yield rows.map(toFoundRun);
        if (rows.length < EXPORT_RUNS) return;
        after = rows.at(-1) ?? null;
      }
    },
    /** Merges new runs into the indexes of the search, so that no run's end has to. Called periodically. */
    mergeSearchEntries: () => mergeSearchEntries(db),
    /** One run with its output, deliveries and steps. 404 when there is none, or it is another agent's. */
    getRun,
    /** The same in parts: with many steps, `rest` reads them page by page, because together they can have 40 MB. */
    async getRunInParts(
      agent: AgentKey,
      run_id: string,
    ): Promise<{ run: RunDetail; rest: AsyncIterable<StepRecord[]> | null }> {
      const run = await readShortRun(agent, run_id);
      if (run !== "long") return { run, rest: null };
      return { run: await readLongRun(agent, run_id), rest: readSteps({ user_id: agent.user_id, run_id }) };
    },
    /** The run when it has finished or waits for a decision, or its state after `timeout_ms`. `is_open`: this node executed it a moment ago. */
    async finishedRun(
      agent: AgentKey,
      run_id: string,
      wait: { timeout_ms: number; is_open: boolean },
    ): Promise<RunDetail> {
      let run: RunDetail | undefined;
      const isFinished = async (ended_run: RunDetail | null) => {
        run = ended_run ?? (await getRun(agent, run_id));
        return run.finished_at !== null || RUN_STATUSES[run.status].phase === "waiting";
      };
      await signals.until(isFinished, { run_id, ...wait });
      return run ?? getRun(agent, run_id);
    },
    /** Schedules with an unfinished run, and the id of that run. */
    busySchedules: (tx: Tx, schedules: readonly history.RunsOfSchedule[]): Promise<Map<string, string>> =>
      history.selectBusySchedules(tx, schedules),
    /** The versions of an agent that its unfinished runs pin. */
    pinnedVersions: (tx: Tx, agent: AgentKey): Promise<number[]> => history.selectPinnedVersions(tx, agent),
    /**
     * The number of queued runs on all nodes (counted up to 20,000), and the time since the oldest was first queued.
     */
    async queueFigures(): Promise<{ queued: number; oldest_ms: number }> {
      const { queued, oldest } = await history.selectQueue(db);
      const oldest_ms = oldest === null ? 0 : Math.max(0, Date.parse(clock.now()) - Date.parse(oldest));
      return { queued, oldest_ms };
    },
    /** The newest run of each agent, by agent. An agent without runs is absent. */
    async lastRuns(user_id: string, agent_ids: readonly string[]): Promise<Map<string, RunRecord>> {
      const rows = await history.selectLastRuns(db, user_id, agent_ids);
      return new Map(rows.map((row) => [row.agent_id, toRunRecord(row)]));
    },
    /** Those of these agents whose newest run failed or had errors. */
    async failingAgents(user_id: string, agent_ids: readonly string[]): Promise<string[]> {
      const rows = await history.selectLastRuns(db, user_id, agent_ids, { with_errors: true });
      return rows.map(({ agent_id }) => agent_id);
    },
    /** The present state of a run, with its steps from `from_step` on; undefined when it was deleted. */
    async follow(which: { user_id: string; run_id: string; from_step: number }): Promise<RunSnapshot | undefined> {
      const found = await history.selectFollowed(db, which);
      if (found === undefined) return undefined;
      const { input, run_prompt, input_safety, output, output_json, cancel_requested_at } = found.run;
      const steps = found.steps.map(({ internal: _, call: _call, ...step }) => step);
      const run = { ...toRunRecord(found.run), input, run_prompt, input_safety, output, output_json };
      return { run, cancel_requested_at, steps };
    },
    /** A fingerprint of each run, which changes when the run has new events. Deleted runs are absent. */
    async fingerprints(runs: readonly { user_id: string; run_id: string }[]): Promise<Map<string, string>> {
      if (runs.length === 0) return new Map();
      return new Map(
        (await history.selectFingerprints(db, runs)).map(({ run_id, fingerprint }) => [run_id, fingerprint]),
      );
    },
    /** Runs with what they began with, by id. Deleted runs are absent. */
    async begunRuns(user_id: string, run_ids: readonly string[], sql: Sql = db): Promise<Map<string, BegunRun>> {
      const rows = await history.selectBegun(sql, user_id, run_ids);
      return new Map(rows.map((row) => [row.id, toBegunRun(row)]));
    },
    /** The unfinished run that the request with this id began; null if there is none. */
    unfinishedRun: (user_id: string, request_id: string) => history.selectUnfinished(db, user_id, request_id),
    /** What became of runs, by id. Deleted runs are absent. */
    async outcomes(
      user_id: string,
      run_ids: readonly string[],
    ): Promise<Map<string, Pick<RunRecord, "status" | "has_errors">>> {
      const rows = run_ids.length === 0 ? [] : await history.selectOutcomes(db, user_id, run_ids);
      return new Map(rows.map(({ id, status, has_errors }) => [id, { status, has_errors }]));
    },
    /** The approximate sizes of runs with their steps, in bytes, by id. */
    async sizes(user_id: string, run_ids: readonly string[]): Promise<Map<string, number>> {
      return new Map((await history.selectSizes(db, user_id, run_ids)).map(({ id, bytes }) => [id, bytes]));
    },
    /** The journals of runs, by run: their steps without the internal part. */
    async journals(user_id: string, run_ids: readonly string[]): Promise<Map<string, JournalStep[]>> {
      return Map.groupBy(await history.selectStepsOfRuns(db, user_id, run_ids), ({ run_id }) => run_id);
    },
    /** The last succeeded run that the prompts of a claimed run may show; null: there is none. */
    lastOutput: (lease: RunLease) => history.selectLastOutput(db, lease),
    /** The journal of a claimed run. A run that was claimed before (epoch > 1) resumes from it. */
    journal: ({ user_id, run_id }: RunLease): Promise<JournalStep[]> => history.selectSteps(db, user_id, run_id),
  };
}
