import type { ChatResponse, Routing } from "../contract/completions.ts";
import type { Payer } from "../contract/key-terms.ts";
import { errors, type Means, type MeansOf, type PaymentCode, type PurserError } from "../errors.ts";
import type { Charge, ChargingLedger } from "../ledger/ledger.types.ts";
import type { Models } from "../models/models.service.ts";
import type { Counts, Model, ProviderRequest } from "../models/models.types.ts";
import {
  affordableOutputTokens,
  costTokens,
  dearestRates,
  type InputBound,
  ratesFor,
  worstCaseTokens,
} from "../models/pricing.ts";
import { dropsReasoning } from "../models/reasoning.ts";
import { forwardedRequest } from "../models/request-fields.ts";
import { billedText, estimateCounts, estimateTokens, isTextOver } from "../models/token-count.ts";
import { chargedRates } from "./charged-rates.ts";
import type { CompletionCall, CompletionOutcome } from "./completions.types.ts";
import { usageOf } from "./usage.ts";

/** A shorter answer is useless. If the request sets no max_tokens, a call that cannot pay for this much is rejected. */
const LEAST_OUTPUT_TOKENS = 64;
/** The least room for an answer, also if the prompt is estimated to fill the context window. */
const LEAST_ROOM_TOKENS = 1_024;
/** The `param` of the error when an agent's monthly cap rejects a call. */
export const MONTHLY_CAP = "limits.max_cost_tokens_per_month";

/** A call with a hold, ready to send. */
export interface Reservation {
  model: Model;
  request: ProviderRequest;
  /** The request had reasoning of another model, which is not sent. */
  drops_reasoning: boolean;
}

/**
 * Holds the worst-case cost of `call` on `model`: its input and output at the dearest rates that it can reach. The
 * request that is sent costs more only if the provider counts more input than the bound, or if the hold has expired
 * (ledger/README.md, "How a cost is paid"). Throws the 402, the 409 for a budget, and the 400 for fields that `model`
 * does not accept.
 */
export async function reserve(
  { models, ledger, meansOf }: { models: Models; ledger: ChargingLedger; meansOf: MeansOf },
  call: CompletionCall,
  model: Model,
): Promise<Reservation> {
  const asked = call.request.max_completion_tokens ?? call.request.max_tokens ?? null;
  const request = forwardedRequest(call.request, model);
  if (isTextOver(call.request, model.context_window)) throw errors.contextLengthExceeded(model.context_window);
  const first = await models.provider(model).prepare({
    model,
    request,
    max_output_tokens: Math.min(asked ?? model.max_output_tokens, model.max_output_tokens),
    stream: call.request.stream === true,
    ...(call.provider_headers === undefined ? {} : { headers: call.provider_headers }),
    ...(call.native === undefined ? {} : { native: call.native }),
  });
  refuseTooLong(first);
  const input: InputBound = first;
  // Each choice is generated up to the cap, and all of them are billed.
  const choices = request.n ?? 1;
  if (!isCount(choices) || !isCount(first.max_output_tokens))
    throw new Error("a call without a whole number of tokens");
  if (choices > 1 && model.rehearsal) throw errors.unsupportedParameter("n");
  const worstOf = (output_tokens: number) =>
    worstCaseTokens(model, { ...input, max_output_tokens: output_tokens * choices });
  const cap = asked === null ? roomFor(model, first.likely_tokens) : first.max_output_tokens;
  const worst = worstOf(cap);
  const amount_tokens = Math.min(worst, call.max_cost_tokens ?? worst);
  const least = asked === null ? Math.min(cap, LEAST_OUTPUT_TOKENS) : cap;
  const minimum_tokens = worstOf(least);
  if (minimum_tokens > amount_tokens) throw errors.runBudgetExceeded();
  const { hold_id, request_id, agent_id, run_id } = call;
  const hold = await ledger.hold({
    hold_id,
    request_id,
    ...budgetOf(call.caller),
    agent_id,
    run_id,
    agent_budget: call.agent_budget ?? null,
    amount_tokens,
    minimum_tokens,
    estimate: {
      model: model.id,
      input_tokens: first.input_tokens + (first.resends_output === true ? cap : 0),
      max_output_tokens: cap * choices,
      ...{ ...dearestRates(model, input), price_version: model.price_version },
    },
    ...(call.intent === undefined ? {} : { hook: call.intent.hook }),
  });
  call.intent?.onWritten();
  if (hold.status === "refused") {
    const { code } = hold;
    if (code === "agent_budget_exceeded") throw errors.monthlyBudgetExceeded(MONTHLY_CAP);
    const means = await meansOf(call.caller.user_id);
    throw paymentError({ ...hold, code, means }, { model, input, cap, choices, amount_tokens });
  }
  const affordable = affordableOutputTokens(model, { ...input, amount_tokens: hold.held_tokens });
  return {
    model,
    request: { ...first, max_output_tokens: Math.min(cap, Math.floor(affordable / choices)) },
    drops_reasoning: dropsReasoning(call.request, model),
  };
}

