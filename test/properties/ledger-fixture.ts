import { createLedger, type LedgerDeps } from "../../src/account/ledger/ledger.service.ts";
import type { HoldRequest, Invariant, Ledger, SettleRequest } from "../../src/account/ledger/ledger.types.ts";
import type { Db } from "../../src/platform/db/db.ts";
import { addSeconds, type Clock } from "../../src/platform/lib/clock.ts";
import { newId } from "../../src/platform/lib/ids.ts";
import type { Instant } from "../../src/platform/lib/instant.ts";

/** A clock that only the test moves. */
export interface ManualClock extends Clock {
  put(now: Instant): void;
}

export function createManualClock(start: Instant): ManualClock {
  let now = start;
  return {
    now: () => now,
    put: (instant) => {
      now = instant;
    },
  };
}

/** All ids by which the ledger stores rows. */
export const LEDGER_TABLES =
  "account, bucket, reversal, hold, entry, usage_event, usage_daily, usage_label_daily, key_spend, crossing";

/** A ledger with short forms of frequent operations. Every account has a new user. */
export function createLedgerFixture(
  db: Db,
  start: Instant = "2026-03-01T12:00:00.000Z",
  invariants: readonly Invariant[] = [],
  with_hooks: string | null = null,
) {
  const clock = createManualClock(start);
  const calls: LedgerDeps = { db, clock, invariants, with_hooks };
  const ledger = createLedger(calls);
  return {
    db,
    clock,
    ledger,
    /** A test may set `notify` here. */
    calls,
    /** A new account with these buckets of 30 days, oldest first, each granted a second after the one before. */
    account: async (...amounts: number[]): Promise<string> => {
      const user_id = newId();
      await db.transaction((tx) => ledger.openAccount(tx, { user_id, trial: null }));
      for (const amount of amounts) await grantTo(ledger, clock, user_id, amount);
      return user_id;
    },
    grant: (user_id: string, amount_tokens: number, lasting_s?: number) =>
      grantTo(ledger, clock, user_id, amount_tokens, lasting_s),
    hold: (user_id: string, amount_tokens: number, more: Partial<HoldRequest> = {}) =>
      ledger.hold(holdOf(user_id, amount_tokens, more)),
    settle: (user_id: string, hold_id: string, cost_tokens: number, more: Partial<SettleRequest> = {}) =>
      ledger.settle(settleOf(user_id, hold_id, cost_tokens, more)),
    pass: (seconds: number) => clock.put(addSeconds(clock.now(), seconds)),
  };
}

function grantTo(ledger: Ledger, clock: ManualClock, user_id: string, amount_tokens: number, lasting_s = 2_592_000) {
  clock.put(addSeconds(clock.now(), 1));
  const granted_at = clock.now();
  const expires_at = addSeconds(granted_at, lasting_s);
  return ledger.grant({ user_id, amount_tokens, source: "top_up", granted_at, expires_at, note: null });
}

export function holdOf(user_id: string, amount_tokens: number, more: Partial<HoldRequest> = {}): HoldRequest {
  const nobody = { api_key_id: null, key_budget_tokens: null, agent_id: null, run_id: null };
  const amounts = { amount_tokens, minimum_tokens: amount_tokens };
  return { hold_id: newId(), request_id: "request", user_id, ...nobody, ...amounts, ...more };
}

export function settleOf(
  user_id: string,
  hold_id: string,
  cost_tokens: number,
  more: Partial<SettleRequest> = {},
): SettleRequest {
  const who = { hold_id, request_id: "request", user_id, api_key_id: null, agent_id: null, run_id: null };
  const parts = { cached_input_tokens: 10, cache_write_tokens: 30, cache_write_1h_tokens: 5 };
  const counts = { input_tokens: 100, ...parts, output_tokens: 20 };
  return {
    ...who,
    ...counts,
    model: "lab/small",
    cost_tokens,
    upstream_cost_micro_usd: cost_tokens,
    // input is free here, so that every cost is its output tokens at their rate
    input_rate_micro: 0,
    output_rate_micro: cost_tokens * 50_000,
    ...more,
  };
}

/** The statement of a hook that one SQL function executes for a whole batch, jsonb array to jsonb array. */
export function applyWithHooks(procedure: string): string {
  return `with hooks as materialized (select ledger_lock_hooks($1::json, $2, $5::jsonb, $3) as list),
    carried_out as materialized (
      select array_agg(place order by place) as places,
          case when count(*) > 0 then ${procedure}(jsonb_agg(argument order by place)) end as answers
        from hooks cross join jsonb_to_recordset(hooks.list) as hook(place integer, argument jsonb)
    ),
    verdict as (select unnest(places) as place, jsonb_array_elements(answers) as answer from carried_out)
    select ledger_apply_batch($1::json, $2, $3, $4, (select jsonb_object_agg(place, answer) from verdict)) as outcomes`;
}
