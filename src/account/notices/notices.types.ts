import type { NoticeEvent } from "../../api/contract/notices.ts";
import type { RunDetail, RunRecord } from "../../api/contract/runs.ts";
import type { NoticeData } from "../../api/contract/webhooks.ts";

/** The characters of a call's arguments in the notice that asks for its approval. */
export const NOTICE_ARGUMENTS_CHARS = 1_000;

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
  /** The beginning of the answer's body. */
  readonly answer?: string;
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
