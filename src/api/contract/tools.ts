import type { CommonSettings, SecretBinding, ToolContract, ToolProblem } from "./tool-fields.ts";
import { mcp } from "./tool-mcp.ts";
import { sendWebhook } from "./tool-send-webhook.ts";
import { webFetch } from "./tool-web-fetch.ts";
import { z } from "./zod.ts";

/**
 * The tools an agent may have and their settings: contract 7. Each tool is a file `tool-….ts` beside this one with its settings,
 * limits and arguments, a file in `src/agents/tools/` that carries out its calls, and one line here and in `src/agents/tools/registry.ts`.
 */
const TOOL_CONTRACTS = [webFetch, sendWebhook, mcp] as const;

type Contracts = (typeof TOOL_CONTRACTS)[number];
export type ToolName = Contracts["name"];
type SettingsSchemas = { [Each in Contracts as Each["name"]]: z.ZodOptional<Each["settings"]> };

const settings_of = Object.fromEntries(
  TOOL_CONTRACTS.map(({ name, settings }) => [name, (settings as z.ZodType).optional()]),
) as unknown as SettingsSchemas;

/** `tools_config` of an agent. A disabled tool need not have its required settings. */
export const toolsConfigSchema = z.strictObject(settings_of).openapi("ToolsConfig");

/** The settings in requests and answers: a secret's name may be null. */
export type ShownToolsConfig = z.infer<typeof toolsConfigSchema>;
/** The stored settings: every secret has its name. */
export type ToolsConfig = Named<ShownToolsConfig>;

/** The settings with no null in place of a secret's name. */
type Named<Settings> = Settings extends readonly (infer Item)[]
  ? Named<Item>[]
  : Settings extends object
    ? { [Key in keyof Settings]: Key extends "secret" ? Exclude<Settings[Key], null> : Named<Settings[Key]> }
    : Settings;

export type WebFetchSettings = NonNullable<ToolsConfig["web_fetch"]>;
export type AuthSettings = NonNullable<WebFetchSettings["auth"]>[number];
export type SendWebhookSettings = NonNullable<ToolsConfig["send_webhook"]>;
export type McpSettings = NonNullable<ToolsConfig["mcp"]>;
export type McpServer = NonNullable<McpSettings["servers"]>[number];

/** A binding of some tool; `path` leads from `tools_config` to the secret's name. */
export interface ToolSecretBinding extends SecretBinding {
  readonly tool: ToolName;
  readonly is_enabled: boolean;
}

/** Every binding of a secret in `tools_config`, also of tools that are disabled. */
export function secretBindings(config: ShownToolsConfig): ToolSecretBinding[] {
  return TOOL_CONTRACTS.flatMap((tool): ToolSecretBinding[] => {
    const settings: CommonSettings | undefined = config[tool.name];
    if (settings === undefined) return [];
    const bindings = (tool.secretBindings as (settings: CommonSettings) => SecretBinding[])(settings);
    const { name } = tool;
    return bindings.map((binding) => ({
      ...binding,
      tool: name,
      is_enabled: settings.enabled,
      path: [name, ...binding.path],
    }));
  });
}

/** The names of secrets in `tools_config` with their paths and hosts, without nulls. Hosts are null where they are not listed. */
export function secretsReferred(
  config: ShownToolsConfig,
): { name: string; path: readonly PropertyKey[]; hosts: readonly string[] | null }[] {
  return secretBindings(config).flatMap(({ secret, path, hosts, urls }) => {
    if (secret === null) return [];
    const of_urls = urls.flatMap((url) => URL.parse(url)?.host ?? []);
    return { name: secret, path, hosts: hosts ?? (of_urls.length > 0 ? of_urls : null) };
  });
}

/** The problems of enabled tools, with their paths from `tools_config`. */
export function toolProblems(config: ShownToolsConfig): ToolProblem[] {
  return TOOL_CONTRACTS.flatMap((tool: ToolContract) => {
    const settings: CommonSettings | undefined = config[tool.name as ToolName];
    const problem = settings?.enabled ? tool.problem?.(settings) : null;
    return problem == null ? [] : { ...problem, path: [tool.name, ...problem.path] };
  });
}

/** The tools whose settings have `safety: off`, which the operator must have allowed. */
export function unjudgedTools(config: ShownToolsConfig): ToolName[] {
  const names = TOOL_CONTRACTS.map(({ name }) => name);
  return names.filter((name) => (config[name] as CommonSettings | undefined)?.safety === "off");
}
