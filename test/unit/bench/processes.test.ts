import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { expect, it } from "vitest";

const PROCESSES = import.meta.resolve("../../../bench/support/processes.ts");
/** A server, and a program that starts it and prints its process id. */
const SERVER =
  'require("http").createServer().listen(0, function () { console.log("http://127.0.0.1:" + this.address().port) })';
const PROGRAM = `
  import { startServer } from ${JSON.stringify(PROCESSES)};
  console.log((await startServer([process.execPath, "-e", ${JSON.stringify(SERVER)}])).pid);
`;

const isRunning = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

it.each(["SIGTERM", "SIGINT"] as const)("a program of bench/ that %s ends leaves no server behind", async (signal) => {
  const program = spawn(process.execPath, ["--input-type=module-typescript", "-e", PROGRAM]);
  const [line] = await once(createInterface({ input: program.stdout }), "line");
  const server = Number(line);
  expect(isRunning(server)).toBe(true);
  program.kill(signal);
  await once(program, "exit");
  await expect.poll(() => isRunning(server)).toBe(false);
});
