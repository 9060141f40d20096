import { ledgerErrors, type MeansOf } from "../../account/ledger/errors.ts";
import type { ChargingLedger } from "../../account/ledger/ledger.types.ts";
import { type EmbeddingInput, type EmbeddingUsage, getInputs } from "../../api/contract/embeddings.ts";
import { allows } from "../../api/contract/key-terms.ts";
import { gatewayErrors } from "../../gateway/models/errors.ts";
import { errors, PurserError } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { heldTextTokens } from "../models/held-text.ts";
import type { Models } from "../models/models.service.ts";
import type { Counts, EmbeddingCall, Model, Vectors } from "../models/models.types.ts";
import { costTokens, dearestRates, worstCaseTokens } from "../models/pricing.ts";
import { traitsOf } from "../models/providers.ts";
import { forwardedEmbeddingFields } from "../models/request-fields.ts";
import { estimateTokens } from "../models/token-count.ts";
import { acceptReport, checkedCounts } from "../models/usage-report.ts";
import type { AttemptDeps } from "./attempt.ts";
import { CALL_MS, chargeOf, heldCall, release } from "./charge.ts";
import type { EmbeddingsAnswer, EmbeddingsCall } from "./completions.types.ts";
import { agentIdOf } from "./completions.types.ts";

/** Tokens that a provider may add to each input, to mark its beginning and its end. */
const MARKS_PER_INPUT = 2;
const ONLY_INPUT = {
  cached_input_tokens: 0,
  cache_write_tokens: 0,
  cache_write_1h_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
};

/** Vectors with their charge: hold the worst case of the input, call the provider, settle its count. */
export function createEmbeddings(deps: {
  models: Models;
  ledger: ChargingLedger;
  meansOf: MeansOf;
  isTrial(user_id: string): Promise<boolean>;
  admit(caller: EmbeddingsCall["caller"]): Promise<EmbeddingsCall["caller"]>;
  onAttempt: AttemptDeps["onAttempt"];
  onDisbelieved(model: Model, report: Counts): void;
}): (call: EmbeddingsCall) => Promise<EmbeddingsAnswer> {
  const { models, ledger } = deps;

  async function modelFor({ request, caller }: EmbeddingsCall): Promise<Model> {
    const model = models.findEmbedding(request.model);
    if (model === null) throw notAnEmbeddingModel(request.model, models);
    const { allowed_models } = await deps.admit(caller);
    if (!allows(allowed_models, model)) throw gatewayErrors.modelNotAllowed(model.id);
    if (!model.trial_eligible && (await deps.isTrial(caller.user_id)))
      throw gatewayErrors.modelNotTrialEligible(model.id);
    return model;
  }

  async function hold(call: EmbeddingsCall, model: Model, sizes: Sizes): Promise<void> {
    const input = { input_tokens: sizes.held_tokens, cache_writes: "none" as const };
    const amount_tokens = worstCaseTokens(model, { ...input, max_output_tokens: 0 });
    const rates = { ...dearestRates(model, input), price_version: model.price_version };
    const held = await ledger.hold({
      ...heldCall({ ...call, agent_id: null, run_id: null }),
      amount_tokens,
      minimum_tokens: amount_tokens,
      estimate: { model: model.id, input_tokens: sizes.held_tokens, max_output_tokens: 0, ...rates },
    });
    if (held.status === "held") return;
    const { code, available, held: held_tokens } = held;
    if (code === "agent_budget_exceeded") throw new Error("a call without an agent has no agent's budget");
    const shortfall = Math.max(0, amount_tokens - available);
    const figures = { required: amount_tokens, available, held: held_tokens, shortfall };
    const means = await deps.meansOf(call.caller.user_id);
    throw ledgerErrors.payment(code, { ...figures, max_affordable_output_tokens: 0 }, means);
  }

  async function getVectors(request: EmbeddingCall, { request_id, signal }: EmbeddingsCall): Promise<Vectors> {
    const { model } = request;
    const { embed } = models.provider(model);
    if (embed === undefined) throw new Error(`the provider of ${model.id} sells no embeddings`);
    const began_ms = monotonicMs();
    const note = (error: PurserError | null) =>
      deps.onAttempt(model, { request_id, run_id: null, ms: monotonicMs() - began_ms, error, streamed: false });
    try {
      const answer = await embed(request, { signal, deadline_ms: began_ms + CALL_MS });
      note(null);
      return answer;
    } catch (thrown) {
      if (thrown instanceof PurserError && !signal.aborted) note(thrown);
      throw thrown;
    }
  }

  return async (call) => {
    const model = await modelFor(call);
    const inputs = getInputs(call.request);
    const fields = forwardedEmbeddingFields(call.request, model);
    const sizes = measureSizes(inputs, model);
    await hold(call, model, sizes);
    const settle = (counts: Counts) =>
      ledger.settle(chargeOf({ ...call, agent_id: null, run_id: null }, { model }, counts));
    let answer: Vectors;
    try {
      const encoding_format = call.request.encoding_format ?? "float";
      answer = await getVectors({ model, inputs, fields, encoding_format }, call);
    } catch (error) {
      // A provider that was asked bills the input even if this node stops before the answer.
      await (call.signal.aborted ? settle(estimatedCounts(sizes)) : release(ledger, call));
      throw call.signal.aborted ? call.signal.reason : error;
    }
    const onDisbelieved = (report: Counts) => deps.onDisbelieved(model, report);
    const counts = toCounts(answer, { model, sizes, onDisbelieved });
    await settle(counts);
    return { model_id: model.id, vectors: answer.vectors, usage: toUsage(model, counts) };
  };
}

