import type { AgentChanges, AgentRecord } from "../../api/contract/agents.ts";
import type { AgentDelivery } from "../../api/contract/deliveries.ts";
import { contractErrors } from "../../api/contract/errors.ts";
import type { RunData } from "../../api/contract/runs.ts";
import type { ToolsConfig } from "../../api/contract/tools.ts";
import { paramOf } from "../../api/contract/validation.ts";
import { AGENT_LIMITS, APPROVAL_HOURS, MODEL_SETTINGS } from "../../kernel/constants.ts";
import { errors } from "../../kernel/errors.ts";
import { stableJson } from "../../platform/lib/json.ts";
import { findSchemaFault, findValueFault, type Schema } from "../../platform/lib/value-schema.ts";
import { checkPlaceholders } from "../runs/prompts.ts";
import type { ScheduleView } from "./default-schedule.ts";

/** The settings of an agent that its user controls. Each change makes a new version, and runs pin a version. */
export type AgentConfig = Omit<Pick<AgentRecord, keyof typeof DEFAULTS | "name">, "tools_config"> & {
  tools_config: ToolsConfig;
};
/** Changes of a configuration, with the names of all secrets. */
export type NamedChanges = Omit<AgentChanges, "tools_config" | keyof ScheduleView> & {
  tools_config?: ToolsConfig | undefined;
};

/** The name of automatic routing in the place of a model. */
export const AUTO_MODEL = "auto";

/** contract 6: the defaults of an agent that was created with only a name. */
const DEFAULTS = {
  description: null,
  system_prompt: null,
  run_prompt: null,
  model_id: null,
  auto_route: false,
  is_active: true,
  tools_config: {},
  input_schema: null,
  output_schema: null,
  client_tools: "ignore",
  deliveries: [] as AgentDelivery[],
  approval_hours: APPROVAL_HOURS as number,
  on_budget: "fail",
  limits: AGENT_LIMITS,
  model_settings: MODEL_SETTINGS,
} as const;

/** A stored configuration with the settings that its release did not have. */
export function withDefaults(config: AgentConfig): AgentConfig {
  return { ...DEFAULTS, ...config };
}

/** A new agent's configuration. Throws 400 for settings that do not fit together. */
export function newConfig(wanted: NamedChanges & { name: string }): AgentConfig {
  return changedConfig({ ...DEFAULTS, name: wanted.name }, wanted);
}

/**
 * `config` with the given fields. Fields of `limits` and `model_settings` are merged one by one; other fields are
 * replaced. Throws 400.
 */
export function changedConfig(config: AgentConfig, changes: NamedChanges): AgentConfig {
  const given = withoutUndefined(changes);
  // As in model calls, `auto` asks the service to choose.
  if (given.model_id === AUTO_MODEL) Object.assign(given, { model_id: null, auto_route: true });
  const limits = { ...config.limits, ...withoutUndefined(changes.limits ?? {}) };
  const model_settings = { ...config.model_settings, ...withoutUndefined(changes.model_settings ?? {}) };
  const changed: AgentConfig = { ...config, ...given, limits, model_settings };
  check(changed);
  return changed;
}

/** Whether two configurations are the same, field by field. */
export function sameConfig(one: AgentConfig, other: AgentConfig): boolean {
  return Object.keys(one).every((key) => stableJson(one[key as "name"]) === stableJson(other[key as "name"]));
}

function check(config: AgentConfig): void {
  if (!config.auto_route && config.model_id === null) throw errors.missingField("model_id");
  for (const name of ["input_schema", "output_schema"] as const) checkSchema(config[name], name);
  for (const name of ["system_prompt", "run_prompt"] as const)
    checkPlaceholders(config[name], name, config.input_schema);
}

/** Throws 400 for a schema that cannot be used. */
export function checkSchema(schema: Schema | null, param: string): void {
  const fault = schema === null ? null : findSchemaFault(schema);
  if (fault === null) return;
  const at = paramOf([param, ...fault.path]);
  throw errors.invalidValue(at, `${at} ${fault.message}.`);
}

/** Throws 400 for an input that the agent's schema does not take. `param`: where the input is in the request. */
export function checkInput(schema: Schema | null, input: RunData | null, param = "input"): void {
  const fault = schema === null ? null : findValueFault(schema, input ?? {});
  if (fault === null) return;
  const at = paramOf([param, ...fault.path]);
  if (fault.kind === "missing") throw errors.missingField(at, "The agent's input_schema says so.");
  if (fault.kind === "unknown") throw contractErrors.unknownFields([at], fault.known);
  throw errors.invalidValue(at, `${at} ${fault.message}.`);
}

/** Why the schema does not take the input of a schedule; null: it does. */
export function findMisfit(schema: Schema | null, input: RunData | null): string | null {
  const fault = schema === null ? null : findValueFault(schema, input ?? {});
  return fault === null ? null : `${paramOf(["input", ...fault.path])} ${fault.message}`;
}

function withoutUndefined<T extends object>(fields: T): { [Key in keyof T]: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
