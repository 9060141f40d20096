import { accessErrors } from "./errors-access.ts";
import { conflictErrors } from "./errors-conflict.ts";
import { paymentErrors } from "./errors-payment.ts";
import { requestErrors } from "./errors-request.ts";
import { serviceErrors } from "./errors-service.ts";
import { isDatabaseAway, isErasedUser } from "./platform/sql-state.ts";
import { PurserError } from "./purser-error.ts";

/**
 * Every failure a caller can expect, by its status in one of the files errors-*.ts: code, status, and a sentence that
 * says what to do next. Detail that could give something away goes to the log, never here.
 */

export type * from "./errors-payment.ts";
export { type ErrorShape, PurserError } from "./purser-error.ts";

export const errors = { ...requestErrors, ...accessErrors, ...paymentErrors, ...conflictErrors, ...serviceErrors };

/** The failure that a caller gets for any thrown value. An unexpected one becomes `internal`, and is its cause. */
export function asPurserError(thrown: unknown): PurserError {
  if (thrown instanceof PurserError) return thrown;
  if (isErasedUser(thrown)) return errors.notFound("This user");
  return isDatabaseAway(thrown) ? errors.databaseAway(thrown) : errors.internal(thrown);
}
