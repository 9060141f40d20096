import type { Caller } from "../../api/contract/caller.ts";
import type { KeyTerms, Payer, UserLimits } from "../../api/contract/key-terms.ts";
import { errors } from "../../kernel/errors.ts";
import type { Db } from "../../platform/db/db.ts";
import { createNotifiedCache } from "../../platform/db/notified-cache.ts";
import { createLimitsStore, type OwnLimits } from "./limits.store.ts";
import { createWindows, type Taken } from "./windows.ts";

const TOKENS = "Too many tokens for the limit of this API key or account. Retry after the time in Retry-After.";

type PerMinute = "requests_per_minute" | "tokens_per_minute";

/** The limits of plans, users and API keys, counted over all nodes. The tightest one applies. */
export async function createLimits(deps: {
  db: Db;
  /** A reload may change them. */
  plans(): readonly { id: string; limits?: UserLimits | undefined }[];
  /** The id of a model that is named by its id or UUID. */
  modelId(name: string): string;
}) {
  const store = createLimitsStore(deps.db);
  const windows = createWindows(store);
  const own = await createNotifiedCache<OwnLimits>({
    db: deps.db,
    channel: "limits_changed",
    subjectOf: ({ user_id }) => user_id,
  });
  const timer = setInterval(windows.tick, windows.tick_ms);

  /** The limits of the user and of the user's plan. */
  async function getLimits(user_id: string): Promise<readonly UserLimits[]> {
    const found = await own.get(user_id, () => store.ofUser(user_id));
    const of_plan = deps.plans().find(({ id }) => id === found?.plan_id)?.limits;
    return [found?.limits, of_plan].filter((limits) => limits != null);
  }

  /** The limits of this kind that apply to a call, each with the subject whose window counts it. */
  function getSubjects(payer: KeyTerms & { user_id: string }, of_user: readonly UserLimits[], kind: PerMinute) {
    const of_key = payer.key_limits?.[kind] ?? null;
    const each = of_user.map((limits) => limits[kind]).filter((limit) => limit != null);
    const name = kind === "requests_per_minute" ? "requests" : "tokens";
    return [
      ...(of_key === null ? [] : [{ subject: `${name}:key:${payer.api_key_id}`, limit: of_key }]),
      ...(each.length === 0 ? [] : [{ subject: `${name}:user:${payer.user_id}`, limit: Math.min(...each) }]),
    ];
  }

  return {
    /**
     * Counts a request of an API key. Returns the caller with the models that are allowed, and the tightest limit; null:
     * there is none. Throws 429. Requests of the console are not counted, so that a busy program does not lock it.
     */
    async admitRequest(caller: Caller): Promise<{ caller: Caller; tightest: Taken | null }> {
      const of_user = await getLimits(caller.user_id);
      if (isUnlimited(caller, of_user)) return { caller, tightest: null };
      const limited = caller.api_key_id === null ? [] : getSubjects(caller, of_user, "requests_per_minute");
      let tightest: Taken | null = null;
      for (const { subject, limit } of limited) {
        const answer = windows.take(subject, limit);
        const taken = answer instanceof Promise ? await answer : answer;
        if (tightest === null || !taken.granted || taken.left < tightest.left) tightest = taken;
        if (!taken.granted) break;
      }
      return { caller: withModels(caller, of_user, deps.modelId), tightest };
    },
    /** Checks a model call of an API key or a run before it begins: 429 when the window has no tokens left. */
    async admitCall(payer: Payer): Promise<Payer> {
      const of_user = await getLimits(payer.user_id);
      if (isUnlimited(payer, of_user)) return payer;
      for (const { subject, limit } of getSubjects(payer, of_user, "tokens_per_minute")) {
        const answer = windows.mayBegin(subject, limit);
        const taken = answer instanceof Promise ? await answer : answer;
        if (!taken.granted) throw errors.rateLimited(taken.frees_in_s, TOKENS).with({ used_up_limit: limit });
      }
      return withModels(payer, of_user, deps.modelId);
    },
    /** Counts the tokens of a call that has ended. */
    countTokens({ user_id, api_key_id }: { user_id: string; api_key_id: string | null }, tokens: number): void {
      if (api_key_id !== null) windows.spend(`tokens:key:${api_key_id}`, tokens);
      windows.spend(`tokens:user:${user_id}`, tokens);
    },
    sweep: store.sweep,
    async close(): Promise<void> {
      clearInterval(timer);
      await windows.close();
      await own.close();
    },
  };
}

function isUnlimited({ key_limits }: KeyTerms, of_user: readonly UserLimits[]): boolean {
  return of_user.length === 0 && key_limits == null;
}

/** The caller with only those models that the key, the user and the plan all allow. */
function withModels<Of extends KeyTerms>(
  caller: Of,
  of_user: readonly UserLimits[],
  idOf: (name: string) => string,
): Of {
  const lists = [caller.allowed_models, ...of_user.map(({ allowed_models }) => allowed_models)].filter(
    (list) => list != null,
  );
  const [first, ...others] = lists;
  if (first === undefined || (others.length === 0 && caller.allowed_models != null)) return caller;
  const others_allow = others.map((list) => new Set(list.map(idOf)));
  const allowed_models = first.filter((model) => others_allow.every((ids) => ids.has(idOf(model))));
  return { ...caller, allowed_models };
}
