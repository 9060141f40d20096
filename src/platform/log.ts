import pino from "pino";

export type Log = pino.Logger;

/** API keys anywhere in a log line, for example in another library's error message. */
const API_KEY = /purser_live_[0-9A-Za-z]{8,}/g;

/** Writes JSON lines to stderr. So stdout carries only output for people and scripts. */
export function createLog(level: string): Log {
  const redact = {
    paths: ["*.authorization", "*.cookie", "*.key", "*.api_key", "*.value", "*.secret", "*.password"],
    censor: "[redacted]",
  };
  const hooks = { streamWrite: (line: string) => line.replaceAll(API_KEY, "purser_live_[redacted]") };
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime, redact, hooks }, pino.destination(2));
}
