import type { RunError } from "../contract/runs.ts";
import { PurserError } from "../errors.ts";

/** Failures of a model call that no other run could get past: they keep their own code. */
const OWN_CODE = new Set([
  "budget_exceeded",
  "context_length_exceeded",
  "model_not_trial_eligible",
  "account_suspended",
]);

/** contract 6: what a run fails with when a model call threw. The message is fit for the user: it comes from the catalogue. */
export function modelCallError(thrown: unknown): RunError {
  if (!(thrown instanceof PurserError)) return internalError();
  const { status, code, message } = thrown.shape;
  if (code === "key_budget_exceeded") return { code: "budget_exceeded", message };
  if (status === 402) return { code: "insufficient_tokens", message };
  if (OWN_CODE.has(code)) return { code, message };
  return { code: "model_unavailable", message };
}

/** A failure that nobody foresaw: its detail is in the log. */
export function internalError(): RunError {
  return {
    code: "internal",
    message: "Something went wrong here. Run the agent again; if it stays, report the run's id.",
  };
}
