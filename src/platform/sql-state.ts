/**
 * Classes of database errors by their SQLSTATE (PostgreSQL manual, appendix A). This is the only file that reads them.
 *
 * A system error such as EPIPE also has five characters, but it starts with E and has no digit.
 */

/** connection_exception, operator_intervention */
const SERVER_LEFT = /^(08|57)/;
/** idle_in_transaction_session_timeout, transaction_timeout: the server ended the session between two statements. */
const SESSION_ENDED = /^25P0[34]$/;
/**
 * The server cannot work at the moment: read_only_sql_transaction (a standby that was not promoted yet),
 * invalid_authorization, invalid_catalog_name, transaction_rollback, insufficient_resources,
 * object_not_in_prerequisite_state, system_error.
 */
const SERVER_UNABLE = /^(25006|28|3D|40|53|55000|58)/;
const SQL_STATE = /^(?!E)[0-9A-Z]{5}$/;

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : "";
}

/** Whether the database rejected the statement itself. A repeat would fail the same way; every other error may be retried. */
export function isRefusal(error: unknown): boolean {
  const code = codeOf(error);
  return SQL_STATE.test(code) && ![SERVER_LEFT, SESSION_ENDED, SERVER_UNABLE].some((states) => states.test(code));
}

/**
 * Whether the server answered with an error, so that the transaction has left nothing behind. An error of a connection
 * that ended says nothing about what was committed.
 */
export function isAnswered(error: unknown): boolean {
  const code = codeOf(error);
  return SQL_STATE.test(code) && /\d/.test(code) && !/^(08|57P)/.test(code) && !SESSION_ENDED.test(code);
}

/** deadlock_detected, serialization_failure: the server undid the transaction because of another one. */
export function isUndone(error: unknown): boolean {
  return ["40P01", "40001"].includes(codeOf(error));
}

/** unique_violation */
export function isUniqueViolation(error: unknown): boolean {
  return codeOf(error) === "23505";
}
