import { z } from "./zod.ts";

/** Fields beside an `agent_id`, so that a client needs no list of agents to show its name. */
export const agentNameFields = {
  agent_name: z.string().nullable().openapi({
    description: "the agent's name, also after it was deleted; null: no agent, or its record has been removed",
  }),
  agent_deleted: z.boolean().openapi({ description: "the agent was deleted: GET /api/v1/agents/{id} answers 404" }),
};

/** Names of a user's agents by id, deleted ones included; an agent whose record has been removed is absent. */
export type AgentNames = ReadonlyMap<string, { name: string; deleted: boolean }>;
export type AgentNamesOf = (user_id: string, ids: readonly string[]) => Promise<AgentNames>;

/** The fields of `agentNameFields` for an agent; null: no agent. */
export function agentNameOf(names: AgentNames, agent_id: string | null) {
  if (agent_id === null) return { agent_name: null, agent_deleted: false };
  const found = names.get(agent_id);
  return { agent_name: found?.name ?? null, agent_deleted: found?.deleted ?? true };
}

/** The agents that these rows name, each once. */
export const agentIdsIn = (rows: readonly { agent_id: string | null }[]): string[] => [
  ...new Set(rows.flatMap(({ agent_id }) => agent_id ?? [])),
];

/** The rows with the name of their agent. */
export const withAgentNames = <Row extends { agent_id: string | null }>(rows: readonly Row[], names: AgentNames) =>
  rows.map((row) => ({ ...row, ...agentNameOf(names, row.agent_id) }));
