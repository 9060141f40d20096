import { ledgerErrors, type MeansOf, type PaymentCode } from "../../account/ledger/errors.ts";
import type { Ledger } from "../../account/ledger/ledger.types.ts";
import type { AgentChanges, AgentKey } from "../../api/contract/agents.ts";
import type { Caller } from "../../api/contract/caller.ts";
import { allows, budgetUse, type KeyTerms, keyTermsOf } from "../../api/contract/key-terms.ts";
import { labelsOf } from "../../api/contract/labels.ts";
import type { RunData, RunDetail, RunRecord, RunTrigger } from "../../api/contract/runs.ts";
import type { OccurrenceRecord } from "../../api/contract/schedules.ts";
import { gatewayErrors } from "../../gateway/models/errors.ts";
import type { Models } from "../../gateway/models/models.service.ts";
import { errors } from "../../kernel/errors.ts";
import { PurserError } from "../../kernel/purser-error.ts";
import type { Tx } from "../../platform/db/db.ts";
import { addDays, type Clock, startOfDay } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import { newMark } from "../../safety/fence.ts";
import { checkPlaceholders } from "../runs/prompts.ts";
import { newModelCallStart } from "../runs/run-work.ts";
import type { Runs } from "../runs/runs.service.ts";
import type { NewRun, RunFilter, StepStart } from "../runs/runs.types.ts";
import type { EngineInput } from "../runs/transcript.ts";
import type { Schedules } from "../schedules/schedules.service.ts";
import type { DueAnswer, DueSchedule } from "../schedules/tick.service.ts";
import { usesServers } from "../tools/registry.ts";
import { createAgentCache } from "./agent-caches.ts";
import { checkInput } from "./agent-config.ts";
import { type AgentRow, configFields } from "./agents.store.ts";
import { agentErrors } from "./errors.ts";
import { type DueAgent, selectDueAgents } from "./outcome.store.ts";
import { KEY_PAUSE_REASON, type ScheduleKey } from "./schedule-key.ts";
import type { ScheduleKeys } from "./schedule-keys.service.ts";

/** A run-now. `run_prompt`: what this run does in place of the agent's own. */
export interface RunNow extends Pick<NewRun, "input" | "metadata" | "run_prompt"> {
  request_id: string;
  wait_ms: number;
  /** The model of this run in place of the agent's. */
  model_id?: string | null | undefined;
  /** Changes of the agent that are not saved, which the run tests. */
  draft?: AgentChanges | undefined;
  /** The schedule whose run it is. */
  schedule?: { id: string; name: string; timezone: string };
}

/** What a run has in place of the agent's saved settings. */
type OwnSettings = Pick<RunNow, "draft" | "model_id">;

/** A run that a trigger's delivery starts. */
interface TriggeredRun {
  run_id: string;
  trigger: { id: string; name: string };
  input: RunData;
  /** null: the agent's. */
  run_prompt: string | null;
  request_id: string;
}

/** contract 2.16.1 */
const NO_FREE_ROOM_WHEN_DUE = "the runs of this day that cost nothing filled the room for them";
const NO_FREE_ROOM =
  "Your runs of today that cost nothing fill the room for them. Use a model that has a price, or retry tomorrow (UTC).";
const NO_PROMPT = "Set it in the agent (PUT /api/v1/agents/{id}), or send it in this request for this run alone.";

/** Tries of a run-now whose agent is changed at the same time. */
const MAX_LOOKS = 5;

