import { setMaxListeners } from "node:events";
import type { MeansOf } from "../../account/ledger/errors.ts";
import type { ChargingLedger, Ledger } from "../../account/ledger/ledger.types.ts";
import type { ChatRequest, Routing } from "../../api/contract/completions.ts";
import { allows } from "../../api/contract/key-terms.ts";
import { gatewayErrors } from "../../gateway/models/errors.ts";
import { errors, PurserError } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import type { Models } from "../models/models.service.ts";
import type { Counts, Model } from "../models/models.types.ts";
import { isProviderFailure } from "../models/provider-errors.ts";
import { mayReason, routeOfReasoning } from "../models/reasoning.ts";
import { estimateTokens, promptText } from "../models/token-count.ts";
import { type AttemptDeps, attemptModel, type Send } from "./attempt.ts";
import { CALL_MS, chargeOf, settle, settleHangUp } from "./charge.ts";
import { createCompletionStream, endedStream } from "./completion-stream.ts";
import type {
  CompletionCall,
  CompletionResult,
  CompletionStream,
  Completions,
  ResolveAgent,
} from "./completions.types.ts";
import { agentIdOf } from "./completions.types.ts";
import { createEmbeddings } from "./embeddings.ts";
import { createHoldKeepAlive } from "./hold-keep-alive.ts";

/** The most providers that are called for one call of `auto`. */
const MAX_ATTEMPTS = 4;
/** Limit of the cache of users past their trial. A trial never returns, so entries need no expiry. */
const MAX_REMEMBERED_USERS = 100_000;
const AUTO_WITH_FALLBACKS = "models names fallbacks of a named model; auto chooses its own. Leave models out.";
const NO_VISION =
  "takes no pictures, but your tool computer answers with screenshots. Name a model with supports.vision (GET /api/v1/models).";
/** Errors that a cheaper model, or one that accepts other fields, may avoid. */
const PASSED_OVER = new Set([
  "insufficient_balance",
  "budget_exceeded",
  "key_budget_exceeded",
  "end_user_budget_exceeded",
  "overage_cap_reached",
  "unsupported_parameter",
]);

/** The models that may serve a call, in order; more than one only for `auto` and with `models`. */
interface Choice {
  candidates: readonly Model[];
  /** Null when the caller named the model. */
  reason: string | null;
}

