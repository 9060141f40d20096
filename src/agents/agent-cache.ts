import type { AgentRow } from "./agents.store.ts";

/** Agents kept, the most recently used ones. */
const SIZE = 1_000;

/**
 * Agents as they were when they were last read here. Nobody tells it of changes: whoever acts on what it says names the
 * version, and looks again when that is no more the agent's.
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
