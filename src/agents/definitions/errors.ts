import { AGENT_BYTES, AGENT_SCHEDULES, USER_ROWS } from "../../kernel/constants.ts";
import { conflict, tooMany } from "../../kernel/purser-error.ts";

/** Errors of agents. */
export const agentErrors = {
  agentDisabled: () => conflict("agent_disabled", "This agent is disabled. Set is_active to true first."),
  agentLimitReached: () => conflict("agent_limit_reached", tooMany(USER_ROWS.agents, "agents")),
  agentStorageFull: () =>
    conflict(
      "agent_storage_full",
      `Your agents and their earlier versions have ${AGENT_BYTES / 1_048_576} MB. Delete an agent first.`,
    ),
  scheduleLimitReached: () =>
    conflict("schedule_limit_reached", `This agent has ${AGENT_SCHEDULES} schedules. Delete one first.`),
  scheduleNameTaken: () =>
    conflict("name_taken", "A schedule of this name already exists. Choose another name.", "name"),
  webhookKeyUnreadable: () =>
    conflict(
      "key_unreadable",
      "This agent's key cannot be opened: the service's master key is another one now. Tell its operator.",
    ),
};
