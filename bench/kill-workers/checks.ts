import { isDeepStrictEqual } from "node:util";
import { Webhook } from "standardwebhooks";
import type { RunDetail } from "../../src/api/contract/runs.ts";
import { costOf } from "../crash/upstream.ts";
import { rejectionReason, type SentDecision } from "./decide.ts";
import type { Asked } from "./load.ts";
import type { Loss } from "./nodes.ts";
import type { Occurrence, Told } from "./read.ts";
import { answerOf, CRM_TOOL, type ModelCall } from "./scripted-model.ts";
import type { CrmCall, Delivery } from "./site.ts";

/** The steps of a run of the script. */
const STEPS = ["model", "web_fetch", "model", "acts", "model"];
const MODEL_STEPS = STEPS.flatMap((name, index) => (name === "model" ? [index] : []));
/** The step of its webhook or of its contact. */
const ACTING_STEP = STEPS.indexOf("acts");
/** The longest time from a node's action to the kill that kept it from recording the action, on a busy machine. */
const SLACK_MS = 5_000;

/** The requests, the calls that the outside saw, and the service's records. */
export interface Evidence {
  asked: Asked;
  calls: readonly ModelCall[];
  deliveries: readonly Delivery[];
  results: readonly Delivery[];
  crm_calls: readonly CrmCall[];
  losses: readonly Loss[];
  told: readonly Told[];
}

/** All contradictions between them. */
export function violations(evidence: Evidence): string[] {
  return [
    ...evidence.asked.surprises,
    ...evidence.told.flatMap((told) => lostProblems(evidence, told)),
    ...evidence.told.flatMap((told) =>
      occurrenceProblems(evidence.asked.due.get(told.agent.schedule_id ?? "") ?? new Set(), told),
    ),
    ...evidence.told.flatMap((told) => told.runs.flatMap((run) => runProblems(run, told))),
    ...evidence.told.flatMap((told) => told.runs.flatMap((run) => decisionProblems(evidence, run, told))),
    ...callProblems(evidence),
    ...deliveryProblems(evidence),
    ...crmProblems(evidence),
    ...resultProblems(evidence),
  ];
}

/** Every accepted run exists, a run whose answer was interrupted may exist, and no run was executed twice. */
function lostProblems({ asked }: Evidence, { agent, runs }: Told): string[] {
  if (agent.kind === "routine") return [];
  const ids = runs.map(({ id }) => id);
  const accepted = asked.accepted.get(agent.id);
  if (accepted !== undefined) {
    return isDeepStrictEqual(ids, [accepted]) ? [] : [`${agent.label} was accepted as ${accepted} and has ${ids}`];
  }
  const most = asked.unanswered.has(agent.id) ? 1 : 0;
  return runs.length <= most ? [] : [`${agent.label} has ${runs.length} runs that nobody was told of`];
}

/** Exactly one occurrence per due instant, and exactly one run per occurrence with state `run`. */
function occurrenceProblems(due: ReadonlySet<string>, { agent, runs, occurrences }: Told): string[] {
  if (agent.kind === "errand") return [];
  const runsOf = (list: { at: string; id: string }[]) => list.map(({ at, id }) => `${at} ${id}`);
  const promised = runsOf(occurrences.flatMap(({ at, run_id: id }: Occurrence) => (id === null ? [] : [{ at, id }])));
  const there = runsOf(runs.map(({ id, scheduled_for }) => ({ at: scheduled_for ?? "by hand", id })));
  const instants = occurrences.map(({ at }) => at);
  return [
    ...missing([...due], instants).map((at) => `${agent.label} was due at ${at}, and there is no occurrence`),
    ...missing(instants, [...due]).map((at) => `${agent.label} has an occurrence at ${at} that was not due`),
    ...missing(promised, there).map((run) => `${agent.label} has an occurrence whose run is not there: ${run}`),
    ...missing(there, promised).map((run) => `${agent.label} has a run without its occurrence: ${run}`),
  ];
}

/** The elements that `list` has more often than `others`. */
function missing(list: readonly string[], others: readonly string[]): string[] {
  const left = [...others];
  return list.filter((each) => {
    const found = left.indexOf(each);
    if (found !== -1) left.splice(found, 1);
    return found === -1;
  });
}

