import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BenchService, configure, type Place, startService } from "../support/service.ts";

/** The API node on PostgreSQL. Embedded storage has one node for everything. */
export const API = "api";

/** The time of a kill, or, with `process` null, of ending all leases. */
export interface Loss {
  /** The process that was killed: each start of a node has a name of its own. */
  process: string | null;
  at_ms: number;
}

export interface Nodes {
  losses: Loss[];
  /** The running nodes, which may be killed. */
  alive(): string[];
  /** The address of the API; null while it is down. */
  api(): BenchService | null;
  /** kill -9. The same node restarts in the background after `meanwhile`. */
  kill(name: string, meanwhile?: () => Promise<void>): Promise<void>;
  /** Resolves when all nodes run. Rejects when one could not restart. */
  allUp(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts the nodes at the same moment. Each process calls the model under its own address. */
export async function startNodes(
  place: Place,
  { names, model_url, egress }: { names: readonly string[]; model_url: string; egress: string },
): Promise<Nodes> {
  configure(place, model_url);
  const running = new Map<string, { service: BenchService; process: string }>();
  const starting = new Map<string, Promise<void>>();
  const losses: Loss[] = [];
  let starts = 0;

  const start = async (name: string) => {
    starts += 1;
    const process = `${name}-${starts}`;
    const env = { ...place.env, PURSER_EGRESS_ALLOW: egress, PURSER_CONFIG: configOf(place, process, model_url) };
    const role = names.length === 1 ? "all" : name === API ? "api" : "worker";
    running.set(name, { service: await startService({ ...place, env: { ...env, PURSER_ROLE: role } }), process });
  };
  const begin = (name: string, meanwhile: () => Promise<void>) => {
    const begun = meanwhile().then(() => start(name));
    begun.catch(() => {}); // the caller of `all` gets this error
    starting.set(name, begun);
  };
  for (const name of names) begin(name, async () => {});
  const allUp = async () => {
    await Promise.all(starting.values());
  };
  const stop = async () => {
    await Promise.allSettled(starting.values());
    await Promise.all([...running.values()].map(({ service }) => service.stop()));
  };
  await allUp().catch(async (error) => {
    await stop();
    throw error;
  });
  return {
    losses,
    alive: () => [...running.keys()],
    api: () => running.get(names.length === 1 ? (names[0] ?? "") : API)?.service ?? null,
    async kill(name, meanwhile = async () => {}) {
      const victim = running.get(name);
      if (victim === undefined) return;
      running.delete(name);
      losses.push({ process: victim.process, at_ms: performance.now() });
      await victim.service.kill();
      begin(name, meanwhile);
    },
    allUp,
    stop,
  };
}

/** The configuration of one process: a tool-calling model, and enough slots for all runs at once. */
function configOf(place: Place, process: string, model_url: string): string {
  const config = JSON.parse(readFileSync(join(place.folder, "purser.json"), "utf8"));
  config.providers[0].base_url = `${model_url}/${process}/v1`;
  for (const model of config.models) model.supports = { tools: true };
  Object.assign(config.limits, { concurrent_runs: 256, concurrent_runs_per_user: 256 });
  const path = join(place.folder, `${process}.json`);
  writeFileSync(path, JSON.stringify(config));
  return path;
}
