import type { NoticeEvent } from "../contract/notices.ts";
import type { Instant } from "../platform/db.ts";

/** A share of a balance, cap or budget that is told of when it is reached. */
export type AlertPercent = 50 | 80 | 100;

/** What each event tells: flat, small, and without personal data. */
export interface NoticeData {
  /** So much of what the balance was after the last grant is spent. */
  "balance.low": { percent: AlertPercent; granted_tokens: number; remaining_tokens: number };
  /** So much of the period's overage cap is used. */
  "overage.cap_near": { percent: AlertPercent; cap_tokens: number; used_tokens: number };
  /** So much of an API key's budget is spent. */
  "key_budget.near": { percent: AlertPercent; api_key_id: string; budget_tokens: number; spent_tokens: number };
  "run.failed": {
    agent_id: string;
    run_id: string;
    trigger: "schedule" | "manual";
    error_code: string;
    error_message: string;
  };
  "schedule.paused": { agent_id: string; reason: string };
  "secret.reflected": { secret_id: string; secret_name: string; run_id: string | null };
  "subscription.renewed": { plan_id: string; period_start: Instant; period_end: Instant };
}

/** An occurrence to be told of. */
export type NewNotice = {
  [Event in NoticeEvent]: {
    user_id: string;
    event: Event;
    /** Names the occurrence among the user's of this event (a run's id): it is told once. */
    dedupe_key: string;
    data: NoticeData[Event];
  };
}[NoticeEvent];