/** The run ended as in its script, and each of its answers was charged once, at its price. */
function runProblems(run: RunDetail, { agent, charges }: Told): string[] {
  const of = `run ${run.id} of ${agent.label}`;
  const wrong: string[] = [];
  if (!isDeepStrictEqual(run.input, agent.input)) wrong.push(`${of} has the input ${JSON.stringify(run.input)}`);
  // After three lost workers without a finished step, the service fails the run.
  const is_given_up = run.error?.code === "worker_lost" && run.attempt >= 3;
  const acting = agent.has_crm ? CRM_TOOL : "send_webhook";
  const names = run.steps.map(({ type, name }) => (type === "model" ? type : name === acting ? "acts" : name));
  if (!is_given_up && !wasCutOff(run, agent)) {
    if (run.status !== "succeeded") wrong.push(`${of} is ${run.status}: ${JSON.stringify(run.error)}`);
    if (!isDeepStrictEqual(names, STEPS)) wrong.push(`${of} has the steps ${names}`);
    for (const { index, status, error } of run.steps) {
      const is_rejected = index === ACTING_STEP && agent.decision === "reject";
      if (status !== (is_rejected ? "failed" : "succeeded")) wrong.push(`${of}: step ${index} ${status}`);
      // A call that was tried and failed for another reason leaves nothing at its destination either.
      if (is_rejected && (error?.code !== "call_rejected" || !error.message.includes(rejectionReason(agent)))) {
        wrong.push(`${of} made the call that was rejected: ${JSON.stringify(error)}`);
      }
    }
  }
  const costs = recordedAnswers(run).map(({ answer }) => costOf(answer));
  const ascending = (list: readonly number[]) => list.toSorted((a, b) => a - b);
  const charged = charges.get(run.id) ?? [];
  if (!isDeepStrictEqual(ascending(charged), ascending(costs))) {
    wrong.push(`${of} recorded answers of ${costs} tokens, and was charged ${charged}`);
  }
  const total = costs.reduce((sum, cost) => sum + cost, 0);
  if (run.usage.cost_tokens !== total) wrong.push(`${of} says ${run.usage.cost_tokens} tokens, not ${total}`);
  return wrong;
}

/**
 * A run has the decisions that were sent and no other, asks about its call exactly if its agent says so, and costs no more
 * than its cap and what each approval added.
 */
function decisionProblems({ asked }: Evidence, run: RunDetail, { agent }: Told): string[] {
  const of = `run ${run.id} of ${agent.label}`;
  const wrong: string[] = [];
  for (const { id, type, decision, decided_by } of run.decisions) {
    const sent = asked.decided.get(id);
    if (sent?.run_id !== run.id || sent.type !== type || OUTCOMES[sent.decision] !== decision || decided_by === null) {
      wrong.push(`${of} has the ${type} ${id} as ${decision}, and what was sent is ${JSON.stringify(sent)}`);
    }
  }
  const found = new Set(run.decisions.map(({ id }) => id));
  for (const [id, { run_id, is_answered }] of asked.decided) {
    if (run_id === run.id && is_answered && !found.has(id)) wrong.push(`${of} has lost the decision on ${id}`);
  }
  const is_given_up = run.error?.code === "worker_lost";
  const approvals = run.decisions.filter(({ type }) => type === "tool_approval").length;
  if (approvals !== (agent.decision === null ? 0 : 1) && !is_given_up) {
    wrong.push(`${of} asked ${approvals} times about its call`);
  }
  const raises = run.decisions.length - approvals;
  if (agent.cap_tokens === null ? raises > 0 : run.usage.cost_tokens > agent.cap_tokens * (1 + raises)) {
    wrong.push(`${of} has the cap ${agent.cap_tokens}, was raised ${raises} times and costs ${run.usage.cost_tokens}`);
  }
  return wrong;
}

const OUTCOMES = { approve: "approved", edit: "edited", reject: "rejected" } as const;

/** A contact whose worker was lost meanwhile is not saved again, because the CRM could have saved it. */
function wasCutOff({ error, attempt }: RunDetail, { has_crm }: Told["agent"]): boolean {
  return has_crm && error?.code === "effect_unknown" && attempt > 1;
}

/** The answers in the run's finished model steps, in order. */
function recordedAnswers(run: RunDetail): { answer: string; index: number }[] {
  return run.steps.flatMap(({ index, type, status, result }) => {
    const answer =
      type === "model" && status === "succeeded" ? answerOf(result as Parameters<typeof answerOf>[0]) : null;
    return answer === null ? [] : [{ answer, index }];
  });
}

