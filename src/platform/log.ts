import pino from "pino";

export type Log = pino.Logger;

/** API keys, wherever in a line they stand: in the message of an error of somebody else's, say. */
const API_KEY = /purser_live_[0-9A-Za-z]{8,}/g;

/** JSON lines on stderr, so that stdout carries only what a person or a script reads. */
export function createLog(level: string): Log {
  const redact = {
    paths: ["*.authorization", "*.cookie", "*.key", "*.api_key", "*.value", "*.secret", "*.password"],
    censor: "[redacted]",
  };
  const hooks = { streamWrite: (line: string) => line.replaceAll(API_KEY, "purser_live_[redacted]") };
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime, redact, hooks }, pino.destination(2));
}