/** An answer to a reservation. */
export interface Answered {
  reservation: Reservation;
  counts: Counts;
  routing: Routing | undefined;
  response: ChatResponse | null;
  /** False for a stream that ended early. */
  complete: boolean;
}

/** Charges a reservation for the tokens that were used. */
export async function settle(
  ledger: ChargingLedger,
  call: CompletionCall,
  { reservation, counts, routing, response, complete }: Answered,
): Promise<CompletionOutcome> {
  const { model } = reservation;
  const usage = usageOf(model, counts);
  const answer = {
    model_id: model.id,
    ...(model.route === null ? {} : { route: model.route }),
    provider: model.owned_by,
    usage,
    complete,
    ...(routing === undefined ? {} : { routing }),
    ...(reservation.drops_reasoning ? { reasoning_dropped: true as const } : {}),
  };
  const settled = await ledger.settle({
    ...chargeOf(call, reservation, counts),
    ...(call.hook === undefined ? {} : { hook: call.hook({ ...answer, response }) }),
  });
  const hook = settled.status === "settled" ? settled.hook : undefined;
  return { ...answer, settlement: settled.status, ...(hook === undefined ? {} : { hook }) };
}

/**
 * Charges the input of a call whose caller hung up after it was sent and before any output. The provider bills the
 * prompt too, but no longer reports its size.
 */
export function settleInput(
  ledger: ChargingLedger,
  call: CompletionCall,
  { reservation, routing }: Pick<Answered, "reservation" | "routing">,
): Promise<CompletionOutcome> {
  const counts = estimateCounts(reservation.request, "");
  return settle(ledger, call, { reservation, counts, routing, response: null, complete: false });
}

/** The charge of a call with these counts. */
export function chargeOf(
  call: Pick<CompletionCall, "hold_id" | "request_id" | "caller" | "agent_id" | "run_id">,
  { model }: Pick<Reservation, "model">,
  counts: Counts,
): Charge {
  const { hold_id, request_id, agent_id, run_id } = call;
  return {
    hold_id,
    request_id,
    ...budgetOf(call.caller),
    agent_id,
    run_id,
    model: model.id,
    input_tokens: counts.input_tokens,
    cached_input_tokens: counts.cached_input_tokens,
    cache_write_tokens: counts.cache_write_tokens,
    cache_write_1h_tokens: counts.cache_write_1h_tokens,
    output_tokens: counts.output_tokens,
    cost_tokens: costTokens(model, counts),
    upstream_cost_micro_usd: model.upstream === null ? null : costTokens(model.upstream, counts),
    ...(counts.estimated ? { is_estimated: true } : {}),
    ...chargedRates(ratesFor(model, counts), model.price_version),
  };
}

/** The fields by which the ledger counts a call against the budgets of its key and its end user. */
export function budgetOf({ user_id, api_key_id, key_budget_tokens, key_budget_interval = null, labels }: Payer) {
  return { user_id, api_key_id, key_budget_tokens, key_budget_interval, ...(labels == null ? {} : { labels }) };
}

/**
 * Releases a reservation without a charge. It ignores errors, which must not hide the earlier one: the hold expires.
 */
export async function release(
  ledger: ChargingLedger,
  { caller, hold_id }: Pick<CompletionCall, "caller" | "hold_id">,
): Promise<void> {
  await ledger.release({ user_id: caller.user_id, hold_id }).catch(() => {});
}

/** Rejects a request that is far too long before its hold. The provider decides about a borderline request. */
function refuseTooLong({ model, request, input_tokens, media_tokens }: ProviderRequest): void {
  // The hold's estimate is the higher one, so most requests need no second estimate.
  if (input_tokens <= model.context_window) return;
  if (estimateTokens(billedText(request)) + media_tokens > model.context_window) {
    throw errors.contextLengthExceeded(model.context_window);
  }
}

/** The output cap if the request sets none: the model's own cap, or the rest of its window after the prompt. */
function roomFor({ context_window, max_output_tokens }: Model, likely_tokens: number): number {
  return Math.min(max_output_tokens, Math.max(context_window - likely_tokens, LEAST_ROOM_TOKENS));
}

function paymentError(
  { code, available, held, means }: { code: PaymentCode; available: number; held: number; means: Means },
  {
    model,
    input,
    cap,
    choices,
    amount_tokens,
  }: {
    model: Model;
    input: InputBound;
    cap: number;
    choices: number;
    amount_tokens: number;
  },
): PurserError {
  const affordable = affordableOutputTokens(model, { ...input, amount_tokens: available });
  const figures = {
    required: amount_tokens,
    available,
    held,
    shortfall: Math.max(0, amount_tokens - available),
    max_affordable_output_tokens: Math.min(cap, Math.floor(affordable / choices)),
  };
  return errors.payment(code, figures, means);
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1;
}
