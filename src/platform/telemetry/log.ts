import { writeSync } from "node:fs";
import { isDatabaseAway } from "../../kernel/sql-state.ts";
import { createSystemClock, monotonicMs } from "../lib/clock.ts";
import { activeSpan } from "./tracing.ts";

/** Writes a line with these fields and this message. */
interface LogMethod {
  (message: string): void;
  (fields: object, message: string): void;
}

/** The numbers of the levels in log lines. */
const LEVELS = { trace: 10, debug: 20, info: 30, warn: 40, error: 50, fatal: 60 } as const;

export type Log = Record<keyof typeof LEVELS, LogMethod>;

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
 * `write` gets each line in place of stderr.
 */
export function createLog(
  level: string,
  base: LogBase | null = null,
  write: (line: string, level: number) => void = (line, number) => stderr.write(line, number),
): Log {
  const clock = createSystemClock();
  const least = LEVELS[level as keyof Log] ?? Number.POSITIVE_INFINITY;
  const of_process = base === null ? "" : `,${inner(base)}`;

  function method(name: keyof Log): LogMethod {
    const number = LEVELS[name];
    if (number < least) return () => {};
    const head = `{"level":${number},"time":"`;
    return (...args: [string] | [object, string]) => {
      const [fields, message] = args.length === 1 ? [null, args[0]] : args;
      try {
        if (number < LEVELS.fatal && least > LEVELS.debug && isOfOutage(fields)) return;
        const trace_id = activeSpan()?.trace_id;
        const trace = trace_id === undefined ? "" : `,"trace_id":"${trace_id}"`;
        const own = textOf(fields);
        const line = `${head}${clock.now()}"${of_process}${trace}${own},"msg":${JSON.stringify(String(message))}}\n`;
        write(line.replaceAll(API_KEY, "purser_live_[redacted]"), number);
      } catch {
        // An error here must not stop the work that is logged.
      }
    };
  }
  return {
    trace: method("trace"),
    debug: method("debug"),
    info: method("info"),
    warn: method("warn"),
    error: method("error"),
    fatal: method("fatal"),
  };
}

/** The database's own line reports the outage (outage.ts), so the statements that fail meanwhile are debug lines. */
function isOfOutage(fields: unknown): boolean {
  try {
    return isPlain(fields) && "error" in fields && isDatabaseAway(fields.error);
  } catch {
    return false;
  }
}

function isPlain(fields: unknown): fields is Record<string, unknown> {
  if (typeof fields !== "object" || fields === null || "toJSON" in fields) return false;
  const parent = Object.getPrototypeOf(fields);
  return parent === Object.prototype || parent === null;
}

/** The fields as JSON, after a comma. */
function textOf(fields: unknown): string {
  if (fields === null || fields === undefined) return "";
  if (!isPlain(fields)) return ',"fields":"[not a plain object]"';
  try {
    return afterComma(redacted(fields));
  } catch {
    return Object.keys(fields)
      .map((name) => textOfOne(fields, name))
      .join("");
  }
}

/** One field, so that a field that is not JSON spoils no other. */
function textOfOne(fields: Record<string, unknown>, name: string): string {
  try {
    return afterComma(redacted({ [name]: fields[name] }));
  } catch {
    return `,${JSON.stringify(name)}:"[not JSON]"`;
  }
}

function afterComma(fields: object): string {
  const text = inner(fields);
  return text === "" ? "" : `,${text}`;
}

function inner(fields: object): string {
  return JSON.stringify(fields).slice(1, -1);
}

/** The fields with errors by their message, and without secrets in their objects. */
function redacted(fields: Record<string, unknown>): Record<string, unknown> {
  let copy = "error" in fields ? { ...fields, error: describeError(fields.error) } : fields;
  for (const name in copy) {
    const value = copy[name];
    if (typeof value !== "object" || value === null) continue;
    const hidden = SECRET_FIELDS.filter((secret) => Object.hasOwn(value, secret));
    if (hidden.length === 0) continue;
    copy = { ...copy, [name]: { ...value, ...Object.fromEntries(hidden.map((secret) => [secret, "[redacted]"])) } };
  }
  return copy;
}

/**
 * Lines up to this level are written together, because a write costs more than a line. Other lines are written at once,
 * and all before the exit event. A process that is killed or ends without it loses at most the lines of 100 ms.
 */
const HELD_BACK = LEVELS.info;
const HELD_BACK_MS = 100;
/** The longest wait for a full pipe. Then the lines are dropped. */
const FULL_PIPE = { tries: 100, ms: 10 };
/** For this time after a drop, lines that the pipe refuses are dropped without a wait, which blocks the event loop. */
const STALLED_MS = 5_000;
const LINE_END = 10;

/** Takes bytes from an index on, and returns how many it took. Throws EAGAIN when it is full. */
type TakeBytes = (bytes: Buffer, from: number) => number;

/** Writes lines of the log. `take` is stderr. */
export function createLineWriter(take: TakeBytes) {
  let waiting = "";
  let stalled_until = 0;
  /** Whether a drop left half a line. Then the next write begins with a line end. */
  let is_cut = false;

  function flush(): void {
    if (waiting === "") return;
    const lines = Buffer.from(is_cut ? `\n${waiting}` : waiting);
    waiting = "";
    const length = writeAll(lines, take, monotonicMs() < stalled_until ? 1 : FULL_PIPE.tries);
    if (length > 0) is_cut = lines[length - 1] !== LINE_END;
    if (length < lines.length) stalled_until = monotonicMs() + STALLED_MS;
  }

  return {
    write(line: string, level: number): void {
      if (waiting === "" && level <= HELD_BACK) setTimeout(flush, HELD_BACK_MS).unref();
      waiting += line;
      if (level > HELD_BACK) flush();
    },
    flush,
  };
}

/** Returns how many bytes were written. */
function writeAll(lines: Buffer, take: TakeBytes, most_tries: number): number {
  let length = 0;
  for (let tries = 0; length < lines.length; ) {
    try {
      length += take(lines, length);
    } catch (error) {
      tries += 1;
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN" || tries >= most_tries) break;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FULL_PIPE.ms);
    }
  }
  return length;
}

const stderr = createLineWriter((bytes, from) => writeSync(2, bytes, from));
process.on("exit", stderr.flush);