/**
 * A model call is finished when its answer is recorded. After its delivery the call must not be repeated. A run
 * continues only from recorded answers, each in its place. An unrecorded answer must be explained by a lost node.
 */
function callProblems({ calls, losses, told }: Evidence): string[] {
  const wrong: string[] = [];
  const by_answer = new Map(calls.map((call) => [call.answer, call]));
  const recorded = new Map<string, { run: RunDetail; last: ModelCall | undefined }>();
  for (const { agent, runs } of told) {
    for (const run of runs) {
      const answers = recordedAnswers(run);
      const last = by_answer.get(answers.at(-1)?.answer ?? "");
      for (const [nth, { answer, index }] of answers.entries()) {
        if (recorded.has(answer)) wrong.push(`${answer} is recorded twice, the second time in run ${run.id}`);
        recorded.set(answer, { run, last });
        const call = by_answer.get(answer);
        const previous = answers[nth - 1]?.answer ?? null;
        if (call?.label !== agent.label || call.previous !== previous || index !== MODEL_STEPS[nth]) {
          wrong.push(
            `${answer} is step ${index} of run ${run.id} of ${agent.label}, and was given to ${JSON.stringify(call)}`,
          );
        }
      }
    }
  }
  for (const call of calls) {
    if (call.previous !== null && !recorded.has(call.previous)) {
      wrong.push(`${call.answer} was asked for after ${call.previous}, which no run has recorded`);
    }
    if (!recorded.has(call.answer) && !isExcused(losses, call.process, call.arrived_ms, call.ended_ms)) {
      wrong.push(`${call.answer} of ${call.label} is recorded nowhere, and ${call.process} was not lost then`);
    }
  }
  for (const [place, made] of Map.groupBy(calls, ({ previous, label }) => previous ?? label)) {
    const is_first = made[0]?.previous === null;
    for (const { answer, arrived_ms } of made) {
      const finished = recorded.get(answer);
      if (finished === undefined) continue;
      // The first call of a routine's next run looks the same and comes after all calls of this one.
      const until_ms = is_first && finished.run.trigger === "schedule" ? finished.last?.arrived_ms : undefined;
      const again = made.find((call) => call.arrived_ms > arrived_ms && call.arrived_ms < (until_ms ?? Infinity));
      if (again !== undefined)
        wrong.push(`the finished call after ${place} (${answer}) was made again as ${again.answer}`);
    }
  }
  return wrong;
}

/**
 * Whether the loss of that process (of any, if null) explains its unfinished action between two moments. A process's
 * last request may be read after its kill, so only the name of a process tells that it sent the request before.
 */
function isExcused(losses: readonly Loss[], process: string | null, from_ms: number, to_ms: number | null): boolean {
  return losses.some((loss) => {
    if (loss.at_ms >= (to_ms ?? from_ms) + SLACK_MS) return false;
    const is_known = process !== null && loss.process !== null;
    return is_known ? loss.process === process : loss.at_ms > from_ms - SLACK_MS;
  });
}

/**
 * Every received webhook belongs to one step, with the step's id, the model's content and a valid signature. One that needs
 * approval came after a person approved it, with the approved arguments, and never after a rejection.
 */
function deliveryProblems({ asked, deliveries, losses, told }: Evidence): string[] {
  const wrong: string[] = [];
  const by_label = Map.groupBy(deliveries, ({ label }) => label);
  for (const { agent, runs, webhook_key } of told) {
    const came = by_label.get(agent.label) ?? [];
    const by_id = Map.groupBy(came, ({ headers }) => headers["webhook-id"] ?? "none");
    for (const run of runs) {
      const id = `msg_${run.id}_${ACTING_STEP}`;
      const mine = by_id.get(id) ?? [];
      by_id.delete(id);
      const step = agent.has_crm ? undefined : run.steps[ACTING_STEP];
      const approval = approvalOf(asked, run);
      if (agent.decision === "reject" && mine.length > 0) wrong.push(`${id} came, although it was rejected`);
      if (agent.decision !== null && mine.some(({ at_ms }) => !(approval !== undefined && approval.sent_ms < at_ms))) {
        wrong.push(`${id} came before it was approved`);
      }
      if (step?.status === "succeeded" && !String(step.result).includes(id))
        wrong.push(`${id} is not shown in its step`);
      if (step?.status === "succeeded" && mine.length === 0) wrong.push(`${id} never came`);
      const answer = recordedAnswers(run)[1]?.answer;
      const payload = agent.decision === "edit" ? { answer, edited: agent.label } : { answer };
      for (const { headers, body } of mine) {
        if (!isDeepStrictEqual(verified(webhook_key, headers, body), payload)) wrong.push(`${id} came as ${body}`);
      }
      for (const [nth, { at_ms }] of mine.entries()) {
        const before = mine[nth - 1];
        if (before !== undefined && !isExcused(losses, null, before.at_ms, at_ms))
          wrong.push(`${id} came twice for no reason`);
      }
    }
    for (const id of by_id.keys()) wrong.push(`the webhook ${id} of ${agent.label} belongs to no run`);
  }
  return wrong;
}