/** Starts the runs of agents and shows them to their users. */
export function createAgentRuns(deps: {
  runs: Pick<
    Runs,
    "startRun" | "finishedRun" | "listRuns" | "getRun" | "getRunInParts" | "requestCancel" | "outcomes"
  > &
    Pick<Runs, "withoutFreeRoom">;
  clock: Clock;
  schedules: Pick<Schedules, "occurrences" | "zoneOf">;
  ledger: Pick<Ledger, "accountStatus" | "keySpends" | "refills">;
  schedule_keys: Pick<ScheduleKeys, "judge">;
  models: Models;
  meansOf: MeansOf;
  /** The suspended users among these. */
  suspended(tx: Tx, user_ids: readonly string[]): Promise<ReadonlySet<string>>;
  /** The caller's agent, or 404. */
  find(user_id: string, id: string): Promise<AgentRow>;
  /** The agent with changes that are not saved. Throws 400 and 403. */
  withDraft(caller: Caller, agent: AgentRow, draft: AgentChanges): Promise<AgentRow>;
}) {
  const { runs, clock, schedules, ledger, schedule_keys, models, meansOf, find, withDraft } = deps;

  const content = (agent: Pick<AgentRow, "version" | "auto_route" | "model_id">, engine_input: EngineInput) => ({
    agent_version: agent.version,
    model_id: agent.auto_route ? null : (models.find(agent.model_id ?? "")?.id ?? agent.model_id),
    engine_input,
  });
  const newRun = (agent: AgentRow, trigger: Exclude<RunTrigger, "schedule">, engine_input: EngineInput): NewRun => ({
    user_id: agent.user_id,
    agent_id: agent.id,
    trigger,
    ...content(agent, engine_input),
  });
  /** Whether the agent's model is free. An account without tokens may use it. */
  const isFree = ({ auto_route, model_id }: Pick<AgentRow, "auto_route" | "model_id">): boolean => {
    const model = auto_route ? null : models.find(model_id ?? "");
    return model !== null && model.input_rate_micro === 0 && model.output_rate_micro === 0;
  };
  const mayBeFree = (agent: Pick<AgentRow, "auto_route" | "model_id">) => agent.auto_route || isFree(agent);
  /** contract 2.16.1: throws 429 if the run may cost nothing and the user has stored too much of such runs today. */
  const requireFreeRoom = async (agent: AgentRow): Promise<void> => {
    if (!mayBeFree(agent) || !(await runs.withoutFreeRoom([agent.user_id])).has(agent.user_id)) return;
    const now = clock.now();
    const tomorrow = addDays(startOfDay(now), 1);
    throw errors.rateLimited((Date.parse(tomorrow) - Date.parse(now)) / 1_000, NO_FREE_ROOM);
  };
  /**
   * The agent if it may run now, with the draft and the model of this run. Throws in this order: 404, 400 for the draft or the
   * model, 409, 403 for a model that is not allowed or not part of the trial, 402.
   */
  const ready = async (caller: Caller, id: string, { draft, model_id }: OwnSettings = {}): Promise<AgentRow> => {
    const [saved, { refusal, is_trial }] = await Promise.all([find(caller.user_id, id), toAccountStatus(caller)]);
    const found = draft === undefined ? saved : await withDraft(caller, saved, draft).catch(throwInDraft);
    const agent = model_id == null ? found : { ...found, model_id, auto_route: false };
    if (model_id != null && models.find(model_id) === null) {
      // The model is a field here, not the resource of the request.
      const unknown = gatewayErrors.modelNotFound(model_id, models.nearest(model_id), "model_id");
      throw unknown.with({ status: 400, type: "invalid_request_error" });
    }
    if (!agent.is_active) throw agentErrors.agentDisabled();
    const model = agent.auto_route ? null : models.find(agent.model_id ?? "");
    if (model !== null && !allows(caller.allowed_models, model)) {
      throw gatewayErrors.modelNotAllowed(`The agent's model ${model.id}`, "model_id");
    }
    if (is_trial && model?.trial_eligible === false) {
      throw gatewayErrors.modelNotTrialEligible(`The agent's model ${model.id}`, "model_id");
    }
    if (refusal !== null && !isFree(agent)) throw refusal;
    return agent;
  };
  /** contract 5: run-now's 402 is a check, not a hold; null: the run is allowed. */
  const toAccountStatus = async ({ user_id, api_key_id, key_budget_tokens, key_budget_interval = null }: Caller) => {
    const { refusal, available, held, is_trial } = await ledger.accountStatus(user_id);
    const figures = { required: 1, available, held, shortfall: Math.max(0, 1 - available) };
    const refused = async (code: PaymentCode, shown = figures) => ({
      is_trial,
      refusal: ledgerErrors.payment(code, shown, await meansOf(user_id)),
    });
    if (refusal === "trial_ended") return refused(refusal);
    if (api_key_id !== null && key_budget_tokens !== null) {
      const spends = await ledger.keySpends({ user_ids: [user_id], ids: [api_key_id] });
      const is_used_up = budgetUse(spends.get(api_key_id), key_budget_interval) >= key_budget_tokens;
      if (is_used_up) return refused("key_budget_exceeded", { ...figures, available: 0, shortfall: 1 });
    }
    return refusal === null ? { is_trial, refusal } : refused(refusal);
  };
  const getKey = async (user_id: string, id: string): Promise<AgentKey> => ({
    user_id,
    agent_id: (await find(user_id, id)).id,
  });

  const cache = createAgentCache();
  /** The cached agent when it probably may run. In doubt it reads again and answers 404, 409, 402 or 400. */
  const likelyReady = async (
    caller: Caller,
    id: string,
    { is_doubtful, has_prompt, own }: { is_doubtful: boolean; has_prompt: boolean; own: OwnSettings },
  ): Promise<AgentRow> => {
    const is_cached = !is_doubtful && !isOwn(own) && !isLimited(caller);
    const known = is_cached ? cache.get(caller.user_id, id) : undefined;
    if (known?.is_active && (has_prompt || hasPrompt(known))) return known;
    const agent = await ready(caller, id, own);
    if (!has_prompt && !hasPrompt(agent)) throw errors.missingField("run_prompt", NO_PROMPT);
    if (!isOwn(own)) cache.keep(agent);
    return agent;
  };
  /** The zone of a run without a schedule. */
  const ownZone = async ({ user_id, id }: AgentRow): Promise<Pick<EngineInput, "timezone">> => {
    const timezone = await schedules.zoneOf({ user_id, agent_id: id });
    return timezone === undefined || timezone === "UTC" ? {} : { timezone };
  };
  const runNow = async (caller: Caller, id: string, asked: RunNow) => {
    const { request_id, wait_ms, run_prompt, model_id, input, metadata, draft, schedule } = asked;
    const own = { draft, model_id };
    const terms = keyTermsOf({ ...caller, labels: labelsOf({ metadata }) ?? caller.labels ?? null });
    // An input that the caller labels with a user comes from that user.
    const mark = input != null && terms.labels?.user !== undefined ? { input_mark: newMark() } : {};
    const of_schedule = schedule && { schedule: { name: schedule.name, timezone: schedule.timezone } };
    const start = {
      messages: null,
      request_id,
      ...terms,
      ticket: null,
      ...mark,
      ...(model_id == null ? {} : { model_id }),
    };
    const has_prompt = run_prompt != null;
    let refusal = "";
    for (let look = 0; look < MAX_LOOKS; look += 1) {
      const agent = await likelyReady(caller, id, { is_doubtful: look > 0, has_prompt, own });
      checkInput(agent.input_schema, input ?? null);
      checkPlaceholders(run_prompt ?? null, "run_prompt", agent.input_schema);
      if (look === 0) await requireFreeRoom(agent);
      const tested = draft === undefined ? {} : { draft: configFields(agent) };
      const engine_input = { ...start, ...tested, ...(of_schedule ?? (await ownZone(agent))) };
      // After a full check the user can pay. The check at queueing knows less.
      const precondition = { version: agent.version, is_free: look > 0 || isOwn(own) || isFree(agent) };
      const trigger = draft === undefined ? "manual" : "test";
      const run = { ...newRun(agent, trigger, engine_input), input, metadata, run_prompt, schedule_id: schedule?.id };
      const first_step = newFirstStep(agent, run);
      const started = await runs.startRun({ ...run, first_step, precondition, is_awaited: wait_ms > 0 });
      if (started.refusal === null) return started;
      refusal = started.refusal;
      cache.forget(caller.user_id, id);
    }
    throw new Error(`a run-now was refused again and again: ${refusal}`);
  };

  return {
    /** The agent if the caller may chat with it now. Throws as run-now does. */
    async ready(caller: Caller, id: string): Promise<AgentRow> {
      const agent = await ready(caller, id);
      await requireFreeRoom(agent);
      return agent;
    },
    newRun,
    ownZone,

    /**
     * Queues a run of the agent's run_prompt. With `wait_ms`, resolves to the finished run, or to its state after that
     * time. 400, 402, 404, 409, and 429 when too many runs are queued.
     */
    async runNow(caller: Caller, id: string, asked: RunNow): Promise<RunRecord | RunDetail> {
      const { wait_ms } = asked;
      const { run, has_begun } = await runNow(caller, id, asked);
      if (wait_ms === 0) return run;
      const agent = { user_id: caller.user_id, agent_id: run.agent_id };
      return runs.finishedRun(agent, run.id, { timeout_ms: wait_ms, is_open: has_begun });
    },
    /**
     * Queues a run for a delivery to a trigger, with `alongside` in the same transaction. Its input comes from outside.
     * Throws as `runNow` does.
     */
    async runTriggered(
      caller: Caller,
      id: string,
      { run_id, trigger, input, run_prompt, request_id }: TriggeredRun,
      alongside: (tx: Tx) => Promise<void>,
    ): Promise<void> {
      const agent = await ready(caller, id);
      if (run_prompt === null && !hasPrompt(agent)) throw errors.missingField("run_prompt", NO_PROMPT);
      checkInput(agent.input_schema, input);
      await requireFreeRoom(agent);
      const start = { messages: null, request_id, ...keyTermsOf(caller), ticket: null, input_mark: newMark() };
      const run = newRun(agent, "webhook", { ...start, ...(await ownZone(agent)) });
      const given = { id: run_id, input, run_prompt, trigger_id: trigger.id, trigger_name: trigger.name };
      const started = await runs.startRun({ ...run, ...given }, alongside);
      if (started.refusal !== null) throw agentErrors.agentDisabled();
    },
    /** Newest first; `before_id` is the last run of the page before. */
    async runs(
      user_id: string,
      id: string,
      filter: RunFilter,
      page: { limit: number; before_id: string | null },
    ): Promise<RunRecord[]> {
      return runs.listRuns(await getKey(user_id, id), filter, page);
    },
    async run(user_id: string, id: string, run_id: string): Promise<RunDetail> {
      return runs.getRun(await getKey(user_id, id), run_id);
    },
    /** The same in parts. */
    runInParts: async (user_id: string, id: string, run_id: string) =>
      runs.getRunInParts(await getKey(user_id, id), run_id),
    /** Cancels the run: at once while it is queued, otherwise through `cancelling`. 404, 409. */
    async cancelRun(user_id: string, id: string, run_id: string): Promise<RunRecord> {
      return runs.requestCancel(await getKey(user_id, id), run_id);
    },
    /** Occurrences of the agent or of one of its schedules, newest first. */
    async occurrences(
      user_id: string,
      id: string,
      { schedule_id, limit, before }: Parameters<Schedules["occurrences"]>[1] & { schedule_id: string | null },
    ): Promise<OccurrenceRecord[]> {
      const of = { ...(await getKey(user_id, id)), schedule_id };
      const occurrences = await schedules.occurrences(of, { limit, before });
      const outcomes = await runs.outcomes(
        user_id,
        occurrences.flatMap(({ run_id }) => run_id ?? []),
      );
      return occurrences.map((occurrence) => ({ ...occurrence, run: outcomes.get(occurrence.run_id ?? "") ?? null }));
    },

    /** For the tick: the content of each schedule's due run. */
    async onDue(tx: Tx, due: readonly DueSchedule[]): Promise<ReadonlyMap<string, DueAnswer>> {
      const input = { messages: null, request_id: null, ticket: null };
      const agents = await selectDueAgents(tx, due);
      const user_ids = [...new Set(agents.map(({ user_id }) => user_id))];
      const suspended = await deps.suspended(tx, user_ids);
      const free = agents.filter(mayBeFree).map(({ user_id }) => user_id);
      const without_room = await runs.withoutFreeRoom([...new Set(free)], tx);
      const refills = await ledger.refills(user_ids, tx);
      const by_id = new Map(agents.map((agent) => [agent.agent_id, agent]));
      const judged = await schedule_keys.judge(
        tx,
        due.filter(({ agent_id }) => by_id.has(agent_id)),
      );
      const answer = (agent: DueAgent, { id, name, spec, api_key_id }: DueSchedule): DueAnswer => {
        if (suspended.has(agent.user_id)) return { declined: "the account is suspended" };
        if (without_room.has(agent.user_id) && mayBeFree(agent)) return { declined: NO_FREE_ROOM_WHEN_DUE };
        const pause = judged.pauses.get(id);
        if (pause !== undefined) return { declined: KEY_PAUSE_REASON[pause] };
        const key = judged.keys.get(api_key_id ?? "");
        const refilled = refills.get(agent.user_id) ?? 0;
        const schedule = { name, timezone: spec.timezone };
        return { run: content(agent, { ...input, ...countedTerms(key), refills: refilled, schedule }) };
      };
      return new Map(
        due.flatMap((schedule) => {
          const agent = by_id.get(schedule.agent_id);
          return agent === undefined ? [] : [[schedule.id, answer(agent, schedule)] as const];
        }),
      );
    },
  };
}

