import type { NoticeEvent } from "../../api/contract/notices.ts";
import type { PauseReason } from "../../api/contract/payments.ts";
import type { RunDetail, RunRecord, RunTrigger } from "../../api/contract/runs.ts";
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
    trigger: "schedule" | "manual" | "webhook";
    error_code: string;
    error_message: string;
  };
  /** A run succeeded although a call of a tool failed or its answer is incomplete. The last step with an error. */
  "run.has_errors": {
    agent_id: string;
    run_id: string;
    trigger: "schedule" | "manual" | "webhook";
    failed_steps: number;
    tool: string;
    error_code: string;
    error_message: string;
  };
  "run.succeeded": { agent_id: string; run_id: string; trigger: "schedule" | "manual" | "webhook" };
  /** A run waits for its user's decisions: one notice for all that it asks at once. */
  "run.requires_action": {
    agent_id: string;
    run_id: string;
    trigger: RunTrigger;
    actions_count: number;
    /** The first ones. */
    actions: NoticeAction[];
  };
  /** The result of a run could not be delivered: why the last try failed. */
  "delivery.failed": {
    agent_id: string;
    run_id: string;
    delivery_id: string;
    to: string;
    last_status: number | null;
    last_error: string | null;
  };
  "schedule.paused": { agent_id: string; schedule_id: string; schedule_name: string; reason: string };
  "secret.reflected": { secret_id: string; secret_name: string; run_id: string | null };
  "secret.disconnected": { secret_id: string; secret_name: string; server: string };
  "subscription.renewed": { plan_id: string; period_start: Instant; period_end: Instant };
}

export const NOTICE_ARGUMENTS_CHARS = 1_000;

/** What a run asks: a call of a tool, or tokens (then tool, destination and arguments are null). */
export interface NoticeAction {
  id: string;
  type: "tool_approval" | "budget";
  tool: string | null;
  destination: string | null;
  /** The first NOTICE_ARGUMENTS_CHARS of their JSON, and … if there is more, which the run's record has. */
  arguments: string | null;
  reason: string;
  expires_at: Instant;
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

/** The result of an ended run for one address of its agent. */
export interface NewResult {
  user_id: string;
  run_id: string;
  address: string;
  unless_unchanged: boolean;
}

/** An ended run, with what its deliveries tell. */
export interface RunResult {
  run: RunRecord & Pick<RunDetail, "input" | "output" | "output_json">;
  agent_name: string;
  /** null: it has no schedule, or the schedule was deleted. */
  schedule_name: string | null;
}

/** What an address got last. `schedule_id`: NIL_ID for run-nows. */
export interface LastOutput {
  agent_id: string;
  schedule_id: string;
  output_hash: string;
}

/** The result of one try: an HTTP status, or the error when there is none. */
export interface TryResult {
  readonly status: number | null;
  readonly error: string | null;
  /** No other try can succeed. */
  readonly is_final?: boolean;
  /** A mail server was asked. */
  readonly was_mailed?: boolean;
  /** Of a result: its agent, and the output to keep if it was delivered. */
  readonly of_run?: { agent_id: string; output: LastOutput | null };
  /** It was not sent, because its output is the one that the address got last. */
  readonly is_unchanged?: boolean;
}

/** The next state of a delivery. `gone`: the receiver wants no more deliveries (410). */
export type Verdict = { outcome: "delivered" | "failed" | "gone" | "skipped" } | { outcome: "retry"; delay_s: number };
