import fc from "fast-check";
import { expect, test } from "vitest";
import { ledgerErrors } from "../../src/account/ledger/errors.ts";
import { newConfig } from "../../src/agents/definitions/agent-config.ts";
import { createApprovalStep } from "../../src/agents/runs/approval-step.ts";
import { askForTokens, capsOf } from "../../src/agents/runs/budget-step.ts";
import { createEngine, type Step } from "../../src/agents/runs/engine.ts";
import { modelCallError } from "../../src/agents/runs/model-call.ts";
import { type EngineDeps, getNextIndex, type Work } from "../../src/agents/runs/run-work.ts";
import { createToolSteps } from "../../src/agents/runs/tool-step.ts";
import type { RunConfig } from "../../src/agents/runs/transcript.ts";
import type { ToolCall as Call, ToolResult } from "../../src/agents/tools/tools.types.ts";
import type { Decision } from "../../src/api/contract/run-actions.ts";
import { gatewayErrors } from "../../src/gateway/models/errors.ts";
import type { PurserError } from "../../src/kernel/purser-error.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import { instantOf } from "../../src/platform/lib/instant.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { START, useQueue } from "./run-queue-fixture.ts";

// Random runs that ask, against a small model of what may happen: workers that are lost before and after each effect, decisions
// of all kinds by several people at once, time that passes, and cancels. Each call is made at most once (one whose receiver
// recognizes a repetition under one id), never without its approval, and with exactly the arguments that were approved. A run
// that reaches its own limit of tokens asks and spends no more than was approved; an end user's budget asks nobody, and the run
// fails. PROPERTY_SEED replays the seed that a failure prints.

const queue = useQueue();
const HOOK = "https://hook.example/";
/** The kinds of calls: how each tool is configured, and what a lost worker means for it. */
const KINDS = {
  /** always_allow; it only reads, so it is repeated. */
  read: { tool: "web_fetch", asks: () => false, is_repeated: true },
  /** always_ask; its receiver recognizes a repetition. */
  hook: { tool: "send_webhook", asks: () => true, is_repeated: true },
  /** always_ask; it is not repeated. */
  write: { tool: "crm__write", asks: () => true, is_repeated: false },
  /** ask_after_untrusted; it is not repeated. */
  after: { tool: "crm__after", asks: (has_read: boolean) => has_read, is_repeated: false },
} as const;
type Kind = keyof typeof KINDS;

const config: RunConfig = newConfig({
  name: "Clerk",
  model_id: "lab/small",
  run_prompt: "Send it.",
  approval_hours: 24,
  on_budget: "ask",
  tools_config: {
    web_fetch: { enabled: true },
    send_webhook: { enabled: true, urls: [HOOK], permission_policy: "always_ask" },
    mcp: {
      enabled: true,
      servers: [{ name: "crm", url: "https://crm.example/mcp", tool_permission_policies: { write: "always_ask" } }],
    },
  },
});

/** What a model call costs. A run without a limit makes two. */
const CALL_TOKENS = 100;
/** What limits the tokens of a run: its own cap, which an approval adds again, or the budget of its end user. */
interface Budget {
  of: "run" | "end_user";
  tokens: number;
}

const argumentsOf = (kind: Kind, nth: number, value: string) => {
  if (kind === "read") return { url: `https://page.example/${nth}` };
  return kind === "hook" ? { url: HOOK, payload: { nth, value } } : { nth, value };
};

/** What the model of a run knows of one call. */
interface ModelCall {
  kind: Kind;
  decision: "none" | "open" | "approved" | "edited" | "rejected" | "expired" | "cancelled";
  arguments: object;
  is_done: boolean;
}
interface ModelRun {
  id: string;
  budget: Budget | null;
  /** The present limit of its tokens. */
  cap_tokens: number;
  spent_tokens: number;
  /** The decisions on its budget actions, in order. */
  budget_decisions: ModelCall["decision"][];
  status: "queued" | "running" | "requires_action" | "succeeded" | "failed" | "cancelled";
  calls: ModelCall[];
  /** The call that a lost worker was making. */
  interrupted: number | null;
  /** Workers lost in the middle of a step, since the last finished one. */
  losses: number;
  expires_at_ms: number;
}
/** When a worker is lost: before or after the `at`th effect of its turn, or before or after it suspends the run. */
interface Loss {
  at: number;
  when: "before" | "after" | "asking" | "asked";
}

