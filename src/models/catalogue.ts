import { CLAUDE_PART_TOKENS, GEMINI_3_PART_TOKENS, GROK_PART_TOKENS, OPENAI_PART_TOKENS } from "./media-tokens.ts";
import type { PartTokens, Supports } from "./models.types.ts";

/**
 * Current models of public providers with their list prices in US dollars, each with its source and date. Models
 * without a usable price are left out: DeepSeek's changes by the hour, Gemini 3.8 Flash's is an offer until the end of
 * the year.
 */
export interface CatalogueEntry {
  id: string;
  provider: string;
  name: string;
  usd_per_million_input: string;
  usd_per_million_output: string;
  /**
   * If a provider charges more for long prompts, the context window ends there: rates are flat, and no request may cost
   * the operator more than it brings in.
   */
  context_window: number;
  max_output_tokens: number;
  trial_eligible: boolean;
  supports: Supports;
  /** Absent: the provider documents no bound. */
  part_tokens?: PartTokens;
  source: string;
  /** The date of the source. */
  as_of: string;
}

const ALL: Supports = { tools: true, streaming: true, json_schema: true, vision: true, files: false, audio: false };
/**
 * For models that sell their whole context window: a file may fill it, also where the provider charges more for long
 * inputs. Audio is off, because these providers charge more for it than for text.
 */
const WITH_FILES: Supports = { ...ALL, files: true };
/** OpenAI's reasoning models of generation 6 accept tools through this API only with reasoning off. */
const NO_TOOLS: Supports = { ...ALL, tools: false };
const TEXT_ONLY: Supports = { ...ALL, vision: false };

const OPENAI_PRICES = "https://developers.openai.com/api/docs/pricing";
const GOOGLE_PRICES = "https://ai.google.dev/gemini-api/docs/pricing";
const CLAUDE_MODELS = "https://platform.claude.com/docs/en/models/overview";
/** An open collection of published prices and limits of providers. */
const MODELS_DEV = "https://models.dev";

