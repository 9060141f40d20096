import pino from "pino";
import { isDatabaseAway } from "./sql-state.ts";
import { activeSpan } from "./tracing.ts";

export type Log = pino.Logger;

/** API keys anywhere in a log line, for example in another library's error message. */
const API_KEY = /purser_live_[0-9A-Za-z]{8,}/g;

const FATAL = 60;
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

/** Writes JSON lines to stderr. So stdout carries only output for people and scripts. */
export function createLog(level: string, base: LogBase | null = null): Log {
  const redact = {
    paths: ["*.authorization", "*.cookie", "*.key", "*.api_key", "*.value", "*.secret", "*.password"],
    censor: "[redacted]",
  };
  const hooks: pino.LoggerOptions["hooks"] = {
    // The database's own line reports the outage (outage.ts), so the statements that fail meanwhile are debug lines.
    logMethod(args, method, level) {
      const [fields] = args as [unknown];
      const is_of_outage = isDatabaseAway((fields as { error?: unknown } | null)?.error);
      if (!is_of_outage || level >= FATAL || this.isLevelEnabled("debug")) method.apply(this, args);
    },
    streamWrite: (line: string) => line.replaceAll(API_KEY, "purser_live_[redacted]"),
  };
  const serializers = { error: describeError };
  // Pino adds the line's fields to this object, so each line needs its own.
  const mixin = () => {
    const span = activeSpan();
    return span === null ? {} : { trace_id: span.trace_id };
  };
  return pino(
    { level, base, timestamp: pino.stdTimeFunctions.isoTime, redact, hooks, serializers, mixin },
    pino.destination(2),
  );
}
