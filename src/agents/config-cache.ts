import type { AgentConfig } from "./agent-config.ts";
import type { AgentsStore } from "./agents.store.ts";

/** Size of the cache, in configurations. It keeps the versions that ran last. */
const SIZE = 1_000;

/**
 * A cache of configurations by version; a version never changes. It does not check for deleted agents, because deleting
 * an agent cancels its runs, and a run that is being cancelled begins no step.
 */
export function createConfigCache(store: Pick<AgentsStore, "version">) {
  const known = new Map<string, AgentConfig>();
  return async (version: Parameters<AgentsStore["version"]>[0]): Promise<AgentConfig | undefined> => {
    const key = `${version.user_id} ${version.agent_id} ${version.version}`;
    const config = known.get(key) ?? (await store.version(version))?.config;
    if (config === undefined) return undefined;
    // the map's last entry is the most recently used one
    known.delete(key);
    known.set(key, config);
    for (const oldest of known.keys()) {
      if (known.size <= SIZE) break;
      known.delete(oldest);
    }
    return config;
  };
}