/** The inputs of a request in tokens. */
interface Sizes {
  held_tokens: number;
  /** The count that is billed if the provider reports none. */
  estimated_tokens: number;
}

/** Throws 400 for an input that is longer than the model's context, or of a kind that the provider does not take. */
function measureSizes(inputs: readonly EmbeddingInput[], { id, kind, context_window }: Model): Sizes {
  const sizes = { held_tokens: 0, estimated_tokens: 0 };
  for (const [index, input] of inputs.entries()) {
    if (typeof input !== "string" && !traitsOf(kind).takes_token_inputs) {
      throw errors.invalidValue("input", `${id} takes texts, not token numbers. Send the text itself.`);
    }
    const tokens = typeof input === "string" ? estimateTokens(input) : input.length;
    if (tokens > context_window) throw gatewayErrors.contextLengthExceeded(context_window, `input[${index}]`);
    sizes.held_tokens += MARKS_PER_INPUT + (typeof input === "string" ? heldTextTokens(input) : input.length);
    sizes.estimated_tokens += tokens;
  }
  return sizes;
}

function toCounts(
  { input_tokens }: Vectors,
  { model, sizes, onDisbelieved }: { model: Model; sizes: Sizes; onDisbelieved(report: Counts): void },
): Counts {
  const call = { model, request: {}, input_tokens: sizes.held_tokens };
  const report = checkedCounts({ ...ONLY_INPUT, input_tokens });
  return acceptReport(report, call, { receivedBytes: () => 0, onDisbelieved }) ?? estimatedCounts(sizes);
}

function estimatedCounts({ estimated_tokens }: Sizes): Counts {
  return { ...ONLY_INPUT, input_tokens: estimated_tokens, estimated: true };
}

function toUsage(model: Model, counts: Counts): EmbeddingUsage {
  const { input_tokens, estimated } = counts;
  return {
    prompt_tokens: input_tokens,
    total_tokens: input_tokens,
    input_tokens,
    output_tokens: 0,
    cost_tokens: costTokens(model, counts),
    ...(estimated ? { estimated: true as const } : {}),
  };
}

function notAnEmbeddingModel(model: string, models: Models): Error {
  const exists = model === "auto" || agentIdOf(model) !== null || models.find(model) !== null;
  if (!exists) return gatewayErrors.modelNotFound(model, models.nearestEmbedding(model));
  return errors.invalidValue(
    "model",
    `${model.slice(0, 100)} creates no embeddings. Name a model of kind embedding (GET /api/v1/models).`,
  );
}