/** What the outside world got, by run and step. */
interface Effect {
  run_id: string;
  id: string;
  tool: string;
  arguments: unknown;
  times: number;
}
let effects = new Map<string, Effect>();
/** Answers of the model by run, each of which costs CALL_TOKENS. */
let answers = new Map<string, number>();
let loss: Loss | null = null;
let made = 0;
const lostForever = () => new Promise<never>(() => {});

const tools = {
  async call({ name, arguments_json, effect_id, run }: Call): Promise<ToolResult> {
    made += 1;
    if (loss?.at === made && loss.when === "before") {
      lost.resolve();
      return lostForever();
    }
    const effect = effects.get(effect_id) ?? {
      run_id: run.run_id ?? "",
      id: effect_id,
      tool: name,
      arguments: JSON.parse(arguments_json),
      times: 0,
    };
    effect.times += 1;
    effects.set(effect_id, effect);
    expect(JSON.parse(arguments_json)).toEqual(effect.arguments);
    if (loss?.at === made && loss.when === "after") {
      lost.resolve();
      return lostForever();
    }
    const safety = { verdict: { injected: false }, removed: [] } as unknown as ToolResult["safety"];
    return { status: "succeeded", result: "ok", safety, links: [] };
  },
  definitions: async () => [],
};
let lost = Promise.withResolvers<void>();

/** The ledger's answer to a model call that the run's input limits; null: the call is covered. */
function findRefusal({ input: engine_input, run, config, steps }: Work): PurserError | null {
  const { budget } = run.input as { budget: Budget | null };
  if (budget === null) return null;
  const cap = budget.of === "run" ? capsOf({ config, input: engine_input }).max_cost_tokens_per_run : budget.tokens;
  const spent = CALL_TOKENS * steps.filter(({ type, status }) => type === "model" && status === "succeeded").length;
  if (spent + CALL_TOKENS <= (cap ?? Infinity)) return null;
  if (budget.of === "run") return gatewayErrors.runBudgetExceeded().with({ needed_tokens: CALL_TOKENS });
  const figures = { required: CALL_TOKENS, available: 0, held: 0, shortfall: 0 };
  return ledgerErrors.payment("end_user_budget_exceeded", figures, { may_subscribe: false, overage: "never" });
}

/** The engine's own steps, but for the model, which asks for the calls of the run's input and then says that it is done. */
function createSteps(runs: EngineDeps["runs"]): Step {
  const ledger = { refills: async () => new Map<string, number>() };
  const deps = { runs, tools, ledger, clock: { now: () => queue.now } } as unknown as EngineDeps;
  const { executeToolCall, recordRejectedCall } = createToolSteps(deps);
  const askForApproval = createApprovalStep(deps);
  const callModel = async (work: Work) => {
    const { run, steps } = work;
    const index = getNextIndex(steps);
    const step = { index, type: "model" as const, name: "lab/small", arguments: {} };
    if ((await runs.startStep(run.lease, step)) !== "running") return "cancelling" as const;
    const refusal = findRefusal(work);
    const question = refusal === null || work.budget_error !== null ? null : await askForTokens(work, refusal, deps);
    if (question !== null && question !== "try_again") return question;
    const error = work.budget_error ?? (refusal === null ? null : modelCallError(refusal));
    if (error !== null) {
      const failed = { status: "failed" as const, error, internal: { retry_in_ms: null } };
      await runs.finishStep(run.lease, { index, ...failed });
      steps[index] = { ...step, ...failed, result: null, safety: null };
      return null;
    }
    answers.set(run.lease.run_id, (answers.get(run.lease.run_id) ?? 0) + 1);
    const { kinds } = run.input as { kinds: Kind[] };
    const tool_calls = kinds.map((kind, nth) => {
      const given = JSON.stringify(argumentsOf(kind, nth, "asked"));
      return { id: `call_${nth}`, type: "function", function: { name: KINDS[kind].tool, arguments: given } };
    });
    const message = index === 0 ? { content: null, tool_calls } : { content: "Done." };
    const result = { role: "assistant", ...message };
    await runs.finishStep(run.lease, { index, status: "succeeded", result });
    steps[index] = { ...step, status: "succeeded", result, error: null, safety: null, internal: null };
    return null;
  };
  return (work, action) => {
    if (action.do === "call_model") return callModel(work);
    if (action.do === "call_tool") return executeToolCall(work, action);
    return action.do === "ask" ? askForApproval(work, action) : recordRejectedCall(work, action);
  };
}

