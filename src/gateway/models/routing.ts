import type { ChatRequest } from "../../api/contract/completions.ts";
import type { Model, Tier } from "./models.types.ts";
import { costMultiplier } from "./pricing.ts";
import { estimateTokens, promptText } from "./token-count.ts";

/**
 * `model: "auto"`: hard filters first, then the tier for the task's score, then the cheapest model of the tier. Pure.
 * docs/guides/routing.md has the table for users. The hold checks the worst-case cost against the balance.
 */

const TIERS: readonly Tier[] = ["economy", "standard", "premium"];
/** Tiers by price: economy below a cost_multiplier of 1, standard below 4, then premium. */
const TIER_BELOW = { economy: 1, standard: 4 } as const;
/** The lowest score of each tier. */
const TIER_FROM = { standard: 2, premium: 4 } as const;
const LONG_PROMPT_TOKENS = 4_000;
const VERY_LONG_PROMPT_TOKENS = 32_000;
/** Only the two ends of a long prompt are searched for signs, because instructions are usually there. */
const SEARCHED_CHARACTERS = 16_000;
const CODE = /```|\b(?:function|class|import|def|select)\b.{0,80}[({;:]/i;
const REASONING = /\b(?:prove|derive|analy[sz]e|compare|debug|refactor|design|plan|step by step|think hard)\b/i;

export interface RouteRequest {
  request: ChatRequest;
  models: readonly Model[];
  /** Only trial-eligible models may serve a trial account. */
  is_trial: boolean;
  /** The model of earlier turns of this thread or run. It is kept while it qualifies. */
  sticky_model_id: string | null;
  /** Later turns will have pictures. */
  needs_vision?: boolean;
  /** Whether the caller's key and account may use a model; absent: all. */
  isAllowed?(model: Model): boolean;
  /** Whether a model's provider failed recently. Such models are tried last. */
  isResting(model: Model): boolean;
}

export interface RoutingDecision {
  /** All qualifying models, in the order in which they are tried. */
  candidates: Model[];
  reason: string;
}

/** The models to try for a request, best first; none when no model qualifies. */
export function rankModels({
  request,
  models,
  is_trial,
  isAllowed = () => true,
  sticky_model_id,
  needs_vision = false,
  isResting,
}: RouteRequest): RoutingDecision {
  // The rehearsal model never replaces a real model, even if no real model qualifies.
  const real = models.filter((model) => !model.rehearsal);
  const offered = real.length > 0 ? real : models;
  const longest = Math.max(0, ...offered.map(({ context_window }) => context_window));
  const prompt_tokens = estimateTokens(promptText(request));
  if (prompt_tokens > longest) return { candidates: [], reason: "the prompt is longer than every model's context" };
  const qualified = offered.filter(
    (model) =>
      isAllowed(model) &&
      (model.supports.vision || !needs_vision) &&
      qualifies(model, request, { prompt_tokens, is_trial }),
  );
  const task = judge(request, prompt_tokens);
  const ordered = qualified.toSorted(
    (a, b) =>
      Number(b.id === sticky_model_id) - Number(a.id === sticky_model_id) ||
      distance(a, task.tier) - distance(b, task.tier) ||
      costMultiplier(a) - costMultiplier(b) ||
      (a.id < b.id ? -1 : 1),
  );
  const resting = ordered.filter(isResting);
  const candidates = resting.length === 0 ? ordered : [...ordered.filter((model) => !isResting(model)), ...resting];
  return { candidates, reason: explainReason(candidates, { ...task, sticky_model_id, resting: resting.length }) };
}

/** The tier by price of a model without a configured tier. */
export function tierByPrice(rates: Parameters<typeof costMultiplier>[0]): Tier {
  const multiplier = costMultiplier(rates);
  if (multiplier < TIER_BELOW.economy) return "economy";
  return multiplier < TIER_BELOW.standard ? "standard" : "premium";
}

function qualifies(
  model: Model,
  request: ChatRequest,
  { prompt_tokens, is_trial }: { prompt_tokens: number; is_trial: boolean },
): boolean {
  const { tools, streaming, json_schema, vision, files, audio } = model.supports;
  return (
    (tools || request.tools === undefined || request.tools.length === 0) &&
    (streaming || request.stream !== true) &&
    (json_schema || request.response_format?.type !== "json_schema") &&
    (vision || !hasParts(request, "image_url")) &&
    (files || !hasParts(request, "file")) &&
    (audio || !hasParts(request, "input_audio")) &&
    (model.trial_eligible || !is_trial) &&
    prompt_tokens < model.context_window
  );
}

function hasParts({ messages }: ChatRequest, type: string): boolean {
  return messages.some(
    ({ content }) => typeof content === "object" && content?.some((part) => part.type === type) === true,
  );
}

/** The requirements of a request. */
interface Task {
  tier: Tier;
  score: number;
  /** The signs that add up to the score. */
  signs: string[];
}

function judge(request: ChatRequest, prompt_tokens: number): Task {
  const text = getEnds(promptText({ ...request, tools: undefined }));
  const signs: readonly [sign: string, points: number, seen: boolean][] = [
    ["long prompt", 1, prompt_tokens > LONG_PROMPT_TOKENS],
    ["very long prompt", 1, prompt_tokens > VERY_LONG_PROMPT_TOKENS],
    ["tools", 1, (request.tools?.length ?? 0) > 0],
    ["JSON schema", 1, request.response_format?.type === "json_schema"],
    ["code", 1, CODE.test(text)],
    ["reasoning", 2, REASONING.test(text)],
  ];
  const seen = signs.filter(([, , is_seen]) => is_seen);
  const score = seen.reduce((sum, [, points]) => sum + points, 0);
  return { tier: chooseTier(score), score, signs: seen.map(([sign]) => sign) };
}

function getEnds(text: string): string {
  if (text.length <= 2 * SEARCHED_CHARACTERS) return text;
  return `${text.slice(0, SEARCHED_CHARACTERS)}\n${text.slice(-SEARCHED_CHARACTERS)}`;
}

function chooseTier(score: number): Tier {
  if (score >= TIER_FROM.premium) return "premium";
  return score >= TIER_FROM.standard ? "standard" : "economy";
}

/** The distance to a tier; 0 in the tier. A better tier is nearer than a lesser one at the same distance. */
function distance(model: Model, tier: Tier): number {
  const steps = TIERS.indexOf(model.tier) - TIERS.indexOf(tier);
  return steps >= 0 ? steps * 2 : -steps * 2 + 1;
}

/** The reason for the first candidate. */
function explainReason(
  [first]: readonly Model[],
  { tier, score, signs, sticky_model_id, resting }: Task & { sticky_model_id: string | null; resting: number },
): string {
  if (first !== undefined && first.id === sticky_model_id) return "kept from earlier turns";
  const asked = `score ${score}${signs.length === 0 ? "" : ` (${signs.join(", ")})`}: tier ${tier}`;
  const fit =
    first === undefined || first.tier === tier ? "the cheapest in it" : `none in it, ${first.tier} is nearest`;
  return `${asked}, ${fit}${resting === 0 ? "" : "; models whose provider failed recently go last"}`;
}
