import pino from "pino";

export type Log = pino.Logger;

/** JSON lines on stderr, so that stdout carries only what a person or a script reads. */
export function createLog(level: string): Log {
  const redact = {
    paths: ["*.authorization", "*.cookie", "*.key", "*.api_key", "*.value", "*.secret", "*.password"],
    censor: "[redacted]",
  };
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime, redact }, pino.destination(2));
}