/** Executes the next queued run, up to a loss of its worker. */
async function work(worker_loss: Loss | null): Promise<void> {
  loss = worker_loss;
  made = 0;
  lost = Promise.withResolvers();
  const { scheduling } = queue;
  const [run] = await scheduling.claim("worker-1", 1, { concurrent_runs: 9, concurrent_runs_per_user: 9 });
  if (run === undefined) return;
  const suspendRun: typeof scheduling.suspendRun = async (...given) => {
    if (loss?.when === "asking") {
      lost.resolve();
      return lostForever();
    }
    const state = await scheduling.suspendRun(...given);
    if (loss?.when !== "asked") return state;
    lost.resolve();
    return lostForever();
  };
  const runs = { ...scheduling, suspendRun } as unknown as EngineDeps["runs"];
  const clock = { now: () => queue.now };
  const deps = { clock, runs, tools: { ...tools, unusableServers: async () => [], leftOutTools: async () => [] } };
  const engine = createEngine(
    { ...deps, log: createLog("silent"), newMark: newId } as unknown as EngineDeps,
    createSteps(runs),
  );
  const control = { signal: new AbortController().signal, isDraining: () => false, onText: null };
  const { budget } = run.input as { budget: Budget | null };
  const max_cost_tokens_per_run = budget?.of === "run" ? budget.tokens : null;
  const own = { ...config, limits: { ...config.limits, max_cost_tokens_per_run } };
  const result = await Promise.race([engine.execute(run, own, control), lost.promise.then(() => "lost" as const)]);
  if (result !== "lost" && result?.finish != null) await scheduling.finishRun(run.lease, result.finish);
  // Its lease ends at some time, whatever it did.
  await queue.expireLeases();
  await scheduling.reap();
}

// The model.

interface Model {
  runs: ModelRun[];
  now_ms: number;
}

/** What a worker does with a queued run: the model's own words for the README's rules. */
function carryOut(run: ModelRun, now_ms: number, worker_loss: Loss | null): void {
  const { calls } = run;
  const interrupted = run.interrupted === null ? undefined : calls[run.interrupted];
  if (interrupted !== undefined && !KINDS[interrupted.kind].is_repeated) {
    run.status = "failed";
    return;
  }
  if (run.spent_tokens === 0 && !payForAnswer(run, now_ms, worker_loss)) return;
  let nth_made = 0;
  for (;;) {
    const has_read = calls.some(
      ({ is_done, decision }) => is_done && decision !== "rejected" && decision !== "expired",
    );
    const next = calls.findIndex(({ kind, decision, is_done }) => {
      return !is_done && (decision === "none" ? !KINDS[kind].asks(has_read) : decision !== "open");
    });
    const call = calls[next];
    if (call === undefined) break;
    if (call.decision === "rejected" || call.decision === "expired") {
      call.is_done = true;
      run.losses = 0;
      continue;
    }
    nth_made += 1;
    if (worker_loss?.at === nth_made && (worker_loss.when === "before" || worker_loss.when === "after")) {
      run.interrupted = next;
      lose(run);
      return;
    }
    call.is_done = true;
    run.interrupted = null;
    run.losses = 0;
  }
  const asked = calls.filter(({ is_done }) => !is_done);
  if (asked.length === 0) {
    if (payForAnswer(run, now_ms, worker_loss)) run.status = "succeeded";
  } else if (worker_loss?.when !== "asking") {
    for (const call of asked) call.decision = "open";
    wait(run, now_ms);
  }
}

function lose(run: ModelRun): void {
  run.losses += 1;
  if (run.losses === 3) run.status = "failed";
}

function wait(run: ModelRun, now_ms: number): void {
  run.expires_at_ms = now_ms + 24 * 3_600_000;
  run.status = "requires_action";
}

