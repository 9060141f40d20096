import type { ProviderTest } from "../../api/contract/admin-service.ts";
import { asPurserError } from "../../kernel/errors.ts";
import type { PurserError } from "../../kernel/purser-error.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import type { Models } from "./models.service.ts";
import type { Model } from "./models.types.ts";
import { costTokens } from "./pricing.ts";
import { getProviderError, type ProviderHealth } from "./provider-health.ts";

const PROMPT = "Reply with the word OK.";
/** The least that every provider accepts as a cap. */
const MAX_OUTPUT_TOKENS = 16;
const TIMEOUT_MS = 30_000;
/** A key may lack the cheapest model, or its provider may have ended it. */
const MOST_MODELS = 3;

/** Sends one small call to a provider, without a charge to any user. Null: none of its models is on offer. */
export async function testProvider(
  { models, health }: { models: Models; health: ProviderHealth },
  { name, key_variable }: { name: string; key_variable: string | null },
): Promise<ProviderTest | null> {
  let result: ProviderTest | null = null;
  for (const model of listCandidates(models, name)) {
    result = await callOnce(model, { models, health, key: key_variable ?? "its key" });
    if (result.provider?.status !== 404) return result;
  }
  return result;
}

/** The cheapest models of the provider first, and those that are about to end last. */
function listCandidates(models: Models, provider: string): Model[] {
  const isEnding = ({ deprecation }: Model) => Number(deprecation !== null);
  return [...models.list(), ...models.embeddings()]
    .flatMap((model) => models.byRoute(model, { key: "", kept: null }))
    .filter(({ owned_by }) => owned_by === provider)
    .toSorted((a, b) => isEnding(a) - isEnding(b))
    .slice(0, MOST_MODELS);
}

async function callOnce(
  model: Model,
  { models, health, key }: { models: Models; health: ProviderHealth; key: string },
): Promise<ProviderTest> {
  const began_ms = monotonicMs();
  const result = { model_id: model.id, provider: null, problem: null, cost_micro_usd: null };
  const elapsed = () => Math.round(monotonicMs() - began_ms);
  try {
    const cost_micro_usd = await (model.model_kind === "chat" ? chat(models, model) : embed(models, model));
    health.note(model, null);
    return { ...result, ok: true, latency_ms: elapsed(), cost_micro_usd };
  } catch (thrown) {
    const error = asPurserError(thrown);
    health.note(model, error);
    const provider = getProviderError(error);
    const problem = explain(error, { status: provider?.status ?? null, model, key });
    return { ...result, ok: false, latency_ms: elapsed(), problem, provider };
  }
}

/** What an operator can do about a failure. Messages for callers say less. */
function explain(
  { code, cause }: PurserError,
  { status, model, key }: { status: number | null; model: Model; key: string },
): string {
  if (status === 401 || status === 403)
    return `The provider rejects the key. Check ${key}, then start the service again.`;
  if (status === 404)
    return `The provider does not offer ${model.provider_model} to this key. Check what the key may use.`;
  if (status === 429) return "The provider is at its limit. Look at the account's credit and limits at the provider.";
  if (code === "upstream_timeout") return `The provider did not answer within ${TIMEOUT_MS / 1000} seconds.`;
  if (status !== null)
    return `The provider answered with status ${status}. Read what it says, and look at its status page.`;
  const reason = (cause as Error | undefined)?.message;
  return `The provider could not be reached, or its answer could not be used${reason === undefined ? "" : ` (${reason})`}. Check its address.`;
}

async function chat(models: Models, model: Model): Promise<number | null> {
  const provider = models.provider(model);
  const request = { model: model.id, messages: [{ role: "user" as const, content: PROMPT }] };
  const max_output_tokens = Math.min(MAX_OUTPUT_TOKENS, model.max_output_tokens);
  const prepared = await provider.prepare({ model, request, max_output_tokens, stream: false });
  const { counts } = await provider.complete(prepared, callOptions());
  return model.upstream === null ? null : costTokens(model.upstream, counts);
}

async function embed(models: Models, model: Model): Promise<number | null> {
  const call = { model, inputs: ["OK"], encoding_format: "float" as const, fields: {} };
  await models.provider(model).embed?.(call, callOptions());
  return null;
}

const callOptions = () => ({ signal: AbortSignal.timeout(TIMEOUT_MS), deadline_ms: monotonicMs() + TIMEOUT_MS });
