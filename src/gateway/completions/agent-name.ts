const PREFIX = "agent/";

/** The id in `model: "agent/{id}"`; null for any other model. */
export function agentIdOf(model: string): string | null {
  return model.startsWith(PREFIX) ? model.slice(PREFIX.length) : null;
}
