import type { Caller, Scope } from "../../api/contract/caller.ts";
import type { BudgetInterval, Limits } from "../../api/contract/key-terms.ts";
import { httpErrors } from "../../api/http/errors.ts";
import { errors } from "../../kernel/errors.ts";
import type { Instant } from "../../platform/lib/instant.ts";
import type { ApiKeyRow, KeySettings } from "./accounts.store.ts";
import { userErrors } from "./errors.ts";

/** contract 3.7: which API keys a caller may create, and what becomes of a key that is changed. Pure. */

export interface NewApiKey {
  name: string;
  scopes?: readonly Scope[] | undefined;
  expires_at?: Instant | null | undefined;
  budget_tokens?: number | null | undefined;
  budget_interval?: BudgetInterval | null | undefined;
  allowed_models?: readonly string[] | null | undefined;
  limits?: Limits | null | undefined;
}

export type KeyChanges = Omit<NewApiKey, "name" | "scopes"> & { name?: string | undefined };

/** Throws 403 or 400 for a key with more scopes or a longer life than the caller's `own`, and for one of a limited key. */
export function refuseBroader(
  caller: Caller,
  own: ApiKeyRow | undefined,
  wanted: NewApiKey & { scopes: readonly Scope[] },
): void {
  const missing = wanted.scopes.find((scope) => !caller.scopes.includes(scope));
  if (missing !== undefined) throw httpErrors.insufficientScope(missing);
  if (own === undefined) return;
  // Several keys of one budget could together spend more than it.
  if (isLimited(own)) throw userErrors.budgetedKeyCannotMint();
  if (own.expires_at !== null && (wanted.expires_at ?? "9") > own.expires_at) {
    throw errors.invalidValue("expires_at", `A key cannot make one that lives longer: give at most ${own.expires_at}.`);
  }
}

/** Whether a key's use is limited. Several such keys could together use more. */
function isLimited({ budget_tokens, allowed_models, limits }: ApiKeyRow): boolean {
  return budget_tokens !== null || allowed_models !== null || storedLimits(limits) !== null;
}

/** The settings of a key after `changes`. A budget that is removed takes its interval with it. */
export function settingsAfter(row: ApiKeyRow, changes: KeyChanges): KeySettings {
  const { name = row.name, expires_at = row.expires_at, budget_tokens = row.budget_tokens } = changes;
  const { allowed_models = row.allowed_models, limits } = changes;
  const kept = changes.budget_tokens === null ? null : row.budget_interval;
  const { budget_interval = kept } = changes;
  const all = limits === undefined ? row.limits : limits === null ? null : { ...row.limits, ...limits };
  return { name, expires_at, budget_tokens, budget_interval, allowed_models, limits: storedLimits(all) };
}

/** null for limits that limit nothing: calls of a key without limits are not counted. */
export function storedLimits(limits: Limits | null): Limits | null {
  return Object.values(limits ?? {}).some((limit) => limit != null) ? limits : null;
}

/** Throws 400 for an interval without a budget. */
export function refuseLoneInterval({ budget_tokens, budget_interval }: NewApiKey | KeySettings): void {
  if (budget_interval == null || budget_tokens != null) return;
  throw errors.invalidValue("budget_interval", "budget_interval needs budget_tokens. Give both, or neither.");
}

/** Shorter intervals start again more often, and so let a key spend more. */
const STARTS_PER_YEAR = { day: 366, week: 53, month: 12 };

/** True if a key may spend more, use more or live longer as `set` than as `row`. */
export function isBroader(set: KeySettings, row: KeySettings): boolean {
  if ((set.budget_tokens ?? Infinity) > (row.budget_tokens ?? Infinity)) return true;
  const starts = ({ budget_tokens, budget_interval: interval }: KeySettings) =>
    budget_tokens === null ? Infinity : interval === null ? 1 : STARTS_PER_YEAR[interval];
  if (starts(set) > starts(row)) return true;
  const allowed = row.allowed_models;
  if (allowed !== null && !(set.allowed_models?.every((model) => allowed.includes(model)) ?? false)) return true;
  const most = (of: Limits | null, name: keyof Limits) => of?.[name] ?? Infinity;
  const names = ["requests_per_minute", "tokens_per_minute", "concurrent_runs"] as const;
  if (names.some((name) => most(set.limits, name) > most(row.limits, name))) return true;
  return row.expires_at !== null && (set.expires_at === null || set.expires_at > row.expires_at);
}

/** Throws 400 for the end of a key that lies in the past. */
export function refusePast(expires_at: Instant | null, now: Instant): void {
  if (expires_at === null || expires_at > now) return;
  throw errors.invalidValue("expires_at", "expires_at lies in the past. Give a later instant, or null for none.");
}
