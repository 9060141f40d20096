import { LRUCache } from "lru-cache";
import type { AgentConfig } from "./agent-config.ts";
import type { AgentRow, AgentsStore, VersionConfig } from "./agents.store.ts";

/** Limits of each cache: entries, and characters of their settings. One agent may have 4 million characters. */
const LIMITS = { max: 1_000, maxSize: 67_108_864, sizeCalculation: measureSize };

function measureSize({ system_prompt, run_prompt, tools_config, input_schema, output_schema }: AgentConfig): number {
  const settings = JSON.stringify([tools_config, input_schema, output_schema]);
  return 1 + (system_prompt?.length ?? 0) + (run_prompt?.length ?? 0) + settings.length;
}

/**
 * A cache of agents as this node last read them. It is not notified of changes, so its users pass the agent's version
 * and read again when that version is out of date.
 */
export function createAgentCache() {
  const agents = new LRUCache<string, AgentRow>(LIMITS);
  const getKey = (user_id: string, id: string) => `${user_id} ${id}`;
  return {
    get: (user_id: string, id: string): AgentRow | undefined => agents.get(getKey(user_id, id)),
    forget: (user_id: string, id: string): void => void agents.delete(getKey(user_id, id)),
    keep: (agent: AgentRow): void => void agents.set(getKey(agent.user_id, agent.id), agent),
  };
}

/**
 * A cache of configurations by version; a version never changes. It does not check for deleted agents, because deleting
 * an agent cancels its runs, and a run that is being cancelled begins no step.
 */
export function createConfigCache(store: Pick<AgentsStore, "version">) {
  const configs = new LRUCache<string, VersionConfig>(LIMITS);
  return async (version: Parameters<AgentsStore["version"]>[0]): Promise<VersionConfig | undefined> => {
    const key = `${version.user_id} ${version.agent_id} ${version.version}`;
    const kept = configs.get(key);
    if (kept !== undefined) return kept;
    const config = (await store.version(version))?.config;
    if (config !== undefined) configs.set(key, config);
    return config;
  };
}
