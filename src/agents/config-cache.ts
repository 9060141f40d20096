import type { AgentConfig } from "./agent-config.ts";
import type { AgentsStore } from "./agents.store.ts";

/** Configurations kept, of the versions that ran last. */
const SIZE = 1_000;

/**
 * The configuration of a version, which never changes. Whether the agent is still there is not asked again: deleting it
 * cancels its runs, and one that is being cancelled begins no step.
 */
export function createConfigCache(store: Pick<AgentsStore, "version">) {
  const known = new Map<string, AgentConfig>();
  return async (version: Parameters<AgentsStore["version"]>[0]): Promise<AgentConfig | undefined> => {
    const key = `${version.user_id} ${version.agent_id} ${version.version}`;
    const config = known.get(key) ?? (await store.version(version))?.config;
    if (config === undefined) return undefined;
    // the last one of the map is the one that was asked for last
    known.delete(key);
    known.set(key, config);
    for (const oldest of known.keys()) {
      if (known.size <= SIZE) break;
      known.delete(oldest);
    }
    return config;
  };
}
