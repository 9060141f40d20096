import type { Charge, ChargedRates, ChargingLedger } from "../../account/ledger/ledger.types.ts";
import type { ChatResponse, Routing, Usage } from "../../api/contract/completions.ts";
import type { Payer } from "../../api/contract/key-terms.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import type { ClassRates, Counts, Rates } from "../models/models.types.ts";
import { costTokens, ratesFor } from "../models/pricing.ts";
import { estimateCounts } from "../models/token-count.ts";
import { type Thoughts, withLikelyThoughts } from "./after-hang-up.ts";
import type { CompletionCall, CompletionOutcome, Reservation } from "./completions.types.ts";

/** The timeout of a call, with all of its requests to providers. */
export const CALL_MS = 600_000;

/** An answer to a reservation. */
export interface Answered {
  reservation: Reservation;
  counts: Counts;
  routing: Routing | undefined;
  response: ChatResponse | null;
  /** False for a stream that ended early. */
  complete: boolean;
  /** The error that ended it. */
  thrown?: unknown;
  /** When a stream's own text began, by `monotonicMs`; null or absent: it has not. */
  spoke_ms?: number | null;
}

/** The part of a call that its hold and its charge share. */
type HeldCall = Pick<CompletionCall, "hold_id" | "request_id" | "caller" | "agent_id" | "run_id" | "timing">;

/** Charges a reservation for the tokens that were used. */
export async function settle(
  ledger: ChargingLedger,
  call: CompletionCall,
  { reservation, counts, routing, response, complete, thrown, spoke_ms = null }: Answered,
): Promise<CompletionOutcome> {
  const { model } = reservation;
  const usage = toUsage(model, counts);
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
    ...chargeOf(call, reservation, counts, spoke_ms),
    ...(call.hook === undefined ? {} : { hook: call.hook({ ...answer, response, thrown }) }),
  });
  const hook = settled.status === "settled" ? settled.hook : undefined;
  return { ...answer, settlement: settled.status, ...(hook === undefined ? {} : { hook }) };
}

/**
 * Charges the input of a call whose caller hung up after it was sent and before any output, and its likely thoughts. The
 * provider bills them too, but no longer reports them.
 */
export function settleHangUp(
  ledger: ChargingLedger,
  call: CompletionCall,
  { reservation, routing, thoughts }: Pick<Answered, "reservation" | "routing"> & { thoughts: Thoughts },
): Promise<CompletionOutcome> {
  const { request } = reservation;
  const counts = withLikelyThoughts(estimateCounts(request, 0), request, { thoughts, now_ms: monotonicMs() });
  return settle(ledger, call, { reservation, counts, routing, response: null, complete: false });
}

/** The charge of a call with these counts, which ends now. */
export function chargeOf(
  call: HeldCall,
  { model }: Pick<Reservation, "model">,
  counts: Counts,
  spoke_ms: number | null = null,
): Charge {
  return {
    ...heldCall(call),
    ...timesOf(call, spoke_ms),
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

/** How a call was called, and how long it has taken. */
function timesOf(
  { timing }: HeldCall,
  spoke_ms: number | null,
): Pick<Charge, "api" | "duration_ms" | "first_token_ms"> {
  if (timing === undefined) return {};
  const { api, began_ms } = timing;
  const duration_ms = Math.round(monotonicMs() - began_ms);
  return { api, duration_ms, ...(spoke_ms === null ? {} : { first_token_ms: Math.round(spoke_ms - began_ms) }) };
}

/** The rates that the ledger stores with a charge. A class without a rate of its own is left out. */
export function chargedRates(rates: ClassRates, price_version: string): ChargedRates {
  const { input_rate_micro, cached_input_rate_micro, cache_write_rate_micro, cache_write_1h_rate_micro } = rates;
  return {
    input_rate_micro,
    output_rate_micro: rates.output_rate_micro,
    ...(cached_input_rate_micro === null ? {} : { cached_input_rate_micro }),
    ...(cache_write_rate_micro === null ? {} : { cache_write_rate_micro }),
    ...(cache_write_1h_rate_micro === null ? {} : { cache_write_1h_rate_micro }),
    price_version,
  };
}

/** The fields of a hold and of its charge that name the call. */
export function heldCall({ hold_id, request_id, caller, agent_id, run_id }: HeldCall) {
  return { hold_id, request_id, ...budgetOf(caller), agent_id, run_id };
}

/** The fields by which the ledger counts a call against the budgets of its key and its end user. */
function budgetOf({ user_id, api_key_id, key_budget_tokens, key_budget_interval = null, labels }: Payer) {
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

/** The usage object of an answer: the four fields of contract 4.4 and OpenAI's names. */
function toUsage(rates: Rates, counts: Counts): Usage {
  const { input_tokens, output_tokens, cached_input_tokens, reasoning_tokens, estimated } = counts;
  const { cache_write_tokens, cache_write_1h_tokens } = counts;
  return {
    input_tokens,
    output_tokens,
    total_tokens: input_tokens + output_tokens,
    cost_tokens: costTokens(rates, counts),
    prompt_tokens: input_tokens,
    completion_tokens: output_tokens,
    prompt_tokens_details: {
      cached_tokens: cached_input_tokens,
      cache_write_tokens,
      ...(cache_write_1h_tokens === 0 ? {} : { cache_write_1h_tokens }),
    },
    completion_tokens_details: { reasoning_tokens },
    ...(estimated ? { estimated: true as const } : {}),
  };
}
