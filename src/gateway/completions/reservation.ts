import { ledgerErrors, type Means, type MeansOf, type PaymentCode } from "../../account/ledger/errors.ts";
import type { ChargingLedger, HoldRequest } from "../../account/ledger/ledger.types.ts";
import { gatewayErrors } from "../../gateway/models/errors.ts";
import type { PurserError } from "../../kernel/errors.ts";
import type { Models } from "../models/models.service.ts";
import type { Model, ProviderRequest } from "../models/models.types.ts";
import { affordableOutputTokens, dearestRates, type InputBound, worstCaseTokens } from "../models/pricing.ts";
import { dropsReasoning } from "../models/reasoning.ts";
import { forwardedRequest } from "../models/request-fields.ts";
import { billedText, estimateTokens, promptText } from "../models/token-count.ts";
import { heldCall } from "./charge.ts";
import type { CompletionCall, Reservation } from "./completions.types.ts";

/** A shorter answer is useless. If the request sets no max_tokens, a call that cannot pay for this much is rejected. */
const LEAST_OUTPUT_TOKENS = 64;
/** The least room for an answer, also if the prompt is estimated to fill the context window. */
const LEAST_ROOM_TOKENS = 1_024;
/** The `param` of the error when an agent's monthly cap rejects a call. */
export const MONTHLY_CAP = "limits.max_cost_tokens_per_month";

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
  const prepared = await prepare(models, call, model);
  const quote = quoteOf(call, model, prepared);
  const hold = await ledger.hold(holdRequest(call, model, quote));
  call.intent?.onWritten();
  if (hold.status === "refused") {
    const { code } = hold;
    const { minimum_tokens: needed_tokens } = quote;
    if (code === "agent_budget_exceeded")
      throw gatewayErrors.monthlyBudgetExceeded(MONTHLY_CAP).with({ needed_tokens });
    const means = await meansOf(call.caller.user_id);
    throw paymentError({ ...hold, code, means }, model, quote).with({ needed_tokens });
  }
  const max_output_tokens = affordableOutput(model, quote, hold.held_tokens);
  return { model, request: { ...prepared, max_output_tokens }, drops_reasoning: dropsReasoning(call.request, model) };
}

/** Throws 400 for a field that `model` does not accept, and for a request that is far too long. */
async function prepare(models: Models, call: CompletionCall, model: Model): Promise<ProviderRequest> {
  const request = forwardedRequest(call.request, model);
  // First, because preparing a request of 16 MB takes far longer.
  if (estimateTokens(promptText(request)) > model.context_window) {
    throw gatewayErrors.contextLengthExceeded(model.context_window);
  }
  const prepared = await models.provider(model).prepare({
    model,
    request,
    max_output_tokens: Math.min(askedOutput(call) ?? model.max_output_tokens, model.max_output_tokens),
    stream: call.request.stream === true,
    ...(call.provider_headers === undefined ? {} : { headers: call.provider_headers }),
    ...(call.native === undefined ? {} : { native: call.native }),
    ...(call.findJsonFault === undefined ? {} : { findJsonFault: call.findJsonFault }),
  });
  refuseTooLong(prepared);
  return prepared;
}

/** The output tokens that the caller allows; null: the caller names no number. */
function askedOutput({ request }: CompletionCall): number | null {
  return request.max_completion_tokens ?? request.max_tokens ?? null;
}

/** What a call may use and cost. */
interface Quote {
  input: InputBound;
  /** Each choice is generated up to the cap, and all of them are billed. */
  choices: number;
  /** The most output tokens of one choice. */
  cap: number;
  /** The billed tokens to hold. */
  amount_tokens: number;
  /** The least that must be held: enough for the shortest useful answer. */
  minimum_tokens: number;
}

/** Throws 409 if the rest of the run's budget does not cover the call. Pure. */
function quoteOf(call: CompletionCall, model: Model, prepared: ProviderRequest): Quote {
  const choices = call.request.n ?? 1;
  if (!isCount(choices) || !isCount(prepared.max_output_tokens))
    throw new Error("a call without a whole number of tokens");
  if (choices > 1 && model.rehearsal) throw gatewayErrors.unsupportedParameter("n");
  const asked = askedOutput(call);
  const cap = asked === null ? roomFor(model, prepared.likely_tokens) : prepared.max_output_tokens;
  const least = asked === null ? Math.min(cap, LEAST_OUTPUT_TOKENS) : cap;
  const worstOf = (output_tokens: number) =>
    worstCaseTokens(model, { ...prepared, max_output_tokens: output_tokens * choices });
  const worst = worstOf(cap);
  const amount_tokens = Math.min(worst, call.max_cost_tokens ?? worst);
  const minimum_tokens = worstOf(least);
  if (minimum_tokens > amount_tokens) throw gatewayErrors.runBudgetExceeded().with({ needed_tokens: minimum_tokens });
  return { input: prepared, choices, cap, amount_tokens, minimum_tokens };
}

function holdRequest(
  call: CompletionCall,
  model: Model,
  { input, choices, cap, amount_tokens, minimum_tokens }: Quote,
): HoldRequest {
  return {
    ...heldCall(call),
    agent_budget: call.agent_budget ?? null,
    amount_tokens,
    minimum_tokens,
    estimate: {
      model: model.id,
      input_tokens: input.input_tokens + (input.resends_output === true ? cap : 0),
      max_output_tokens: cap * choices,
      ...dearestRates(model, input),
      price_version: model.price_version,
    },
    ...(call.intent === undefined ? {} : { hook: call.intent.hookOf(model.id) }),
  };
}

/** The output tokens of each choice that `amount_tokens` pays for. */
function affordableOutput(model: Model, { input, choices, cap }: Quote, amount_tokens: number): number {
  const affordable = affordableOutputTokens(model, { ...input, amount_tokens });
  return Math.min(cap, Math.floor(affordable / choices));
}

/** Rejects a request that is far too long before its hold. The provider decides about a borderline request. */
function refuseTooLong({ model, request, input_tokens, media_tokens }: ProviderRequest): void {
  // The hold's estimate is the higher one, so most requests need no second estimate.
  if (input_tokens <= model.context_window) return;
  if (estimateTokens(billedText(request)) + media_tokens > model.context_window) {
    throw gatewayErrors.contextLengthExceeded(model.context_window);
  }
}

/** The output cap if the request sets none: the model's own cap, or the rest of its window after the prompt. */
function roomFor({ context_window, max_output_tokens }: Model, likely_tokens: number): number {
  return Math.min(max_output_tokens, Math.max(context_window - likely_tokens, LEAST_ROOM_TOKENS));
}

function paymentError(
  { code, available, held, means }: { code: PaymentCode; available: number; held: number; means: Means },
  model: Model,
  quote: Quote,
): PurserError {
  const { amount_tokens } = quote;
  const figures = {
    required: amount_tokens,
    available,
    held,
    shortfall: Math.max(0, amount_tokens - available),
    max_affordable_output_tokens: affordableOutput(model, quote, available),
  };
  return ledgerErrors.payment(code, figures, means);
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1;
}
