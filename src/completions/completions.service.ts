import type { Routing } from "../contract/completions.ts";
import { errors, PurserError } from "../errors.ts";
import type { Ledger } from "../ledger/ledger.types.ts";
import type { Models } from "../models/models.service.ts";
import type { Model } from "../models/models.types.ts";
import { isProviderFailure } from "../models/provider-errors.ts";
import { monotonicMs } from "../platform/clock.ts";
import { createCompletionStream } from "./completion-stream.ts";
import type {
  CompletionCall,
  CompletionResult,
  CompletionStream,
  Completions,
  ResolveAgent,
} from "./completions.types.ts";
import { createLivingCalls } from "./living-calls.ts";
import { priceVersion } from "./price-list.ts";
import { chargeOf, type Reservation, release, reserve, settle } from "./reservation.ts";

/** A call may take as long, fallbacks included. */
const CALL_MS = 600_000;
/** Models tried for one call of `auto`. */
const MAX_ATTEMPTS = 4;
/** Users known to be past their trial; a trial never comes back, so this needs no expiry. */
const MAX_REMEMBERED_USERS = 100_000;
const AGENT_PREFIX = "agent/";
/** Refusals that a cheaper model may get past. */
const TOO_DEAR = new Set(["insufficient_balance", "budget_exceeded"]);

/** The models that may serve a call, in order; more than one only for `auto`. */
interface Choice {
  candidates: readonly Model[];
  /** Null when the caller named the model. */
  reason: string | null;
}

type Attempt<T> = (reservation: Reservation, options: { signal: AbortSignal; deadline_ms: number }) => Promise<T>;

/** Model calls with their charge: hold the worst case, call the provider, settle the real usage. */
export function createCompletions(options: {
  models: Models;
  ledger: Ledger;
  resolveAgent?: ResolveAgent;
}): Completions {
  const { models, resolveAgent } = options;
  const { ledger, watch, idle } = createLivingCalls(options.ledger);
  const price_version = priceVersion(models.list());
  const past_trial = new Set<string>();

  async function isTrial(user_id: string): Promise<boolean> {
    if (past_trial.has(user_id)) return false;
    const { is_trial } = await ledger.standing(user_id);
    if (!is_trial) {
      if (past_trial.size >= MAX_REMEMBERED_USERS) past_trial.clear();
      past_trial.add(user_id);
    }
    return is_trial;
  }

  async function choose({ request, caller, sticky_model_id }: CompletionCall): Promise<Choice> {
    if (request.model === "auto") {
      const is_trial = await isTrial(caller.user_id);
      const { candidates, reason } = models.route({ request, is_trial, sticky_model_id: sticky_model_id ?? null });
      if (candidates.length === 0) {
        throw errors.invalidValue("model", "No model on offer can serve this request. Shorten it, or name a model.");
      }
      return { candidates: candidates.slice(0, MAX_ATTEMPTS), reason };
    }
    const model = models.find(request.model);
    if (model === null) throw errors.modelNotFound(request.model);
    if (!model.trial_eligible && (await isTrial(caller.user_id))) throw errors.modelNotTrialEligible(model.id);
    return { candidates: [model], reason: null };
  }

  /** Reserves and attempts each candidate in turn until one answers; a failed attempt costs nothing. */
  async function withFallbacks<T>(call: CompletionCall, choice: Choice, attempt: Attempt<T>) {
    const provider_options = { signal: call.signal, deadline_ms: monotonicMs() + CALL_MS };
    const fallbacks: Routing["fallbacks"] = [];
    for (const [index, model] of choice.candidates.entries()) {
      try {
        const reservation = await reserve({ models, ledger, price_version }, call, model);
        const value = await attempt(reservation, provider_options).catch(async (error: unknown) => {
          await release(ledger, call);
          throw error;
        });
        return { value, reservation, routing: routingOf(choice, model, fallbacks) };
      } catch (error) {
        if (index === choice.candidates.length - 1 || !mayFallBack(error)) throw error;
        fallbacks.push({ model: model.id, reason: error.code });
      }
    }
    throw new Error("a choice without candidates");
  }

  async function complete(call: CompletionCall): Promise<CompletionResult> {
    const agent = await agentFor(call);
    if (agent !== null) return agent.complete(call);
    const plain = { ...call, request: { ...call.request, stream: false } };
    const attempt = await withFallbacks(plain, await choose(plain), (reservation, provider_options) =>
      models.provider(reservation.model).complete(reservation.request, provider_options),
    );
    const { reservation, routing } = attempt;
    const { response, counts } = attempt.value;
    const outcome = await settle(ledger, call, { reservation, counts, routing, response });
    return { ...outcome, response: Object.assign(response, { usage: outcome.usage }, routing && { routing }) };
  }

  async function stream(call: CompletionCall): Promise<CompletionStream> {
    const agent = await agentFor(call);
    if (agent !== null) return agent.stream(call);
    const streamed = { ...call, request: { ...call.request, stream: true } };
    const attempt = await withFallbacks(streamed, await choose(streamed), async (reservation, provider_options) => {
      const opened = await models.provider(reservation.model).stream(reservation.request, provider_options);
      return { stream: opened, first: await opened.blocks.next(), deadline_ms: provider_options.deadline_ms };
    });
    const { value, reservation, routing } = attempt;
    // With a rider, nothing is charged but what the rider records: what is not recorded is done again.
    if (call.rider === undefined) {
      watch(call.hold_id, () => {
        const counts = value.stream.counts();
        return counts.output_tokens === 0 ? null : chargeOf(call, reservation, counts);
      });
    }
    return createCompletionStream(ledger, call, { ...value, reservation, routing });
  }

  async function agentFor({ request, caller }: CompletionCall) {
    if (!request.model.startsWith(AGENT_PREFIX)) return null;
    const agent = await resolveAgent?.(request.model.slice(AGENT_PREFIX.length), caller);
    if (agent == null) throw errors.modelNotFound(request.model);
    return agent;
  }

  return { complete, stream, idle };
}

/** Another model may answer where this one's provider failed, or where this one is too dear for the balance. */
function mayFallBack(error: unknown): error is PurserError {
  return isProviderFailure(error) || (error instanceof PurserError && TOO_DEAR.has(error.code));
}

function routingOf(
  { candidates, reason }: Choice,
  chosen: Model,
  fallbacks: Routing["fallbacks"],
): Routing | undefined {
  if (reason === null) return undefined;
  return { candidates: candidates.map((model) => model.id), chosen: chosen.id, reason, fallbacks };
}
