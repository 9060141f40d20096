import pino from "pino";
import { isDatabaseAway } from "../../kernel/sql-state.ts";
import { activeSpan } from "./tracing.ts";

/** Writes a line with these fields and this message. */
interface LogMethod {
  (message: string): void;
  (fields: object, message: string): void;
}

export type Log = Record<"trace" | "debug" | "info" | "warn" | "error" | "fatal", LogMethod>;

/** API keys anywhere in a log line, for example in another library's error message. */
const API_KEY = /purser_live_[0-9A-Za-z]{8,}/g;

/** Fields of a line's objects that are never logged. */
const SECRET_FIELDS = ["authorization", "cookie", "key", "api_key", "value", "secret", "password"];

const SQL_STATE = /^(?=.*\d)[0-9A-Z]{5}$/;

/**
 * An error's message for a log line. Messages of the database and of a parser may quote what a user wrote, so of these
 * only the code or the kind remains.
 */
export function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { code, name, message } = error as Error & { code?: unknown };
  if (typeof code === "string" && SQL_STATE.test(code)) return `database error ${code}`;
  return error instanceof SyntaxError ? name : message;
}

/**
 * The fields of an unexpected error for a log line. Its message may quote what a user wrote, so only its kind and its
 * place remain.
 */
export function describeUnexpected({ name, message, stack = "", code }: Error & { code?: unknown }) {
  const frames = stack
    .replace(message, "")
    .split("\n")
    .filter((line) => /^ {4}at /.test(line));
  return { cause: name, reason: typeof code === "string" ? code : undefined, stack: frames.join("\n") };
}

/** Ends the process after an error that no code handles, with one line in place of Node's raw text. */
export function exitOnUncaught(log: Log): void {
  process.on("uncaughtException", (thrown: unknown) => {
    const error = thrown instanceof Error ? thrown : new Error("a value that is no error");
    log.fatal(describeUnexpected(error), "an unexpected error ended the process");
    process.exit(1);
  });
}

/** What each line says of its process. */
export interface LogBase {
  node: string;
  role: string;
  version: string;
}

/**
 * Writes JSON lines to stderr, so that stdout carries only output for people and scripts. `level` may be "silent".
 * `destination` gets each line in place of stderr.
 */
export function createLog(
  level: string,
  base: LogBase | null = null,
  destination: { write(line: string): void } = stderr,
): Log {
  const { debug, fatal } = pino.levels.values;
  return pino(
    {
      level,
      base,
      timestamp: pino.stdTimeFunctions.isoTime,
      mixin: traceFields,
      serializers: { error: describeError },
      formatters: { log: hideSecrets },
      hooks: {
        logMethod(args, write, number) {
          if (number !== fatal && this.levelVal !== debug && isOfOutage(args[0])) return;
          write.apply(this, args);
        },
        streamWrite: (line) => line.replaceAll(API_KEY, "purser_live_[redacted]"),
      },
    },
    destination,
  );
}

/**
 * Lines are collected for up to 100 ms, because a write costs more than a line. While stderr takes none, at most this
 * many bytes wait and later lines are dropped, because a log that is read too slowly must not stop the service.
 */
const stderr = pino.destination({ fd: 2, sync: false, minLength: 4_096, maxLength: 1_048_576, periodicFlush: 100 });
process.on("exit", () => stderr.flushSync());

function traceFields(): { trace_id?: string } {
  const trace_id = activeSpan()?.trace_id;
  return trace_id === undefined ? {} : { trace_id };
}

/** The fields without secrets in their objects. pino's own `redact` takes four times as long as the rest of a line. */
function hideSecrets(fields: Record<string, unknown>): Record<string, unknown> {
  let shown = fields;
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value !== "object" || value === null) continue;
    const hidden = SECRET_FIELDS.filter((secret) => Object.hasOwn(value, secret));
    if (hidden.length === 0) continue;
    shown = { ...shown, [name]: { ...value, ...Object.fromEntries(hidden.map((secret) => [secret, "[redacted]"])) } };
  }
  return shown;
}

/** The database's own line reports the outage (outage.ts), so the statements that fail meanwhile are debug lines. */
function isOfOutage(fields: unknown): boolean {
  return typeof fields === "object" && fields !== null && "error" in fields && isDatabaseAway(fields.error);
}
