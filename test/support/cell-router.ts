import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const DEPLOY = join(import.meta.dirname, "../../deploy");

/** The routing buckets of each cell, as deploy/haproxy-cells.map divides them. */
export const CELLS = { a: "00-Uz", b: "V0-zz" } as const;
export type CellName = keyof typeof CELLS;

/** A free port of loopback. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** HAProxy with deploy/haproxy-cells.cfg in front of these cells. It is ready when `ready` answers through it. */
export async function startRouter(cells: Readonly<Record<CellName, string>>, port: number, ready = "/readyz") {
  const env = {
    PATH: process.env.PATH ?? "",
    PURSER_ROUTER: `127.0.0.1:${port}`,
    CELL_A: new URL(cells.a).host,
    CELL_B: new URL(cells.b).host,
    CELLS_MAP: join(DEPLOY, "haproxy-cells.map"),
  };
  const args = ["-q", "-db", "-f", join(DEPLOY, "haproxy-cells.cfg")];
  const router: ChildProcess = spawn("/usr/sbin/haproxy", args, { env, stdio: "ignore" });
  const url = `http://127.0.0.1:${port}`;
  for (;;) {
    if (router.exitCode !== null) throw new Error("haproxy ended at once");
    const answer = await fetch(`${url}${ready}`).catch(() => null);
    if (answer?.ok) return { url, stop: () => stopped(router) };
    await delay(50);
  }
}

async function stopped(router: ChildProcess): Promise<void> {
  const exited = once(router, "exit");
  router.kill("SIGTERM");
  await exited;
}
