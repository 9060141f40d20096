import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BenchService, configure, type Place, startService } from "../support/service.ts";

/** On PostgreSQL: the node that serves the API. Embedded storage has one node, which is everything. */
export const API = "api";

/** When a node was killed, or, `node` null, when the leases of all were ended. */
export interface Loss {
  node: string | null;
  at_ms: number;
}

export interface Nodes {
  losses: Loss[];
  /** Those that listen at this moment and may be killed. */
  alive(): string[];
  /** Where the API is; null while it is away. */
  api(): BenchService | null;
  /** kill -9; in the background the same node is started again, after `meanwhile`. */
  kill(name: string, meanwhile?: () => Promise<void>): Promise<void>;
  /** Resolves when all nodes are there; rejects when one could not be started again. */
  allUp(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts the nodes at the same moment; each calls the model under an address of its own. */
export async function startNodes(
  place: Place,
  { names, model_url, egress }: { names: readonly string[]; model_url: string; egress: string },
): Promise<Nodes> {
  configure(place, model_url);
  const running = new Map<string, BenchService>();
  const starting = new Map<string, Promise<void>>();
  const losses: Loss[] = [];

  const start = async (name: string) => {
    const env = { ...place.env, PURSER_EGRESS_ALLOW: egress, PURSER_CONFIG: configOf(place, name, model_url) };
    const role = names.length === 1 ? "all" : name === API ? "api" : "worker";
    running.set(name, await startService({ ...place, env: { ...env, PURSER_ROLE: role } }));
  };
  const begin = (name: string, meanwhile: () => Promise<void>) => {
    const begun = meanwhile().then(() => start(name));
    begun.catch(() => {}); // whoever waits for all hears of it
    starting.set(name, begun);
  };
  for (const name of names) begin(name, async () => {});
  const allUp = async () => {
    await Promise.all(starting.values());
  };
  const stop = async () => {
    await Promise.allSettled(starting.values());
    await Promise.all([...running.values()].map((service) => service.stop()));
  };
  await allUp().catch(async (error) => {
    await stop();
    throw error;
  });
  return {
    losses,
    alive: () => [...running.keys()],
    api: () => running.get(names.length === 1 ? (names[0] ?? "") : API) ?? null,
    async kill(name, meanwhile = async () => {}) {
      const service = running.get(name);
      if (service === undefined) return;
      running.delete(name);
      losses.push({ node: name, at_ms: performance.now() });
      await service.kill();
      begin(name, meanwhile);
    },
    allUp,
    stop,
  };
}

/** The operator's file of one node: a tool-calling model, and room for all runs at once. */
function configOf(place: Place, name: string, model_url: string): string {
  const config = JSON.parse(readFileSync(join(place.folder, "purser.json"), "utf8"));
  config.providers[0].base_url = `${model_url}/${name}/v1`;
  for (const model of config.models) model.supports = { tools: true };
  Object.assign(config.limits, { concurrent_runs: 256, concurrent_runs_per_user: 256 });
  const path = join(place.folder, `${name}.json`);
  writeFileSync(path, JSON.stringify(config));
  return path;
}
