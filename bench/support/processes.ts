import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { createWriteStream, readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

/** The cores: load and upstream on one, the measured service on the other. */
export const CORES = { load: 0, service: 1 } as const;
export type Core = keyof typeof CORES;

const START_MS = 180_000;
const KIB_PER_MB = 1000 / 1.024;

/** Processes that end with this one. */
const children = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});
// An interrupted program must leave no server behind: it would take processor time from the next measurement.
process.once("SIGINT", () => process.exit(130));
process.once("SIGTERM", () => process.exit(143));

/** Ends `child` with this process, also if a signal ends it. */
export function endWithProcess(child: ChildProcess): void {
  children.add(child);
  child.once("exit", () => children.delete(child));
}

/** A child process that prints its address. */
export interface ServerProcess {
  pid: number;
  port: number;
  url: string;
  /** From the start of the process to that line. */
  started_in_ms: number;
  /** Stops it like an operator would. Resolves when it has exited. */
  stop(): Promise<void>;
  /** kill -9. Resolves when it has exited. */
  kill(): Promise<void>;
  exited: Promise<void>;
}

/** Whether this machine can pin processes to a core. */
export const canPin = process.platform === "linux" && availableParallelism() > 1 && hasTaskset();

function hasTaskset(): boolean {
  try {
    execFileSync("taskset", ["-V"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Pins this process to the load's core while `work` runs. */
export async function onLoadCore<T>(work: () => Promise<T>): Promise<T> {
  if (!canPin) return work();
  const holdTo = (cores: string) =>
    execFileSync("taskset", ["-a", "-c", "-p", cores, String(process.pid)], { stdio: "ignore" });
  const all = `0-${availableParallelism() - 1}`;
  holdTo(String(CORES.load));
  return work().finally(() => holdTo(all));
}

/**
 * Starts `command` and waits for the line on its stdout that names a loopback address. `output`: a file that gets
 * everything that the process prints.
 */
export async function startServer(
  command: readonly string[],
  options: {
    core?: Core;
    env?: Record<string, string | undefined>;
    cwd?: string;
    output?: string;
  } = {},
): Promise<ServerProcess> {
  const pinned =
    options.core !== undefined && canPin ? ["taskset", "-c", String(CORES[options.core]), ...command] : command;
  const started_ms = performance.now();
  const child = spawn(pinned[0] ?? "", pinned.slice(1), {
    env: { ...process.env, ...options.env },
    cwd: options.cwd,
    stdio: ["ignore", "pipe", "pipe"],
  });
  endWithProcess(child);
  if (options.output !== undefined) {
    const file = createWriteStream(options.output, { flags: "a" });
    for (const stream of [child.stdout, child.stderr]) stream.pipe(file, { end: false });
  }
  // "close" also waits for a grandchild that holds the pipes: the service below npm.
  const exited = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const end = (signal: NodeJS.Signals) => {
    child.kill(signal);
    return exited;
  };
  try {
    const port = await new Promise<number>((resolve, reject) => {
      let said = "";
      const hear = (chunk: Buffer) => {
        said += chunk;
        const match = /https?:\/\/(?:127\.0\.0\.1|localhost):(\d+)/.exec(said);
        if (match !== null) resolve(Number(match[1]));
      };
      child.stdout.on("data", hear);
      // Keep reading, because a full pipe would block the process.
      child.stderr.on("data", (chunk) => {
        if (said.length < 10_000) said += chunk;
      });
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`${command.join(" ")} ended with ${code}:\n${said}`)));
      setTimeout(() => reject(new Error(`${command.join(" ")} named no address:\n${said}`)), START_MS).unref();
    });
    const started_in_ms = performance.now() - started_ms;
    const url = `http://127.0.0.1:${port}`;
    const [stop, kill] = [() => end("SIGTERM"), () => end("SIGKILL")];
    return { pid: child.pid ?? 0, port, url, started_in_ms, stop, kill, exited };
  } catch (error) {
    await end("SIGKILL");
    throw error;
  }
}

/** Resident memory of a process and all below it, in MB; NaN where there is no /proc. */
export function residentMb(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const own = Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / KIB_PER_MB;
    return childrenOf(pid).reduce((sum, child) => sum + residentMb(child), own);
  } catch {
    return Number.NaN;
  }
}

function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
  );
}

/** Processor time that a process has used so far, in ms; NaN where there is no /proc. */
export function processorMs(pid: number): number {
  try {
    // The first field of each thread: nanoseconds. /proc/PID/stat has only hundredths of a second.
    const nanoseconds = readdirSync(`/proc/${pid}/task`).map((thread) =>
      Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ", 1)[0]),
    );
    return nanoseconds.reduce((sum, each) => sum + each, 0) / 1e6;
  } catch {
    return Number.NaN;
  }
}

/** Processor time of a process and of all processes below it that still run, in ms. */
export function processorMsBelow(pid: number): number {
  return childrenOf(pid).reduce((sum, child) => sum + processorMsBelow(child), processorMs(pid));
}