/** A contact is saved at most once, after a person approved it, with the approved arguments, and never after a rejection. */
function crmProblems({ asked, crm_calls, told }: Evidence): string[] {
  const wrong: string[] = [];
  const by_label = Map.groupBy(crm_calls, ({ label }) => label);
  for (const { agent, runs } of told) {
    const calls = by_label.get(agent.label) ?? [];
    by_label.delete(agent.label);
    if (calls.length > 1) wrong.push(`the contact of ${agent.label} was saved ${calls.length} times`);
    if (calls.length > 0 && agent.decision === "reject") wrong.push(`${agent.label} saved a contact that was rejected`);
    for (const run of runs) {
      const answer = recordedAnswers(run)[1]?.answer;
      const approved = agent.decision === "edit" ? { answer, edited: agent.label } : { answer };
      const sent_ms = approvalOf(asked, run)?.sent_ms ?? Infinity;
      for (const call of calls) {
        if (call.at_ms < sent_ms) wrong.push(`${agent.label} saved a contact before it was approved`);
        if (!isDeepStrictEqual(call.arguments, approved)) {
          wrong.push(
            `${agent.label} saved ${JSON.stringify(call.arguments)} where ${JSON.stringify(approved)} was approved`,
          );
        }
      }
      const is_saved = agent.has_crm && run.steps[ACTING_STEP]?.status === "succeeded";
      if (is_saved && calls.length === 0) wrong.push(`${agent.label} says that it saved a contact, and there is none`);
    }
  }
  for (const label of by_label.keys()) wrong.push(`${label} saved a contact and is no agent`);
  return wrong;
}

function approvalOf(asked: Asked, run: RunDetail): SentDecision | undefined {
  return [...asked.decided.values()].find((each) => each.run_id === run.id && each.type === "tool_approval");
}

/** Each run has one delivery, which came at least once with its id and the run's record, and no other result came. */
function resultProblems({ results, told }: Evidence): string[] {
  const wrong: string[] = [];
  const by_id = Map.groupBy(results, ({ headers }) => headers["webhook-id"] ?? "none");
  for (const { agent, runs, webhook_key } of told) {
    for (const { id: run_id, status, output, deliveries } of runs) {
      const of = `the result of run ${run_id} of ${agent.label}`;
      const [delivery] = deliveries;
      if (deliveries.length !== 1 || delivery?.status !== "delivered") {
        wrong.push(`${of} is ${JSON.stringify(deliveries)}`);
        continue;
      }
      const came = by_id.get(delivery.id) ?? [];
      by_id.delete(delivery.id);
      if (came.length === 0) wrong.push(`${of} never came`);
      for (const { label, headers, body } of came) {
        const { type, data } = verified(webhook_key, headers, body) as { type: string; data?: Partial<RunDetail> };
        const is_his = type === "run.finished" && data?.id === run_id && data.status === status;
        if (!is_his || data.output !== output || label !== agent.result_label) wrong.push(`${of} came as ${body}`);
      }
    }
  }
  for (const id of by_id.keys()) wrong.push(`the result ${id} belongs to no run`);
  return wrong;
}

/** The content of a webhook with a valid signature, at any time: a long run checks its first ones minutes later. */
function verified(key: string, headers: Record<string, string>, body: string): unknown {
  const [id = "", seconds, signature] = ["id", "timestamp", "signature"].map((name) => headers[`webhook-${name}`]);
  const is_signed = new Webhook(key).sign(id, new Date(Number(seconds) * 1_000), body) === signature;
  return is_signed ? JSON.parse(body) : new Error(`it is not signed: ${signature}`);
}