/** Model calls with their charge: hold the worst case, call the provider, settle the real usage. */
export function createCompletions(options: {
  models: Models;
  ledger: ChargingLedger & Pick<Ledger, "progress" | "beginStop" | "accountStatus">;
  meansOf: MeansOf;
  /** Checks a call before it begins, and returns its caller with the models that are allowed. Throws 429. */
  admit?(caller: CompletionCall["caller"]): Promise<CompletionCall["caller"]>;
  /** With `auto`, the timeout for an answer (a stream: for its first event) before the next model is tried. */
  fallbackAfterSeconds(): number;
  resolveAgent?: ResolveAgent;
  onAttempt?: AttemptDeps["onAttempt"];
  onDisbelieved?: AttemptDeps["onDisbelieved"];
  /** Called once for a stream whose cost so far cannot be computed. */
  onUncounted?(hold_id: string, error: unknown): void;
}): Completions {
  const { models, meansOf, resolveAgent, admit = async (caller) => caller } = options;
  const { onAttempt = () => {}, onDisbelieved = () => {} } = options;
  const { charges, watch, idle: allCharged } = createHoldKeepAlive(options.ledger, options.onUncounted);
  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal); // one for each call that is read on
  const left = createLeftCalls();
  /** Models whose providers have reported reasoning. */
  const reasoners = new Set<string>();
  const attempt_deps: AttemptDeps = {
    models,
    ledger: charges,
    meansOf,
    onAttempt,
    onDisbelieved,
    mayReason: ({ request, model }) => mayReason(request, model) || reasoners.has(model.id),
    stopping: stopping.signal,
  };
  const noteCounts = (model: Model, { reasoning_tokens }: Counts) => {
    if (reasoning_tokens > 0) reasoners.add(model.id);
  };
  const past_trial = new Set<string>();

  async function isTrial(user_id: string): Promise<boolean> {
    if (past_trial.has(user_id)) return false;
    const { is_trial } = await options.ledger.accountStatus(user_id);
    if (!is_trial) {
      if (past_trial.size >= MAX_REMEMBERED_USERS) past_trial.clear();
      past_trial.add(user_id);
    }
    return is_trial;
  }

  /** Throws 429, 403 for a model that is not allowed or not part of the trial, 404, and 400 without a suitable model. */
  async function choose(call: CompletionCall): Promise<Choice> {
    const caller = await admit(call.caller);
    return call.request.model === "auto" ? chooseAuto(call, caller) : chooseNamed(call, caller);
  }

  async function chooseAuto(
    { request, sticky_model_id = null, needs_vision = false }: CompletionCall,
    { user_id, allowed_models }: CompletionCall["caller"],
  ): Promise<Choice> {
    if (request.models != null) throw errors.invalidValue("models", AUTO_WITH_FALLBACKS);
    const is_trial = await isTrial(user_id);
    const wanted = {
      request,
      sticky_model_id,
      needs_vision,
      isAllowed: (model: Model) => allows(allowed_models, model),
    };
    const { candidates, reason } = models.route({ ...wanted, is_trial });
    if (candidates.length > 0) return { candidates, reason };
    if (is_trial && models.route({ ...wanted, is_trial: false }).candidates.length > 0) {
      throw gatewayErrors.modelNotTrialEligible("Every model that can serve this request");
    }
    const unlimited = models.route({ ...wanted, is_trial, isAllowed: () => true });
    if (unlimited.candidates.length > 0) throw gatewayErrors.modelNotAllowed("Every model that can serve this request");
    throw errors.invalidValue("model", "No model on offer can serve this request. Shorten it, or name a model.");
  }

  /** The model that the request names, and its fallbacks. */
  async function chooseNamed(
    { request, needs_vision }: CompletionCall,
    caller: CompletionCall["caller"],
  ): Promise<Choice> {
    const { user_id, allowed_models } = caller;
    const fallbacks = request.models ?? [];
    const named = namedModels(models, request.model, fallbacks);
    for (const [at, model] of named.entries()) {
      if (!allows(allowed_models, model)) throw gatewayErrors.modelNotAllowed(model.id, nameField(at));
    }
    for (const [at, { id, trial_eligible }] of named.entries()) {
      if (!trial_eligible && (await isTrial(user_id))) throw gatewayErrors.modelNotTrialEligible(id, nameField(at));
    }
    const blind = needs_vision === true ? named.findIndex(({ supports }) => !supports.vision) : -1;
    if (blind >= 0) throw errors.invalidValue(nameField(blind), `${named[blind]?.id} ${NO_VISION}`);
    if (fallbacks.length === 0) return { candidates: named, reason: null };
    const isResting = (model: Model) => Number(models.isResting(model));
    const candidates = [...new Set(named)].toSorted((a, b) => isResting(a) - isResting(b));
    return { candidates, reason: "named in models; a model whose provider failed recently goes last" };
  }

  /**
   * Attempts each candidate by each of its routes until one answers; a failed attempt costs nothing. Models that exceed
   * the balance or the budget are skipped. The hold of an attempt that did not fail is still to be settled.
   */
  async function withFallbacks<T>(call: CompletionCall, choice: Choice, send: Send<T>) {
    const deadline_ms = monotonicMs() + CALL_MS;
    const fallbacks: Routing["fallbacks"] = [];
    const failures: unknown[] = [];
    let attempts = 0;
    const tries = choice.candidates.flatMap((model) => byRoute(call, model));
    for (const [index, model] of tries.entries()) {
      const next = attempts === MAX_ATTEMPTS - 1 ? undefined : tries[index + 1];
      // Another route generates a whole answer no faster, so only a stream without events is a failure.
      const may_wait = next === undefined || (next.id === model.id && call.request.stream !== true);
      const wait_ms = may_wait ? null : options.fallbackAfterSeconds() * 1_000;
      const attempted = await attemptModel(attempt_deps, { call, model }, { deadline_ms, wait_ms }, send);
      if (attempted.kind !== "failed") return { ...attempted, routing: getRouting(choice, model, fallbacks) };
      const { thrown } = attempted;
      if (attempted.was_held) attempts += 1;
      failures.push(thrown);
      if (next === undefined || !mayFallBack(thrown)) break;
      const route = model.route === null ? {} : { route: model.route };
      fallbacks.push({ model: model.id, reason: thrown.code, ...route });
    }
    throw computeWorst(failures);
  }

  /**
   * The routes to a model. Calls of one agent, or of one user and `prompt_cache_key`, begin with the same route, whose
   * provider has their prefix in its cache. A request goes to the route that made its latest reasoning.
   */
  function byRoute({ request, caller, agent_id }: CompletionCall, model: Model): readonly Model[] {
    if (model.routes.length === 0) return [model];
    const { prompt_cache_key: named } = request;
    const key = JSON.stringify([caller.user_id, typeof named === "string" ? named : agent_id]);
    return models.byRoute(model, { key, kept: routeOfReasoning(request, model.id) });
  }

  async function complete(call: CompletionCall): Promise<CompletionResult> {
    const agent = await agentFor(call);
    if (agent !== null) return agent.complete(call);
    const whole = { ...call, request: { ...call.request, stream: false } };
    const attempt = await withFallbacks(withoutNames(whole), await choose(whole), (reservation, provider_options) =>
      models.provider(reservation.model).complete(reservation.request, provider_options),
    );
    if (attempt.kind === "hung_up") {
      await settleHangUp(charges, call, attempt);
      throw attempt.thrown;
    }
    const { reservation, routing } = attempt;
    const { response, counts } = attempt.value;
    noteCounts(reservation.model, counts);
    const outcome = await settle(charges, call, { reservation, counts, routing, response, complete: true });
    return { ...outcome, response: Object.assign(response, { usage: outcome.usage }, routing && { routing }) };
  }

  async function stream(call: CompletionCall): Promise<CompletionStream> {
    const agent = await agentFor(call);
    if (agent !== null) return agent.stream(call);
    const streamed = { ...call, request: { ...call.request, stream: true } };
    const choice = await choose(streamed);
    const attempt = await withFallbacks(withoutNames(streamed), choice, async (reservation, provider_options) => {
      const opened = await models.provider(reservation.model).stream(reservation.request, provider_options);
      return { stream: opened, first: await opened.parts.next(), deadline_ms: provider_options.deadline_ms };
    });
    if (attempt.kind === "hung_up") return endedStream(await settleHangUp(charges, call, attempt));
    const { value, reservation, routing, thoughts } = attempt;
    // With a hook, only its transaction may charge. An unrecorded call is repeated.
    if (call.hook === undefined) {
      watch(call.hold_id, () => {
        const counts = value.stream.counts();
        return counts.output_tokens === 0 ? null : chargeOf(call, reservation, counts);
      });
    }
    const open = {
      ...value,
      reservation,
      routing,
      thoughts,
      noteCounts,
      stopping: stopping.signal,
      onLeaving: left.add,
    };
    return createCompletionStream(charges, call, open);
  }

  async function agentFor({ request, caller }: CompletionCall) {
    const agent_id = agentIdOf(request.model);
    if (agent_id === null) return null;
    const agent = await resolveAgent?.(agent_id, caller);
    if (agent == null) throw gatewayErrors.modelNotFound(request.model);
    return agent;
  }

  async function estimate(
    request: ChatRequest,
    { allowed_models }: Pick<CompletionCall["caller"], "allowed_models">,
  ): Promise<number> {
    const { model } = request;
    const named = model === "auto" || agentIdOf(model) !== null ? null : chatModel(models, model);
    if (named !== null && !allows(allowed_models, named)) throw gatewayErrors.modelNotAllowed(named.id);
    return estimateTokens(promptText(request));
  }

  const embed = createEmbeddings({ models, ledger: charges, meansOf, isTrial, admit, onAttempt, onDisbelieved });
  const beginStop = () => stopping.abort();
  return {
    complete: (call) => left.follow(call.signal, complete(call)),
    stream: (call) => left.follow(call.signal, stream(call)),
    embed,
    estimate,
    beginStop,
    async idle() {
      beginStop();
      await left.all();
      await allCharged();
    },
  };
}