/**
 * The first step of a run is a model call. Exceptions are agents with MCP servers, whose missing servers are recorded
 * first, and agents whose model is chosen at the call.
 */
function newFirstStep({ tools_config }: AgentRow, { model_id }: NewRun): StepStart | undefined {
  if (usesServers(tools_config) || model_id === null) return undefined;
  return newModelCallStart({ index: 0, name: model_id, hold_id: newId() });
}

/** The key that a due run's model calls count against. */
function countedTerms(key: ScheduleKey | undefined): KeyTerms {
  if (key === undefined) return { api_key_id: null, key_budget_tokens: null };
  const { id, budget_tokens, budget_interval, allowed_models, limits } = key;
  return keyTermsOf({
    api_key_id: id,
    key_budget_tokens: budget_tokens,
    key_budget_interval: budget_interval,
    allowed_models,
    key_limits: limits,
  });
}

function isOwn({ draft, model_id }: OwnSettings): boolean {
  return draft !== undefined || model_id != null;
}

/** The fault of a draft, at its place in the request. */
function throwInDraft(error: unknown): never {
  if (!(error instanceof PurserError) || error.shape.param === undefined) throw error;
  throw error.with({ param: `draft.${error.shape.param}` });
}

/** Whether the key's terms decide if an agent may run. */
function isLimited({ key_budget_tokens, allowed_models }: Caller): boolean {
  return key_budget_tokens !== null || allowed_models != null;
}

function hasPrompt({ run_prompt }: AgentRow): boolean {
  return (run_prompt ?? "").trim() !== "";
}
