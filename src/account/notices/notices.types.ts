import type { NoticeEvent } from "../../api/contract/notices.ts";
import type { PauseReason } from "../../api/contract/payments.ts";
import type { AlertPercent } from "../../kernel/constants.ts";
import type { Instant } from "../../platform/lib/instant.ts";

/** The data of each event, flat and small. It also goes to the user's webhook endpoints. */
export interface NoticeData {
  /** This share of the balance after the last grant is spent. */
  "balance.low": { percent: AlertPercent; granted_tokens: number; remaining_tokens: number };
  /** This share of the period's overage cap is used. */
  "overage.cap_near": { percent: AlertPercent; cap_tokens: number; used_tokens: number };
  /** This share of an API key's budget is spent. */
  "key_budget.near": { percent: AlertPercent; api_key_id: string; budget_tokens: number; spent_tokens: number };
  /** An automatic top-up was declined or returned. No further one is bought until the user resumes. */
  "auto_topup.paused": { reason: PauseReason; payment_id: string; amount_cents: number };
  "run.failed": {
    agent_id: string;
    run_id: string;
    trigger: "schedule" | "manual";
    error_code: string;
    error_message: string;
  };
  /** A run succeeded although a call of a tool failed or its answer is incomplete. The last step with an error. */
  "run.has_errors": {
    agent_id: string;
    run_id: string;
    trigger: "schedule" | "manual";
    failed_steps: number;
    tool: string;
    error_code: string;
    error_message: string;
  };
  "schedule.paused": { agent_id: string; reason: string };
  "secret.reflected": { secret_id: string; secret_name: string; run_id: string | null };
  "secret.disconnected": { secret_id: string; secret_name: string; server: string };
  "subscription.renewed": { plan_id: string; period_start: Instant; period_end: Instant };
}

/** A notice to create. */
export type NewNotice = {
  [Event in NoticeEvent]: {
    user_id: string;
    event: Event;
    /**
     * Identifies the occurrence among the user's notices of this event, for example a run's id. Each key gives one
     * notice.
     */
    dedupe_key: string;
    data: NoticeData[Event];
  };
}[NoticeEvent];

/** The result of one try: an HTTP status, or the error when there is none. */
export interface TryResult {
  readonly status: number | null;
  readonly error: string | null;
  /** No other try can succeed. */
  readonly is_final?: boolean;
  /** A mail server was asked. */
  readonly was_mailed?: boolean;
}

/** The next state of a delivery. `gone`: the receiver wants no more deliveries (410). */
export type Verdict = { outcome: "delivered" | "failed" | "gone" } | { outcome: "retry"; delay_s: number };
