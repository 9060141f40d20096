import type { AgentKey } from "../contract/agents.ts";

/** A schedule that was active and has been paused. */
export interface SchedulePaused extends AgentKey {
  reason: string;
}
