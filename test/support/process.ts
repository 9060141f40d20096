import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestDatabase } from "./database.ts";
import { ADMIN_KEY } from "./service.ts";

const ROOT = join(import.meta.dirname, "../..");
/** Node in the version that the repository pins, as `npm start` uses it. */
const NODE = join(ROOT, "node_modules/.bin/node");
/** Compiled modules for all processes of a run of the suite. They halve the time of a start. */
export const COMPILE_CACHE = join(ROOT, "node_modules/.cache/tests");
/** As in vitest.config.ts: a process that opens PGlite takes half the processor time to start. */
export const FLAGS = ["--liftoff-only"];

/** The service as its own process. */
export interface RunningProcess {
  /** `http://HOST:PORT` once it listens. Rejects with its output if it ends before. */
  listening: Promise<string>;
  /** Its output so far. */
  stdout(): string;
  stderr(): string;
  /** Resolves when it has ended. */
  ended: Promise<{ code: number | null; stdout: string; stderr: string }>;
  signal(name: "SIGTERM" | "SIGKILL" | "SIGHUP"): void;
}

/** Starts `node src/cli/main.ts` as `npm start` does, with only these variables. */
export function startProcess(env: Record<string, string>): RunningProcess {
  const found = { PATH: process.env.PATH ?? "", NODE_COMPILE_CACHE: COMPILE_CACHE };
  const child = spawn(NODE, [...FLAGS, "src/cli/main.ts"], { cwd: ROOT, env: { ...found, ...env } });
  let [stdout, stderr] = ["", ""];
  child.stderr.on("data", (bytes) => {
    stderr += bytes;
  });
  const ended = new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) => {
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
  const listening = new Promise<string>((resolve, reject) => {
    child.stdout.on("data", (bytes) => {
      stdout += bytes;
      const url = /^listening on (http:\/\/\S+)$/m.exec(stdout)?.[1];
      if (url !== undefined) resolve(url);
    });
    ended.then(() => reject(new Error(`it ended before it listened: ${stdout}${stderr}`)));
  });
  // A test may wait only for the end, and must not get an unhandled rejection.
  listening.catch(() => {});
  return { listening, stdout: () => stdout, stderr: () => stderr, ended, signal: (name) => void child.kill(name) };
}

/** Starts the service as its own process on a test's database. A second one finds what the first has left. */
export function startProcessOn({ data_dir, database_url }: TestDatabase, env: Record<string, string>): RunningProcess {
  return startProcess({
    PORT: "0",
    DATA_DIR: data_dir,
    PURSER_ADMIN_KEY: ADMIN_KEY,
    PURSER_KEK: `test:${Buffer.alloc(32, 7).toString("base64")}`,
    LOG_LEVEL: "silent",
    ...(database_url === null ? {} : { DATABASE_URL: database_url }),
    ...env,
  });
}

/** The result of a command. */
export interface CommandResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs `purser` with these arguments and only these variables. `as`: another system user. */
export function runPurser(
  args: readonly string[],
  env: Record<string, string> = {},
  as: { uid?: number; gid?: number } = {},
): Promise<CommandResult> {
  return startPurser(args, env, as).ended;
}

/** The same, for a command that a test watches or kills. */
export function startPurser(
  args: readonly string[],
  env: Record<string, string> = {},
  as: { uid?: number; gid?: number } = {},
) {
  const found = { PATH: process.env.PATH ?? "", NODE_COMPILE_CACHE: COMPILE_CACHE };
  const child = spawn(NODE, [...FLAGS, "src/cli/purser.ts", ...args], { cwd: ROOT, env: { ...found, ...env }, ...as });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (bytes) => {
    stdout += bytes;
  });
  child.stderr.on("data", (bytes) => {
    stderr += bytes;
  });
  const ended = new Promise<CommandResult>((done) => child.on("close", (code) => done({ code, stdout, stderr })));
  return { ended, stdout: () => stdout, kill: () => void child.kill("SIGKILL") };
}

/** `npm run -s sanitize`: lines in, answers out, in order. */
export function startSanitizeLines() {
  const child = spawn(NODE, ["src/cli/sanitize.ts"], { cwd: ROOT, stdio: ["pipe", "pipe", "inherit"] });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    write: (text: string) => void child.stdin.write(text),
    end: () => void child.stdin.end(),
    answer: async () => JSON.parse((await answers.next()).value ?? "null"),
    code: new Promise<number | null>((resolve) => child.on("close", resolve)),
  };
}