/** Calls whose caller has left, until they are charged. */
function createLeftCalls() {
  const left = new Set<Promise<unknown>>();
  const add = (charged: Promise<unknown>): void => {
    const forget = () => void left.delete(charged);
    left.add(charged);
    charged.then(forget, forget);
  };
  return {
    add,
    /** Adds a call when its caller leaves. */
    follow<T>(signal: AbortSignal, call: Promise<T>): Promise<T> {
      const leave = () => add(call);
      const forget = () => signal.removeEventListener("abort", leave);
      if (signal.aborted) leave();
      else signal.addEventListener("abort", leave, { once: true });
      call.then(forget, forget);
      return call;
    },
    all: () => Promise.allSettled(left),
  };
}

/** The model of a request and its fallbacks. Throws 404 and 400 as `chatModel`. */
function namedModels(models: Models, model: string, fallbacks: readonly string[]): Model[] {
  return [model, ...fallbacks].map((id, at) => chatModel(models, id, nameField(at)));
}

/** The field of the request that has the model at this place of `namedModels`. */
function nameField(at: number): string {
  return at === 0 ? "model" : `models[${at - 1}]`;
}

/** The chat model of this name. Throws 404 for an unknown one, and 400 for an embedding model. */
function chatModel(models: Models, id: string, param = "model"): Model {
  const model = models.find(id);
  if (model !== null) return model;
  if (models.findEmbedding(id) === null) throw gatewayErrors.modelNotFound(id, models.nearest(id), param);
  throw errors.invalidValue(
    param,
    `${id} only creates embeddings. Use it with POST /api/v1/embeddings, or name a model of kind chat (GET /api/v1/models).`,
  );
}

/** The service itself reads `models`, the names of fallbacks. */
function withoutNames(call: CompletionCall): CompletionCall {
  if (call.request.models === undefined) return call;
  const { models: _, ...request } = call.request;
  return { ...call, request };
}

/** Another model may answer if this one's provider failed, or if this one is too expensive or accepts other fields. */
function mayFallBack(error: unknown): error is PurserError {
  return isProviderFailure(error) || (error instanceof PurserError && PASSED_OVER.has(error.code));
}

/** The error to throw when no model is left. A provider's failure says more than an error about price or fields. */
function computeWorst(failures: readonly unknown[]): unknown {
  const last = failures.at(-1);
  return mayFallBack(last) ? (failures.findLast(isProviderFailure) ?? last) : last;
}

/** Absent for a model that was named and answered by its first route. */
function getRouting(
  { candidates, reason }: Choice,
  chosen: Model,
  fallbacks: Routing["fallbacks"],
): Routing | undefined {
  if (reason === null && fallbacks.length === 0) return undefined;
  const ids = candidates.map((model) => model.id);
  return {
    candidates: ids,
    chosen: chosen.id,
    reason: reason ?? "the named model, by another of its routes",
    fallbacks,
  };
}
