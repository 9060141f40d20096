import type { ChatRequest } from "../contract/completions.ts";
import type { Model } from "./models.types.ts";
import { costMultiplier } from "./pricing.ts";
import { estimateTokens, promptText } from "./token-count.ts";

/**
 * `model: "auto"`. Hard filters first; then the tier that the task's score asks for; in the tier the cheapest first. Pure.
 *
 * The score adds up: 1 for more than 4,000 estimated prompt tokens, 2 for more than 32,000; 1 for tools; 1 for a JSON
 * schema; 1 for code; 2 for words that ask for reasoning. 0–1 is economy, 2–3 standard, 4 and more premium.
 */
type Tier = "economy" | "standard" | "premium";

const TIERS: readonly Tier[] = ["economy", "standard", "premium"];
/** Models belong to tiers by price: cost_multiplier below 1, below 4, and the rest. */
const TIER_BELOW = { economy: 1, standard: 4 } as const;
const LONG_PROMPT_TOKENS = 4_000;
const VERY_LONG_PROMPT_TOKENS = 32_000;
const CODE = /```|\b(?:function|class|import|def|select)\b.{0,80}[({;:]/i;
const REASONING = /\b(?:prove|derive|analy[sz]e|compare|debug|refactor|design|plan|step by step|think hard)\b/i;

export interface RouteRequest {
  request: ChatRequest;
  models: readonly Model[];
  /** Only trial-eligible models may serve a trial account. */
  is_trial: boolean;
  /** The model of this thread's or run's earlier turns, kept while it qualifies. */
  sticky_model_id: string | null;
}

export interface Route {
  /** Every model that qualifies, in the order in which they are tried. */
  candidates: Model[];
  reason: string;
}

/** The models to try for a request, best first; none when no model qualifies. */
export function routeOf({ request, models, is_trial, sticky_model_id }: RouteRequest): Route {
  const prompt_tokens = estimateTokens(promptText(request));
  const qualified = models.filter((model) => qualifies(model, request, { prompt_tokens, is_trial }));
  const real = qualified.filter((model) => !model.rehearsal);
  const tier = tierOf(scoreOf(request, prompt_tokens));
  const candidates = (real.length > 0 ? real : qualified).toSorted(
    (a, b) => distance(a, tier) - distance(b, tier) || costMultiplier(a) - costMultiplier(b) || (a.id < b.id ? -1 : 1),
  );
  const sticky = candidates.find((model) => model.id === sticky_model_id);
  if (sticky !== undefined) {
    return {
      candidates: [sticky, ...candidates.filter((model) => model !== sticky)],
      reason: "kept from earlier turns",
    };
  }
  const [first] = candidates;
  const fit =
    first === undefined || modelTier(first) === tier ? `the cheapest of tier ${tier}` : `nearest to tier ${tier}`;
  return { candidates, reason: fit };
}

function qualifies(
  model: Model,
  request: ChatRequest,
  { prompt_tokens, is_trial }: { prompt_tokens: number; is_trial: boolean },
): boolean {
  const { tools, streaming, json_schema, vision } = model.supports;
  return (
    (tools || request.tools === undefined || request.tools.length === 0) &&
    (streaming || request.stream !== true) &&
    (json_schema || request.response_format?.type !== "json_schema") &&
    (vision || !hasImages(request)) &&
    (model.trial_eligible || !is_trial) &&
    prompt_tokens < model.context_window
  );
}

function hasImages({ messages }: ChatRequest): boolean {
  return messages.some(
    ({ content }) => typeof content === "object" && content?.some((part) => part.type === "image_url") === true,
  );
}

function scoreOf(request: ChatRequest, prompt_tokens: number): number {
  const text = promptText({ ...request, tools: undefined });
  return (
    (prompt_tokens > LONG_PROMPT_TOKENS ? 1 : 0) +
    (prompt_tokens > VERY_LONG_PROMPT_TOKENS ? 1 : 0) +
    ((request.tools?.length ?? 0) > 0 ? 1 : 0) +
    (request.response_format?.type === "json_schema" ? 1 : 0) +
    (CODE.test(text) ? 1 : 0) +
    (REASONING.test(text) ? 2 : 0)
  );
}

function tierOf(score: number): Tier {
  if (score <= 1) return "economy";
  return score <= 3 ? "standard" : "premium";
}

function modelTier(model: Model): Tier {
  const multiplier = costMultiplier(model);
  if (multiplier < TIER_BELOW.economy) return "economy";
  return multiplier < TIER_BELOW.standard ? "standard" : "premium";
}

/** 0 in the tier; a better tier counts as nearer than a lesser one at the same distance. */
function distance(model: Model, tier: Tier): number {
  const steps = TIERS.indexOf(modelTier(model)) - TIERS.indexOf(tier);
  return steps >= 0 ? steps * 2 : -steps * 2 + 1;
}
