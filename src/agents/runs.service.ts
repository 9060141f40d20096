import type { Caller } from "../contract/caller.ts";
import type { RunDetail, RunRecord } from "../contract/runs.ts";
import type { OccurrenceRecord } from "../contract/schedules.ts";
import { errors } from "../errors.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import type { Models } from "../models/models.service.ts";
import type { Instant, Tx } from "../platform/db.ts";
import type { Log } from "../platform/log.ts";
import type { Scheduling } from "../scheduling/scheduling.service.ts";
import type { AgentKey, ClaimedRun, NewRun, RunFilter, RunFinish } from "../scheduling/scheduling.types.ts";
import type { DueAnswer } from "../scheduling/tick.service.ts";
import type { AgentConfig } from "./agent-config.ts";
import type { AgentRow, AgentsStore } from "./agents.store.ts";
import type { RunInput } from "./transcript.ts";

/** schedule_paused_reason while a grant is waited for. */
const OUT_OF_TOKENS = "out of tokens: resumes with the next grant";

/** Runs from the agents' side: what starts them, and what their outcome means for the agent. */
export function createRuns(deps: {
  store: AgentsStore;
  scheduling: Scheduling;
  ledger: Pick<Ledger, "standing" | "keySpend">;
  models: Models;
  log: Log;
  /** Of the users, those who are suspended. */
  suspended(tx: Tx, user_ids: readonly string[]): Promise<ReadonlySet<string>>;
  /** The caller's agent, or 404. */
  find(user_id: string, id: string): Promise<AgentRow>;
}) {
  const { store, scheduling, ledger, models, log, find } = deps;

  const newRun = (agent: AgentRow, input: RunInput): NewRun => ({
    user_id: agent.user_id,
    agent_id: agent.id,
    agent_version: agent.version,
    model_id: agent.auto_route ? null : (models.find(agent.model_id ?? "")?.id ?? agent.model_id),
    input,
  });
  /** Whether its model costs nothing. An empty account may use it. */
  const isFree = ({ auto_route, model_id }: AgentRow): boolean => {
    const model = auto_route ? null : models.find(model_id ?? "");
    return model !== null && model.input_rate_micro === 0 && model.output_rate_micro === 0;
  };
  /** The agent when it may run now: 404, 409, and 402 in that order. */
  const ready = async (caller: Caller, id: string): Promise<AgentRow> => {
    const agent = await find(caller.user_id, id);
    if (!agent.is_active) throw errors.agentDisabled();
    if (!isFree(agent)) await refuseWithoutTokens(ledger, caller);
    return agent;
  };
  const keyOf = async (user_id: string, id: string): Promise<AgentKey> => ({
    user_id,
    agent_id: (await find(user_id, id)).id,
  });

  /** Failures in a row, or a lack of tokens, pause the agent's schedule. */
  const drawConsequences = async (run: ClaimedRun, limits: AgentConfig["limits"], finish: RunFinish) => {
    const agent = { user_id: run.lease.user_id, agent_id: run.agent_id };
    const failures = await store.countOutcome(agent, finish.status === "failed");
    if (finish.status !== "failed") return;
    const lacks_tokens = finish.error.code === "insufficient_tokens";
    if (!lacks_tokens && failures < limits.max_consecutive_failures) return;
    const reason = lacks_tokens
      ? OUT_OF_TOKENS
      : `${failures === 1 ? "1 failed run" : `${failures} failed runs in a row`}: set schedule_enabled to true to resume`;
    await scheduling.pauseSchedule(agent, reason);
    log.info({ agent_id: run.agent_id, reason }, "a schedule was paused");
  };

  return {
    ready,
    newRun,

    /** Queues a run of the agent's run_prompt. 400, 402, 404, 409. */
    async runNow(caller: Caller, id: string, request_id: string): Promise<RunRecord> {
      const agent = await ready(caller, id);
      if ((agent.run_prompt ?? "").trim() === "") throw errors.missingField("run_prompt");
      const { api_key_id, key_budget_tokens } = caller;
      const input = { messages: null, request_id, api_key_id, key_budget_tokens, ticket: null };
      return scheduling.enqueue({ ...newRun(agent, input), trigger: "manual" });
    },
    /** The run once it has finished, or as it stands after `wait_ms`. */
    async waitFor({ user_id, agent_id }: AgentKey, run_id: string, wait_ms: number): Promise<RunDetail> {
      await scheduling.waitFinished(user_id, run_id, wait_ms);
      return scheduling.getRun({ user_id, agent_id }, run_id);
    },
    /** Newest first; `before_id` is the last one seen. */
    async runs(
      user_id: string,
      id: string,
      filter: RunFilter,
      page: { limit: number; before_id: string | null },
    ): Promise<RunRecord[]> {
      return scheduling.listRuns(await keyOf(user_id, id), filter, page);
    },
    async run(user_id: string, id: string, run_id: string): Promise<RunDetail> {
      return scheduling.getRun(await keyOf(user_id, id), run_id);
    },
    /** Stops the run: at once while it is queued, else through `cancelling`. 404, 409. */
    async cancelRun(user_id: string, id: string, run_id: string): Promise<RunRecord> {
      return scheduling.requestCancel(await keyOf(user_id, id), run_id);
    },
    async occurrences(
      user_id: string,
      id: string,
      page: { limit: number; before: Instant | null },
    ): Promise<OccurrenceRecord[]> {
      return scheduling.occurrences(await keyOf(user_id, id), page);
    },

    /** For scheduling's tick: what a due run of each agent is made of. */
    async onDue(tx: Tx, keys: readonly AgentKey[]): Promise<ReadonlyMap<string, DueAnswer>> {
      const input: RunInput = {
        messages: null,
        request_id: null,
        api_key_id: null,
        key_budget_tokens: null,
        ticket: null,
      };
      const agents = await store.liveAgents(tx, keys);
      const suspended = await deps.suspended(tx, [...new Set(agents.map(({ user_id }) => user_id))]);
      const answer = (agent: AgentRow): DueAnswer =>
        suspended.has(agent.user_id) ? { declined: "the account is suspended" } : { run: newRun(agent, input) };
      return new Map(agents.map((agent) => [agent.id, answer(agent)]));
    },
    /**
     * Ends a run. What it means for the agent comes first, so that whoever sees the run finished, the schedule's next
     * instant among them, sees that too. False: the lease is lost.
     */
    async finish(run: ClaimedRun, limits: AgentConfig["limits"], finish: RunFinish): Promise<boolean> {
      if (run.trigger !== "chat" && finish.status !== "cancelled") await drawConsequences(run, limits, finish);
      return scheduling.finishRun(run.lease, finish);
    },
    /** For the ledger: a grant resumes the user's schedules that wait for one. */
    async onGrant(user_id: string): Promise<void> {
      const standings = await scheduling.schedules(user_id, await store.scheduledIds(user_id));
      for (const [agent_id, { paused_reason }] of standings) {
        if (paused_reason === OUT_OF_TOKENS) await scheduling.pauseSchedule({ user_id, agent_id }, null);
      }
    },
  };
}

export type Runs = ReturnType<typeof createRuns>;

/** contract 5: run-now's 402 is a check, not a hold. */
async function refuseWithoutTokens(
  ledger: Pick<Ledger, "standing" | "keySpend">,
  { user_id, api_key_id, key_budget_tokens }: Caller,
): Promise<void> {
  const { refusal, available, held } = await ledger.standing(user_id);
  const figures = { required: 1, available, held, shortfall: Math.max(0, 1 - available) };
  if (refusal === "trial_ended") throw errors.payment(refusal, figures);
  if (api_key_id !== null && key_budget_tokens !== null) {
    const left = key_budget_tokens - ((await ledger.keySpend(user_id)).get(api_key_id) ?? 0);
    if (left <= 0) throw errors.payment("key_budget_exceeded", { ...figures, available: 0, shortfall: 1 });
  }
  if (refusal !== null) throw errors.payment(refusal, figures);
}