/** False: the worker has left the run. */
function payForAnswer(run: ModelRun, now_ms: number, worker_loss: Loss | null): boolean {
  const { budget, budget_decisions } = run;
  const was_declined = budget_decisions.some((decision) => decision === "rejected" || decision === "expired");
  if (!was_declined && run.spent_tokens + CALL_TOKENS <= run.cap_tokens) {
    run.spent_tokens += CALL_TOKENS;
    run.losses = 0;
    return true;
  }
  if (was_declined || budget?.of === "end_user") run.status = "failed";
  else if (worker_loss?.when === "asking") lose(run);
  else {
    budget_decisions.push("open");
    wait(run, now_ms);
  }
  return false;
}

/** Decides all open actions of the run, or its budget action. */
const decideOpen = (run: ModelRun, decision: ModelCall["decision"]) => {
  for (const call of run.calls) if (call.decision === "open") call.decision = decision;
  run.budget_decisions = run.budget_decisions.map((each) => (each === "open" ? decision : each));
};
const decideOnce = (run: ModelRun) => {
  if (run.calls.every(({ decision }) => decision !== "open")) run.status = "queued";
};
const asksForTokens = ({ budget_decisions }: ModelRun) => budget_decisions.at(-1) === "open";
const pick = <Item>(items: readonly Item[], nth: number): Item | undefined => items[nth % Math.max(1, items.length)];
const actionsOf = async ({ id }: ModelRun) => (await queue.scheduling.getRun(queue.agent, id)).required_actions;

/** What the database and the world have is what the model has. */
async function compare({ runs }: Model): Promise<void> {
  for (const run of runs) {
    const detail = await queue.scheduling.getRun(queue.agent, run.id);
    expect(detail.status).toBe(run.status);
    const open = run.calls.flatMap(
      ({ kind, decision, arguments: given }): { tool: string | null; arguments: unknown }[] =>
        decision === "open" ? [{ tool: KINDS[kind].tool, arguments: given }] : [],
    );
    if (asksForTokens(run)) open.push({ tool: null, arguments: null });
    expect(detail.required_actions.map(({ tool, arguments: given }) => ({ tool, arguments: given }))).toEqual(open);
    const all = [...run.calls.map(({ decision }) => decision), ...run.budget_decisions];
    const decided = all.filter((decision) => decision !== "none" && decision !== "open");
    expect((answers.get(run.id) ?? 0) * CALL_TOKENS).toBe(run.spent_tokens);
    expect(run.spent_tokens).toBeLessThanOrEqual(run.cap_tokens);
    expect(detail.decisions.map(({ decision }) => decision).sort()).toEqual(decided.sort());
    const happened = [...effects.values()].filter(({ run_id }) => run_id === run.id);
    for (const [nth, { kind, decision, is_done, arguments: given }] of run.calls.entries()) {
      const of_call = happened.filter((effect) => {
        return effect.tool === KINDS[kind].tool && JSON.stringify(effect.arguments).includes(markOf(kind, nth));
      });
      const may_happen = decision === "approved" || decision === "edited" || decision === "none";
      if (!may_happen) expect(of_call).toEqual([]);
      // One effect, under one id, with what was approved.
      expect(of_call.length).toBeLessThanOrEqual(1);
      for (const effect of of_call) expect(effect.arguments).toEqual(given);
      if (!KINDS[kind].is_repeated) for (const { times } of of_call) expect(times).toBe(1);
      if (is_done && may_happen) expect(of_call).toHaveLength(1);
    }
  }
}
const markOf = (kind: Kind, nth: number) => (kind === "read" ? `page.example/${nth}` : `"nth":${nth}`);

type Command = fc.AsyncCommand<Model, object>;
const command = (name: string, check: (model: Model) => boolean, run: (model: Model) => Promise<void>): Command => ({
  check,
  async run(model) {
    await run(model);
    await compare(model);
  },
  toString: () => name,
});

const start = (kinds: Kind[], budget: Budget | null) =>
  command(
    `start(${kinds}, ${JSON.stringify(budget)})`,
    ({ runs }) => runs.filter(({ status }) => status === "queued" || status === "requires_action").length < 3,
    async ({ runs }) => {
      const { id } = await queue.scheduling.start({ ...queue.agent, model_id: "lab/small", input: { kinds, budget } });
      const calls = kinds.map((kind, nth): ModelCall => {
        return { kind, decision: "none", arguments: argumentsOf(kind, nth, "asked"), is_done: false };
      });
      runs.push({
        id,
        budget,
        cap_tokens: budget?.tokens ?? Infinity,
        spent_tokens: 0,
        budget_decisions: [],
        status: "queued",
        calls,
        interrupted: null,
        losses: 0,
        expires_at_ms: 0,
      });
    },
  );

