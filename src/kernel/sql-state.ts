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

function readCode(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : "";
}

/** Whether the database rejected the statement itself. A repeat would fail the same way; every other error may be retried. */
export function isRefusal(error: unknown): boolean {
  const code = readCode(error);
  return SQL_STATE.test(code) && ![SERVER_LEFT, SESSION_ENDED, SERVER_UNABLE].some((states) => states.test(code));
}

/**
 * Whether the server answered with an error, so that the transaction has left nothing behind. An error of a connection
 * that ended says nothing about what was committed.
 */
export function isAnswered(error: unknown): boolean {
  const code = readCode(error);
  return SQL_STATE.test(code) && /\d/.test(code) && !/^(08|57P)/.test(code) && !SESSION_ENDED.test(code);
}

/** deadlock_detected, serialization_failure: the server undid the transaction because of another one. */
export function isUndone(error: unknown): boolean {
  return ["40P01", "40001"].includes(readCode(error));
}

/** disk_full */
export function isDiskFull(error: unknown): boolean {
  return readCode(error) === "53100" && exceededLimit(error) === null;
}

/**
 * The limit of the server that one large query exceeded: configuration_limit_exceeded (`temp_file_limit`), or the shared
 * memory of parallel queries, 64 MB in most containers. PostgreSQL reports that as disk_full, from its `dsm_impl_posix`.
 * Its `dsm_impl_mmap` writes files beside the data, so there the disk is full.
 */
export function exceededLimit(error: unknown): "shared_memory" | "temporary_files" | null {
  if (readCode(error) === "53400") return "temporary_files";
  const routine = (error as { routine?: unknown } | null)?.routine;
  return typeof routine === "string" && /^dsm_impl_(posix|sysv)/.test(routine) ? "shared_memory" : null;
}

/**
 * duplicate_prepared_statement, invalid_sql_statement_name: a pooler in transaction mode has given the session of one client
 * to another.
 */
export function isSharedSession(error: unknown): boolean {
  return /^(42P05|26000)$/.test(readCode(error));
}

/** read_only_sql_transaction: a standby, or a primary that was replaced. */
export function isReadOnlyServer(error: unknown): boolean {
  return readCode(error) === "25006";
}

/** invalid_authorization, invalid_catalog_name, insufficient_privilege: waiting does not help. */
export function isUnusable(error: unknown): boolean {
  return (
    /^(28|3D|42501)/.test(readCode(error)) ||
    (error instanceof Error && error.cause !== undefined && isUnusable(error.cause))
  );
}

/** transaction_rollback, query_canceled: they concern one statement. */
const ONE_STATEMENT = /^(40|57014)/;

/** A value that cannot be sent or read. */
function isProgramError(error: unknown): boolean {
  return error instanceof TypeError || error instanceof RangeError;
}

/** Whether the error shows that the database as a whole does not work now. */
export function isOutage(error: unknown): boolean {
  const is_one_statement = ONE_STATEMENT.test(readCode(error)) || exceededLimit(error) !== null;
  return !isRefusal(error) && !isProgramError(error) && !is_one_statement;
}

/**
 * The database could not do a statement, and the statement may be repeated. `code` is the SQLSTATE or the system's
 * error code, if there is one.
 */
export class DatabaseAwayError extends Error {
  readonly code: string | undefined;
  constructor(cause: Error) {
    super(cause.message, { cause });
    this.name = "DatabaseAwayError";
    this.code = readCode(cause) || undefined;
  }
}

/** Marks an error of the database adapter that is not about the statement itself. Returns other errors unchanged. */
export function asDatabaseError(error: unknown): unknown {
  if (isRefusal(error) || isProgramError(error) || error instanceof DatabaseAwayError) return error;
  return new DatabaseAwayError(error as Error);
}

/** Whether the error, or a cause of it, is a database that could not do its work. */
export function isDatabaseAway(error: unknown): boolean {
  if (error instanceof DatabaseAwayError) return true;
  if (error instanceof AggregateError) return error.errors.every(isDatabaseAway);
  return error instanceof Error && error.cause !== undefined && isDatabaseAway(error.cause);
}

/** unique_violation */
export function isUniqueViolation(error: unknown): boolean {
  return readCode(error) === "23505";
}

/** A row was inserted for a user who is erased, or is being erased. Raised by the trigger `refuse_erased`. */
export function isErasedUser(error: unknown): boolean {
  return readCode(error) === "PU404";
}
