import pino from "pino";
import { isDatabaseAway } from "./sql-state.ts";

export type Log = pino.Logger;

/** API keys anywhere in a log line, for example in another library's error message. */
const API_KEY = /purser_live_[0-9A-Za-z]{8,}/g;

const FATAL = 60;

/** Writes JSON lines to stderr. So stdout carries only output for people and scripts. */
export function createLog(level: string): Log {
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
  const serializers = { error: (error: unknown) => (error instanceof Error ? error.message : error) };
  return pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime, redact, hooks, serializers },
    pino.destination(2),
  );
}