const workOn = (worker_loss: Loss | null) =>
  command(
    `work(${JSON.stringify(worker_loss)})`,
    ({ runs }) => runs.some(({ status }) => status === "queued"),
    async ({ runs, now_ms }) => {
      const next = runs.find(({ status }) => status === "queued");
      if (next === undefined) return;
      carryOut(next, now_ms, worker_loss);
      await work(worker_loss);
    },
  );

const decide = (nth_run: number, nth_call: number, decision: Decision["decision"], deciders: number) =>
  command(
    `decide(${nth_run}, ${nth_call}, ${decision}, by ${deciders})`,
    ({ runs }) => runs.some(({ status }) => status === "requires_action"),
    async ({ runs }) => {
      const run = pick(
        runs.filter(({ status }) => status === "requires_action"),
        nth_run,
      );
      if (run === undefined) return;
      const open = run.calls.flatMap((call, nth) => (call.decision === "open" ? [{ call, nth }] : []));
      const place = nth_call % Math.max(1, open.length);
      const asked = open[place];
      const action = (await actionsOf(run))[place];
      if (action === undefined || (asked === undefined) !== asksForTokens(run))
        throw new Error("the run has no such action");
      const edited = asked === undefined ? {} : argumentsOf(asked.call.kind, asked.nth, "edited");
      const given = decision === "edit" ? edited : undefined;
      const key = { ...queue.agent, run_id: run.id, action_id: action.id };
      const by = {
        decided_by: { type: "user" as const, id: queue.agent.user_id, name: null },
        loadTools: async () => config.tools_config,
      };
      const { decideAction } = queue.scheduling;
      const theirs = { ...key, user_id: newId() };
      await expect(decideAction(theirs, { decision: "approve" }, by)).rejects.toMatchObject({ shape: { status: 404 } });
      const changed = { decision: "approve", arguments: { nth: -1 } } as const;
      await expect(decideAction(key, changed, by)).rejects.toMatchObject({ shape: { status: 409 } });
      const decided = await Promise.allSettled(
        Array.from({ length: deciders }, () => decideAction(key, { decision, arguments: given }, by)),
      );
      const can_decide = asked !== undefined || decision !== "edit";
      expect(decided.filter(({ status }) => status === "fulfilled")).toHaveLength(can_decide ? 1 : 0);
      if (!can_decide) return;
      const outcome = ({ approve: "approved", edit: "edited", reject: "rejected" } as const)[decision];
      if (asked === undefined) {
        decideOpen(run, outcome);
        if (decision === "approve") run.cap_tokens += run.budget?.tokens ?? 0;
      } else {
        asked.call.decision = outcome;
        if (decision === "edit") asked.call.arguments = edited;
      }
      decideOnce(run);
    },
  );

/** The owner raises the limits of runs: one of those that wait for tokens goes on with the new one. */
const raise = (nth_run: number) =>
  command(
    `raise(${nth_run})`,
    ({ runs }) => runs.some(asksForTokens),
    async ({ runs }) => {
      const { budgetWaits, relieveBudgets } = queue.scheduling;
      const waits = await budgetWaits({ user_id: queue.agent.user_id, after: null, limit: 100 });
      const asking = runs.filter(asksForTokens);
      expect(waits.map(({ run_id }) => run_id).sort()).toEqual(asking.map(({ id }) => id).sort());
      const run = pick(asking, nth_run);
      const reliefs = waits
        .filter(({ run_id }) => run_id === run?.id)
        .map((each) => ({ ...each, relief: "It was raised.", caps: { max_cost_tokens_per_run: RAISED_TOKENS } }));
      if (run === undefined) return;
      expect(await relieveBudgets(reliefs)).toHaveLength(1);
      expect(await relieveBudgets(reliefs)).toEqual([]);
      decideOpen(run, "approved");
      run.cap_tokens = RAISED_TOKENS;
      run.status = "queued";
    },
  );
const RAISED_TOKENS = 1_000;

