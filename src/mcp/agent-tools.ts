/** The names of agents as MCP tools. Pure. */

export interface NamedAgent {
  readonly id: string;
  readonly name: string;
}

const MAX_SLUG = 48;
const SUFFIX = 8;

/**
 * The tool name of each agent. Agents whose slugs are equal all get the end of their id, so that a name never passes
 * from one to the other without notice.
 */
export function toolNames<Agent extends NamedAgent>(agents: readonly Agent[]): Map<string, Agent> {
  const slugs = Map.groupBy(agents, ({ name }) => slugOf(name));
  const named = [...slugs].flatMap(([slug, group]) =>
    group.map((agent): [string, Agent] => [
      group.length === 1 ? `run_${slug}` : `run_${slug}_${agent.id.replaceAll("-", "").slice(-SUFFIX)}`,
      agent,
    ]),
  );
  return new Map(named);
}

/** Lower-case letters, digits and single `_`: what every model's provider takes in a tool's name. */
export function slugOf(name: string): string {
  const plain = name.normalize("NFKD").replaceAll(/\p{M}/gu, "").toLowerCase();
  const slug = plain
    .replaceAll(/[^a-z0-9]+/g, "_")
    .slice(0, MAX_SLUG)
    .replaceAll(/^_+|_+$/g, "");
  return slug === "" ? "agent" : slug;
}
