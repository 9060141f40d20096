import type { ProviderState } from "../../api/contract/admin-service.ts";
import type { PurserError } from "../../kernel/purser-error.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import type { Model } from "./models.types.ts";
import { isProviderFailure, type ProviderError } from "./provider-errors.ts";

/** The calls of a provider that count as recent. */
const RECENT_CALLS = 100;

type Health = Pick<ProviderState, "recent_calls" | "recent_failures" | "last_answered_at" | "last_failure">;
interface Noted {
  /** Of the last calls, whether each was answered. */
  answered: boolean[];
  last_answered_at: Health["last_answered_at"];
  last_failure: Health["last_failure"];
}

/** How the last calls of each provider ended on this node, in memory. For the operator to see, not for routing. */
export function createProviderHealth(clock: Clock) {
  const noted = new Map<string, Noted>();
  return {
    /** `error`: null if the provider answered. Failures that the request itself caused do not count. */
    note({ id, owned_by }: Pick<Model, "id" | "owned_by">, error: unknown): void {
      if (error !== null && !isProviderFailure(error)) return;
      const found = noted.get(owned_by) ?? { answered: [], last_answered_at: null, last_failure: null };
      noted.set(owned_by, found);
      found.answered = [...found.answered.slice(1 - RECENT_CALLS), error === null];
      if (error === null) found.last_answered_at = clock.now();
      else found.last_failure = { at: clock.now(), model_id: id, ...describe(error) };
    },
    of(provider: string): Health {
      const { answered = [], last_answered_at = null, last_failure = null } = noted.get(provider) ?? {};
      const recent_failures = answered.filter((is_answered) => !is_answered).length;
      return { recent_calls: answered.length, recent_failures, last_answered_at, last_failure };
    },
  };
}

export type ProviderHealth = ReturnType<typeof createProviderHealth>;

/** Without the provider's message, which may quote a prompt. */
function describe(error: PurserError) {
  const said = getProviderError(error);
  return { code: error.code, provider_status: said?.status ?? null, provider_code: said?.code ?? null };
}

/** What the provider said of its failure, without keys and addresses. Null: it did not answer. */
export function getProviderError({ shape }: PurserError): ProviderError | null {
  return (shape.metadata?.provider as ProviderError | undefined) ?? null;
}