const passTime = (hours: number) =>
  command(
    `wait(${hours} h)`,
    () => true,
    async (model) => {
      model.now_ms += hours * 3_600_000;
      queue.now = instantOf(model.now_ms);
      await queue.scheduling.expiries.carryOut();
      for (const run of model.runs) {
        if (run.status !== "requires_action" || run.expires_at_ms > model.now_ms) continue;
        decideOpen(run, "expired");
        decideOnce(run);
      }
    },
  );

const cancel = (nth_run: number) =>
  command(
    `cancel(${nth_run})`,
    ({ runs }) => runs.some(({ status }) => status === "queued" || status === "requires_action"),
    async ({ runs }) => {
      const unfinished = runs.filter(({ status }) => status === "queued" || status === "requires_action");
      const run = pick(unfinished, nth_run);
      if (run === undefined) return;
      await queue.scheduling.requestCancel(queue.agent, run.id);
      run.status = "cancelled";
      decideOpen(run, "cancelled");
    },
  );

const kind = fc.constantFrom<Kind>("read", "hook", "write", "after");
const lossOrNone = fc.option(
  fc.record({ at: fc.integer({ min: 1, max: 3 }), when: fc.constantFrom("before", "after", "asking", "asked") }),
  { freq: 2 },
) as fc.Arbitrary<Loss | null>;
const decision = fc.constantFrom<Decision["decision"]>("approve", "edit", "reject");
const budget: fc.Arbitrary<Budget | null> = fc.constantFrom(
  null,
  null,
  { of: "run", tokens: CALL_TOKENS },
  // The first call asks already, and one approval does not cover the second.
  { of: "run", tokens: 60 },
  { of: "end_user", tokens: CALL_TOKENS },
);
const starts = fc
  .tuple(fc.array(kind, { minLength: 1, maxLength: 4 }), budget)
  .map(([kinds, limit]) => start(kinds, limit));
const works = lossOrNone.map(workOn);
const decides = fc
  .tuple(fc.nat(3), fc.nat(3), decision, fc.constantFrom(1, 1, 3))
  .map(([run, call, what, deciders]) => decide(run, call, what, deciders));
const waits = fc.constantFrom(1, 1, 13, 25).map(passTime);
/** The frequent ones stand here several times. */
const COMMANDS = [
  starts,
  starts,
  works,
  works,
  works,
  works,
  decides,
  decides,
  decides,
  decides,
  waits,
  fc.nat(3).map(cancel),
  fc.nat(3).map(raise),
];

/** How often each status of a run and each decision was reached. */
const reached = new Map<string, number>();

const RUNS = Number(process.env.PROPERTY_RUNS ?? 40);
const SEED = Number(process.env.PROPERTY_SEED ?? Date.now() % 2 ** 31);

test(`each call of random runs is made as a person approved it, at most once, and no run spends more tokens than were approved, with lost workers and cancels (seed ${SEED})`, {
  timeout: 300_000,
}, async () => {
  const property = fc.asyncProperty(fc.commands(COMMANDS, { maxCommands: 60, size: "max" }), async (commands) => {
    queue.now = START;
    queue.agent = { user_id: newId(), agent_id: newId() };
    await queue.db.query({ text: "truncate run, run_action, run_step, runs_at_work, runs_at_work_change" });
    effects = new Map();
    answers = new Map();
    const model: Model = { runs: [], now_ms: Date.parse(START) };
    await fc.asyncModelRun(() => ({ model, real: {} }), commands);
    for (const { status, calls, budget_decisions } of model.runs) {
      const of_budgets = budget_decisions.map((decision) => `budget ${decision}`);
      for (const each of [status, ...calls.map(({ decision }) => decision), ...of_budgets])
        reached.set(each, (reached.get(each) ?? 0) + 1);
    }
  });
  await fc.assert(property, { seed: SEED, numRuns: RUNS });
  console.info(`at their ends: ${[...reached].map(([what, count]) => `${count} × ${what}`).join(", ")}`);
  const of_calls = ["approved", "edited", "rejected", "expired"];
  const all = [
    "succeeded",
    "failed",
    "cancelled",
    "requires_action",
    ...of_calls,
    "budget approved",
    "budget rejected",
  ];
  expect(all.filter((each) => !reached.has(each))).toEqual([]);
});
