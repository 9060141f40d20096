import type { AgentRow } from "./agents.store.ts";

/** Size of the cache, in agents. The least recently used ones are evicted. */
const SIZE = 1_000;

/**
 * A cache of agents as this node last read them. It is not notified of changes, so its users pass the agent's version
 * and read again when that version is out of date.
 */
export function createAgentCache() {
  const known = new Map<string, AgentRow>();
  const keyOf = (user_id: string, id: string) => `${user_id} ${id}`;
  return {
    get: (user_id: string, id: string): AgentRow | undefined => known.get(keyOf(user_id, id)),
    forget: (user_id: string, id: string): void => void known.delete(keyOf(user_id, id)),
    keep(agent: AgentRow): void {
      const key = keyOf(agent.user_id, agent.id);
      known.delete(key);
      known.set(key, agent);
      for (const oldest of known.keys()) {
        if (known.size <= SIZE) break;
        known.delete(oldest);
      }
    },
  };
}
