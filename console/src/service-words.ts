import { words } from "./format.ts";

/** Messages and statuses of the service in the console's words and colours. */

/** The editor's labels of the settings that the service's messages name. */
const LABELS: Record<string, string> = {
  client_tools: "Tools of the calling program",
  input_schema: "Input schema",
  max_cost_tokens_per_month: "Tokens per month",
  max_cost_tokens_per_run: "Tokens per run",
  max_output_tokens: "Most output tokens per call",
  max_run_seconds: "Seconds per run",
  max_steps: "Steps per run",
  max_tokens: "Most output tokens per call",
  model_id: "Model",
  output_schema: "Output schema",
  run_prompt: "Task of each run",
  system_prompt: "Instructions",
};
const NAMED = new RegExp(`(?<![.\\w])(?:limits\\.|model_settings\\.)?(${Object.keys(LABELS).join("|")})\\b`, "g");

/** The editor's label of a field of an agent: `limits.max_steps`. */
export const settingName = (field: string): string =>
  LABELS[field.replace(/^(limits|model_settings)\./, "")] ??
  words(field.replace("tools_config.", "tools: ").replaceAll(".", ", "));

/** Parts of messages that say which request mends something. */
const FOR_PROGRAMS: readonly (readonly [string, string])[] = [
  [
    "Set another model_id with PUT /api/v1/agents/{id}; GET /api/v1/models lists them.",
    "Choose another model for the agent.",
  ],
  [', and on_tool_failure of this tool is "fail"', ", and “If a call fails” of this tool is “The run fails”"],
  ["use a model with supports.json_schema", "use a model that answers by a schema"],
  ["give the agent a model with supports.vision (GET /api/v1/models)", "choose a model that reads pictures"],
  [
    "raise its budget_tokens (PATCH /api/v1/api-keys/{id}), or wait for its budget_resets_at",
    "raise its budget, or wait until it starts again",
  ],
];

/** A message of the service with the console's names for its settings. */
export const inWords = (message: string): string =>
  FOR_PROGRAMS.reduce((text, [sent, shown]) => text.replace(sent, shown), message).replace(
    NAMED,
    (_, name) => `“${LABELS[name]}”`,
  );

const KEY_PAUSES = {
  key_revoked: "the API key that enabled the schedule was revoked",
  key_expired: "the API key that enabled the schedule has expired",
  key_budget_exceeded: "the budget of the API key that enabled the schedule is used up",
};

/** Why a schedule is paused, or did not run, without the API's codes and fields. */
export const scheduleReason = (reason: string): string =>
  inWords(reason)
    .replace(": set schedule_enabled to true to resume", "")
    .replace(
      /\b(key_(?:revoked|expired|budget_exceeded))\b.*/,
      (_all, code: keyof typeof KEY_PAUSES) => KEY_PAUSES[code],
    );

const AGENT_WARNINGS: Record<string, string> = {
  no_destination: "“Send webhooks” is on, but has no address, so each webhook fails. Edit the agent to enter one.",
  model_unavailable: "This agent's model is not offered any more, so each run fails. Edit the agent to choose another.",
};

/** A warning of an agent's record, without the API's fields. */
export const agentWarning = (code: string, message: string): string => AGENT_WARNINGS[code] ?? message;

const CHOICE = /^score (\d+)(?: \((.+)\))?: tier (\w+), (?:the cheapest in it|none in it, (\w+) is nearest)/;

/** Why a model was chosen, without the names of the routing's parts. */
export function routingReason(reason: string): string {
  if (reason === "kept from earlier turns") return "It answered the earlier turns.";
  const [, score, signs, tier, nearest] = CHOICE.exec(reason) ?? [];
  if (score === undefined) return reason;
  const task = `By its score of ${score}${signs === undefined ? "" : ` (${signs})`}, the task needs a model of the tier “${tier}”.`;
  const choice =
    nearest === undefined
      ? "This is the cheapest one."
      : `There is none, so this is the cheapest of the next tier, “${nearest}”.`;
  const resting = reason.endsWith("go last") ? " Models whose provider failed recently were tried last." : "";
  return `${task} ${choice}${resting}`;
}

/** The colours of the statuses of purchases and of invoices. */
export const PURCHASE_TONES = {
  pending: "warn",
  succeeded: "good",
  failed: "bad",
  refunded: "neutral",
  mismatch: "bad",
} as const;
export const INVOICE_TONES = { open: "warn", paid: "good", unpaid: "bad", void: "neutral" } as const;