export const CATALOGUE: readonly CatalogueEntry[] = [
  {
    id: "gpt-6-luna",
    provider: "openai",
    name: "GPT-6 Luna",
    usd_per_million_input: "0.10",
    usd_per_million_output: "0.50",
    context_window: 272_000,
    max_output_tokens: 128_000,
    trial_eligible: true,
    supports: NO_TOOLS,
    part_tokens: OPENAI_PART_TOKENS.patches_30000,
    source: "https://developers.openai.com/api/docs/models/gpt-6-luna",
    as_of: "2026-10-13",
  },
  {
    id: "gpt-6.1-terra",
    provider: "openai",
    name: "GPT-6.1 Terra",
    usd_per_million_input: "1.00",
    usd_per_million_output: "5.00",
    context_window: 272_000,
    max_output_tokens: 128_000,
    trial_eligible: false,
    supports: NO_TOOLS,
    part_tokens: OPENAI_PART_TOKENS.patches_30000,
    source: "https://docs.litellm.ai/blog/gpt-6-1-terra",
    as_of: "2026-10-27",
  },
  {
    id: "gpt-5.5",
    provider: "openai",
    name: "GPT-5.5",
    usd_per_million_input: "5.00",
    usd_per_million_output: "30.00",
    context_window: 272_000,
    max_output_tokens: 128_000,
    trial_eligible: false,
    supports: ALL,
    part_tokens: OPENAI_PART_TOKENS.patches_10000,
    source: OPENAI_PRICES,
    as_of: "2026-07-02",
  },
  {
    id: "gpt-5.4-mini",
    provider: "openai",
    name: "GPT-5.4 mini",
    usd_per_million_input: "0.75",
    usd_per_million_output: "4.50",
    context_window: 400_000,
    max_output_tokens: 128_000,
    trial_eligible: true,
    supports: WITH_FILES,
    part_tokens: OPENAI_PART_TOKENS.mini,
    source: OPENAI_PRICES,
    as_of: "2026-07-02",
  },
  {
    id: "gpt-5.4-nano",
    provider: "openai",
    name: "GPT-5.4 nano",
    usd_per_million_input: "0.20",
    usd_per_million_output: "1.25",
    context_window: 400_000,
    max_output_tokens: 128_000,
    trial_eligible: true,
    supports: WITH_FILES,
    part_tokens: OPENAI_PART_TOKENS.nano,
    source: OPENAI_PRICES,
    as_of: "2026-07-02",
  },
  {
    id: "gpt-4.1",
    provider: "openai",
    name: "GPT-4.1",
    usd_per_million_input: "2.00",
    usd_per_million_output: "8.00",
    context_window: 1_047_576,
    max_output_tokens: 32_768,
    trial_eligible: false,
    supports: WITH_FILES,
    part_tokens: OPENAI_PART_TOKENS.tiles,
    source: OPENAI_PRICES,
    as_of: "2026-07-02",
  },
  {
    id: "gpt-4.1-mini",
    provider: "openai",
    name: "GPT-4.1 mini",
    usd_per_million_input: "0.40",
    usd_per_million_output: "1.60",
    context_window: 1_047_576,
    max_output_tokens: 32_768,
    trial_eligible: true,
    supports: WITH_FILES,
    part_tokens: OPENAI_PART_TOKENS.mini,
    source: OPENAI_PRICES,
    as_of: "2026-07-02",
  },
  {
    id: "claude-opus-5-5",
    provider: "anthropic",
    name: "Claude Opus 5.5",
    usd_per_million_input: "4.00",
    usd_per_million_output: "20.00",
    context_window: 1_000_000,
    max_output_tokens: 128_000,
    trial_eligible: false,
    supports: WITH_FILES,
    part_tokens: CLAUDE_PART_TOKENS.high_resolution,
    source: CLAUDE_MODELS,
    as_of: "2026-11-20",
  },
  {
    id: "claude-sonnet-5-5",
    provider: "anthropic",
    name: "Claude Sonnet 5.5",
    usd_per_million_input: "2.00",
    usd_per_million_output: "10.00",
    context_window: 1_000_000,
    max_output_tokens: 128_000,
    trial_eligible: false,
    supports: WITH_FILES,
    part_tokens: CLAUDE_PART_TOKENS.high_resolution,
    source: CLAUDE_MODELS,
    as_of: "2026-11-20",
  },
  {
    id: "claude-haiku-5-5",
    provider: "anthropic",
    name: "Claude Haiku 5.5",
    usd_per_million_input: "0.10",
    usd_per_million_output: "0.50",
    context_window: 100_000,
    max_output_tokens: 128_000,
    trial_eligible: true,
    supports: ALL,
    part_tokens: CLAUDE_PART_TOKENS.high_resolution,
    source: "https://platform.claude.com/docs/en/models/haiku-5-5/overview",
    as_of: "2026-11-20",
  },
  {
    id: "claude-haiku-4-5-20251001",
    provider: "anthropic",
    name: "Claude Haiku 4.5",
    usd_per_million_input: "1.00",
    usd_per_million_output: "5.00",
    context_window: 200_000,
    max_output_tokens: 64_000,
    trial_eligible: true,
    supports: WITH_FILES,
    part_tokens: CLAUDE_PART_TOKENS.standard,
    source: "https://platform.claude.com/docs/en/models/haiku-4-5/overview",
    as_of: "2026-11-20",
  },
  {
    id: "gemini-3.5-flash",
    provider: "google",
    name: "Gemini 3.5 Flash",
    usd_per_million_input: "1.50",
    usd_per_million_output: "9.00",
    context_window: 1_048_576,
    max_output_tokens: 65_536,
    trial_eligible: false,
    supports: WITH_FILES,
    part_tokens: GEMINI_3_PART_TOKENS,
    source: GOOGLE_PRICES,
    as_of: "2026-10-07",
  },
  {
    id: "gemini-2.5-pro",
    provider: "google",
    name: "Gemini 2.5 Pro",
    usd_per_million_input: "1.25",
    usd_per_million_output: "10.00",
    context_window: 200_000,
    max_output_tokens: 65_536,
    trial_eligible: false,
    supports: ALL,
    source: GOOGLE_PRICES,
    as_of: "2026-07-02",
  },
  {
    id: "gemini-2.5-flash",
    provider: "google",
    name: "Gemini 2.5 Flash",
    usd_per_million_input: "0.30",
    usd_per_million_output: "2.50",
    context_window: 1_048_576,
    max_output_tokens: 65_536,
    trial_eligible: true,
    supports: WITH_FILES,
    source: GOOGLE_PRICES,
    as_of: "2026-07-02",
  },
  {
    id: "gemini-2.5-flash-lite",
    provider: "google",
    name: "Gemini 2.5 Flash-Lite",
    usd_per_million_input: "0.10",
    usd_per_million_output: "0.40",
    context_window: 1_048_576,
    max_output_tokens: 65_536,
    trial_eligible: true,
    supports: WITH_FILES,
    source: GOOGLE_PRICES,
    as_of: "2026-07-02",
  },
  {
    id: "mistral-large-2512",
    provider: "mistral",
    name: "Mistral Large 3",
    usd_per_million_input: "0.50",
    usd_per_million_output: "1.50",
    context_window: 262_144,
    max_output_tokens: 262_144,
    trial_eligible: true,
    supports: ALL,
    source: MODELS_DEV,
    as_of: "2026-07-02",
  },
  {
    id: "mistral-medium-2604",
    provider: "mistral",
    name: "Mistral Medium 3.5",
    usd_per_million_input: "1.50",
    usd_per_million_output: "7.50",
    context_window: 262_144,
    max_output_tokens: 262_144,
    trial_eligible: false,
    supports: ALL,
    source: MODELS_DEV,
    as_of: "2026-07-02",
  },
  {
    id: "mistral-small-2603",
    provider: "mistral",
    name: "Mistral Small 4",
    usd_per_million_input: "0.15",
    usd_per_million_output: "0.60",
    context_window: 256_000,
    max_output_tokens: 256_000,
    trial_eligible: true,
    supports: ALL,
    source: MODELS_DEV,
    as_of: "2026-07-02",
  },
  {
    id: "grok-4.3",
    provider: "xai",
    name: "Grok 4.3",
    usd_per_million_input: "1.25",
    usd_per_million_output: "2.50",
    context_window: 200_000,
    max_output_tokens: 30_000,
    trial_eligible: false,
    supports: ALL,
    part_tokens: GROK_PART_TOKENS,
    source: MODELS_DEV,
    as_of: "2026-07-02",
  },
  {
    id: "openai/gpt-oss-120b",
    provider: "groq",
    name: "GPT OSS 120B on Groq",
    usd_per_million_input: "0.15",
    usd_per_million_output: "0.60",
    context_window: 131_072,
    max_output_tokens: 65_536,
    trial_eligible: true,
    supports: TEXT_ONLY,
    source: MODELS_DEV,
    as_of: "2026-07-02",
  },
  {
    id: "openai/gpt-oss-20b",
    provider: "groq",
    name: "GPT OSS 20B on Groq",
    usd_per_million_input: "0.075",
    usd_per_million_output: "0.30",
    context_window: 131_072,
    max_output_tokens: 65_536,
    trial_eligible: true,
    supports: TEXT_ONLY,
    source: MODELS_DEV,
    as_of: "2026-07-02",
  },
];
