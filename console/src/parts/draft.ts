import { APPROVAL_HOURS } from "../../../src/kernel/constants.ts";
import type { Body } from "../api/client.ts";
import type { Agent } from "../api/queries.ts";
import { changedFields, toList } from "../format.ts";
import { objectOf, objectText } from "../json.ts";
import { type TimesDraft, timesDraft, timesOf } from "./times-draft.ts";

/** An agent in the editor. Typed fields are text, because a half-typed number is not yet a number. */

export type Inject = "bearer" | "basic" | "header" | "query" | "hmac";
/** How a tool sends a secret, and to which hosts. `name` is the user name, header or parameter. */
export interface SecretUse {
  secret: string;
  inject: Inject;
  name: string;
  hosts: string;
  paths: string;
  methods: string;
}
export interface McpServer {
  name: string;
  url: string;
  tools: string;
  policy: Policy;
  /** Single tools that differ from `policy`, by the server's names. */
  tool_policies: ToolPolicy[];
  timeout_seconds: string;
  auth: SecretUse | null;
  /** The saved server; null: a new one. Settings without a field in the editor stay unchanged. */
  kept: SavedServer | null;
}
/** Whether a call waits for the owner's approval. */
export type Policy = NonNullable<NonNullable<Agent["tools_config"]["web_fetch"]>["permission_policy"]>;
export interface ToolPolicy {
  tool: string;
  policy: Policy;
}
type SavedServer = NonNullable<NonNullable<Agent["tools_config"]["mcp"]>["servers"]>[number];

/** A delivery of results. `to` is an e-mail address or a web address. */
export interface DeliveryDraft {
  to: string;
  when: "both" | "succeeded" | "failed";
  unless_unchanged: boolean;
}
export const NO_DELIVERY: DeliveryDraft = { to: "", when: "both", unless_unchanged: false };

/** What a failed call of a tool does to its run. */
export type OnFailure = "continue" | "fail";

export interface Draft {
  /** When a new agent runs; null: only when it is started. Schedules of a saved agent are records of their own. */
  when: TimesDraft | null;
  name: string;
  description: string;
  system_prompt: string;
  run_prompt: string;
  model_id: string;
  auto_route: boolean;
  is_active: boolean;
  client_tools: Agent["client_tools"];
  on_budget: Agent["on_budget"];
  fetch_enabled: boolean;
  fetch_hosts: string;
  fetch_methods: string;
  fetch_strict: boolean;
  fetch_calls: string;
  fetch_failure: OnFailure;
  fetch_policy: Policy;
  fetch_auth: SecretUse[];
  webhook_enabled: boolean;
  webhook_urls: string;
  webhook_secret: string;
  webhook_strict: boolean;
  webhook_calls: string;
  webhook_failure: OnFailure;
  webhook_policy: Policy;
  mcp_enabled: boolean;
  mcp_servers: McpServer[];
  mcp_calls: string;
  mcp_failure: OnFailure;
  /** The saved tool settings. Settings without a field in the editor stay unchanged. */
  tools_kept: Agent["tools_config"];
  deliveries: DeliveryDraft[];
  approval_hours: string;
  /** JSON, or empty: none. */
  input_schema: string;
  output_schema: string;
  limits: Record<LimitName, string>;
  model_settings: Record<ModelSettingName, string>;
}
export type LimitName = keyof Agent["limits"];
export type ModelSettingName = keyof Agent["model_settings"];

type AgentBody = Body<"POST /api/v1/agents">;

/** What tools do unless their settings say otherwise. */
const USUAL_FAILURE = { web_fetch: "continue", send_webhook: "fail", mcp: "continue" } as const;
const USUAL_POLICY: Policy = "always_allow";

export const NO_SERVER: McpServer = {
  name: "",
  url: "",
  tools: "",
  policy: "ask_after_untrusted",
  tool_policies: [],
  timeout_seconds: "",
  auth: null,
  kept: null,
};
export const NO_SECRET_USE: SecretUse = { secret: "", inject: "bearer", name: "", hosts: "", paths: "", methods: "" };

type Auth = NonNullable<NonNullable<Agent["tools_config"]["web_fetch"]>["auth"]>[number];
const list = (entries: readonly string[] | undefined) => (entries ?? []).join(", ");

function secretUse(auth: Omit<Auth, "hosts"> & { hosts?: string[] | undefined }): SecretUse {
  const { inject } = auth;
  const name =
    "username" in inject ? inject.username : "name" in inject ? inject.name : "header" in inject ? inject.header : "";
  return {
    secret: auth.secret ?? "", // null only for keys without secrets:read: a session has every scope
    inject: inject.type,
    name,
    hosts: list(auth.hosts),
    paths: list(auth.paths),
    methods: list(auth.methods),
  };
}

/** The credential for the API. An MCP server without hosts uses its own host. */
function authOf({ secret, inject: type, name, hosts, paths, methods }: SecretUse): Auth {
  const inject = {
    bearer: { type },
    basic: { type, username: name },
    header: { type, name },
    query: { type, name },
    hmac: { type, header: name },
  }[type];
  return {
    secret,
    inject: inject as Auth["inject"],
    ...definedLists({ hosts, paths, methods }),
  } as Auth;
}

/** The filled-in fields as lists. */
function definedLists(texts: Record<string, string>): Record<string, string[]> {
  const lists = Object.entries(texts).map(([name, text]) => [name, toList(text)] as const);
  return Object.fromEntries(lists.filter(([, entries]) => entries.length > 0));
}

/** The draft of an agent. A setting that is not given has its default. */
export function draftOf(agent: Agent | AgentBody): Draft {
  const { tools_config = {}, limits = {}, model_settings = {} } = agent;
  const { web_fetch, send_webhook, mcp } = tools_config;
  const text = (value: number | null | undefined) => String(value ?? "");
  return {
    when: null,
    name: agent.name,
    description: agent.description ?? "",
    system_prompt: agent.system_prompt ?? "",
    run_prompt: agent.run_prompt ?? "",
    model_id: agent.model_id ?? "",
    auto_route: agent.auto_route ?? true,
    is_active: agent.is_active ?? true,
    client_tools: agent.client_tools ?? "ignore",
    on_budget: agent.on_budget ?? "fail",
    fetch_enabled: web_fetch?.enabled ?? false,
    fetch_hosts: list(web_fetch?.hosts),
    fetch_methods: list(web_fetch?.methods),
    fetch_strict: web_fetch?.safety === "strict",
    fetch_calls: text(web_fetch?.max_calls),
    fetch_failure: web_fetch?.on_tool_failure ?? USUAL_FAILURE.web_fetch,
    fetch_policy: web_fetch?.permission_policy ?? USUAL_POLICY,
    fetch_auth: (web_fetch?.auth ?? []).map(secretUse),
    webhook_enabled: send_webhook?.enabled ?? false,
    webhook_urls: (send_webhook?.urls ?? []).join("\n"),
    webhook_secret: send_webhook?.secret ?? "",
    webhook_strict: send_webhook?.safety === "strict",
    webhook_calls: text(send_webhook?.max_calls),
    webhook_failure: send_webhook?.on_tool_failure ?? USUAL_FAILURE.send_webhook,
    webhook_policy: send_webhook?.permission_policy ?? USUAL_POLICY,
    mcp_enabled: mcp?.enabled ?? false,
    mcp_servers: (mcp?.servers ?? []).map((kept) => ({
      name: kept.name,
      url: kept.url,
      tools: list(kept.tools),
      policy: kept.permission_policy ?? policyOf(kept.effects),
      tool_policies: toolPolicies(kept),
      timeout_seconds: text(kept.timeout_seconds),
      auth: kept.auth === undefined ? null : secretUse(kept.auth),
      kept,
    })),
    mcp_calls: text(mcp?.max_calls),
    mcp_failure: mcp?.on_tool_failure ?? USUAL_FAILURE.mcp,
    tools_kept: tools_config,
    deliveries: (agent.deliveries ?? []).map(deliveryDraft),
    approval_hours: text(agent.approval_hours),
    input_schema: objectText(agent.input_schema ?? null),
    output_schema: objectText(agent.output_schema ?? null),
    limits: {
      max_steps: text(limits.max_steps),
      max_run_seconds: text(limits.max_run_seconds),
      max_cost_tokens_per_run: text(limits.max_cost_tokens_per_run),
      max_cost_tokens_per_month: text(limits.max_cost_tokens_per_month),
      max_consecutive_failures: text(limits.max_consecutive_failures),
    },
    model_settings: {
      temperature: text(model_settings.temperature),
      top_p: text(model_settings.top_p),
      reasoning_effort: model_settings.reasoning_effort ?? "",
      max_output_tokens: text(model_settings.max_output_tokens),
    },
  };
}

export const EMPTY_DRAFT = draftOf({ name: "" });

/** The draft of an agent that is created with its schedule. */
export function newAgentDraft(agent: AgentBody): Draft {
  const { schedule_enabled, schedule_interval, schedule_time, schedule_timezone } = agent;
  const usual = timesDraft(null);
  const when: TimesDraft = {
    ...usual,
    interval: schedule_interval ?? usual.interval,
    times: schedule_time == null ? usual.times : [schedule_time],
    days_of_week: agent.schedule_days_of_week ?? usual.days_of_week,
    day_of_month: agent.schedule_day_of_month ?? usual.day_of_month,
    timezone: schedule_timezone ?? usual.timezone,
  };
  return { ...draftOf(agent), when: schedule_enabled === true ? when : null };
}

const orNull = (text: string) => (text.trim() === "" ? null : text);

const safety = (strict: boolean, kept: string | undefined) => (strict ? "strict" : kept === "off" ? "off" : undefined);
/** Absent where it was absent and the default is chosen. */
const onFailure = (
  chosen: OnFailure,
  kept: { on_tool_failure?: OnFailure | undefined } | undefined,
  usual: OnFailure,
) => (kept?.on_tool_failure === undefined && chosen === usual ? undefined : chosen);
const numberOf = (text: string) => (text === "" ? undefined : Number(text));
const listOrNone = (text: string) => {
  const entries = toList(text);
  return entries.length === 0 ? undefined : entries;
};

function toolsOf(draft: Draft): Agent["tools_config"] {
  const { web_fetch, send_webhook, mcp } = draft.tools_kept;
  // A tool that this form does not show keeps its settings.
  const tools: Record<string, unknown> = { ...draft.tools_kept };
  if (draft.fetch_enabled || web_fetch !== undefined) {
    tools.web_fetch = {
      ...web_fetch,
      enabled: draft.fetch_enabled,
      hosts: listOrNone(draft.fetch_hosts),
      methods: listOrNone(draft.fetch_methods),
      safety: safety(draft.fetch_strict, web_fetch?.safety),
      max_calls: numberOf(draft.fetch_calls),
      on_tool_failure: onFailure(draft.fetch_failure, web_fetch, USUAL_FAILURE.web_fetch),
      permission_policy: policySetting(draft.fetch_policy, web_fetch, USUAL_POLICY),
      auth: draft.fetch_auth.length === 0 ? undefined : draft.fetch_auth.map(authOf),
    };
  }
  if (draft.webhook_enabled || send_webhook !== undefined) {
    tools.send_webhook = {
      ...send_webhook,
      enabled: draft.webhook_enabled,
      urls: listOrNone(draft.webhook_urls),
      secret: orNull(draft.webhook_secret) ?? undefined,
      safety: safety(draft.webhook_strict, send_webhook?.safety),
      max_calls: numberOf(draft.webhook_calls),
      on_tool_failure: onFailure(draft.webhook_failure, send_webhook, USUAL_FAILURE.send_webhook),
      permission_policy: policySetting(draft.webhook_policy, send_webhook, USUAL_POLICY),
    };
  }
  if (draft.mcp_enabled || mcp !== undefined) {
    const servers = draft.mcp_servers.map(
      ({ name, url, tools: offered, policy, tool_policies, auth, kept, ...server }) => ({
        ...kept,
        name,
        url,
        tools: listOrNone(offered),
        ...policySettings({ policy, tool_policies, kept }),
        timeout_seconds: numberOf(server.timeout_seconds),
        auth: auth === null ? undefined : authOf(auth),
      }),
    );
    tools.mcp = {
      ...mcp,
      enabled: draft.mcp_enabled,
      servers: servers.length === 0 ? undefined : servers,
      max_calls: numberOf(draft.mcp_calls),
      on_tool_failure: onFailure(draft.mcp_failure, mcp, USUAL_FAILURE.mcp),
    };
  }
  return tools as Agent["tools_config"];
}

/** The policy that `effects` of agents from before policies means. */
const policyOf = (effects: "none" | "any" | undefined): Policy =>
  effects === "none" ? "always_allow" : NO_SERVER.policy;

/** The settings of single tools. A tool's policy comes before its effects. */
function toolPolicies({ permission_policy, tool_permission_policies, tool_effects = {} }: SavedServer): ToolPolicy[] {
  const old = Object.entries(tool_effects).flatMap(([tool, effects]) =>
    effects === "any" && permission_policy !== undefined ? [] : [[tool, policyOf(effects)] as const],
  );
  const policies = { ...Object.fromEntries(old), ...tool_permission_policies };
  return Object.entries(policies).map(([tool, policy]) => ({ tool, policy }));
}

/**
 * The settings for the chosen policies. Effects stay, because the service repeats the calls of tools that only read after
 * a crash. They mean a policy too, so a policy is written only where it is another one.
 */
function policySettings({ policy, tool_policies, kept }: Pick<McpServer, "policy" | "tool_policies" | "kept">) {
  const { permission_policy, effects, tool_effects = {}, tool_permission_policies = {} } = kept ?? {};
  const of_server = permission_policy === undefined && policy === policyOf(effects) ? undefined : policy;
  const chosen = new Map(tool_policies.map((each) => [each.tool.trim(), each.policy]));
  const meant = (tool: string) =>
    tool_effects[tool] === "none"
      ? policyOf("none")
      : tool_effects[tool] === "any"
        ? (of_server ?? policyOf("any"))
        : null;
  // A tool whose exception was removed is as its server, also if it has effects.
  const acting = Object.keys(tool_effects).filter((tool) => tool_effects[tool] === "any" && !chosen.has(tool));
  const wanted = [...chosen, ...acting.map((tool) => [tool, policy] as const)];
  const own = wanted.filter(([tool, of_tool]) => tool in tool_permission_policies || meant(tool) !== of_tool);
  const kept_effects = Object.entries(tool_effects).filter(([tool, of_tool]) => of_tool === "any" || chosen.has(tool));
  return {
    permission_policy: of_server,
    tool_permission_policies: own.length === 0 ? undefined : Object.fromEntries(own),
    tool_effects: kept_effects.length === 0 ? undefined : Object.fromEntries(kept_effects),
  };
}

/** Absent where it was absent and the default is chosen. */
const policySetting = (
  chosen: Policy,
  kept: { permission_policy?: Policy | undefined } | null | undefined,
  usual: Policy,
) => (kept?.permission_policy === undefined && chosen === usual ? undefined : chosen);

/** The policies of single tools after the owner's choice for one of them; null: as the server's. */
export function withPolicy({ tool_policies }: McpServer, tool: string, policy: Policy | null): ToolPolicy[] {
  const others = tool_policies.filter((each) => each.tool !== tool);
  return policy === null ? others : [...others, { tool, policy }];
}

type Delivery = NonNullable<AgentBody["deliveries"]>[number];
export function deliveryDraft({ to, on = [], unless }: Delivery): DeliveryDraft {
  return {
    to: to.replace(/^mailto:/, ""),
    when: on.length === 1 ? (on[0] ?? "both") : "both",
    unless_unchanged: unless === "unchanged",
  };
}

export function deliveryOf({ to, when, unless_unchanged }: DeliveryDraft): Agent["deliveries"][number] {
  const address = to.trim();
  return {
    to: address.includes("@") && !address.includes(":") ? `mailto:${address}` : address,
    on: when === "both" ? ["succeeded", "failed"] : [when],
    unless: unless_unchanged ? "unchanged" : null,
  };
}

/** The request body of a draft. */
export function bodyOf(draft: Draft): AgentBody {
  const limits = Object.fromEntries(
    Object.entries(draft.limits).flatMap(([name, text]): [string, number | null][] => {
      if (text !== "") return [[name, Number(text)]];
      return name.startsWith("max_cost") ? [[name, null]] : [];
    }),
  );
  return {
    ...(draft.when !== null && scheduleOf(draft.when)),
    name: draft.name,
    description: orNull(draft.description),
    system_prompt: orNull(draft.system_prompt),
    run_prompt: orNull(draft.run_prompt),
    model_id: orNull(draft.model_id),
    auto_route: draft.auto_route,
    is_active: draft.is_active,
    client_tools: draft.client_tools,
    on_budget: draft.on_budget,
    tools_config: toolsOf(draft),
    deliveries: draft.deliveries.map(deliveryOf),
    approval_hours: numberOf(draft.approval_hours) ?? APPROVAL_HOURS,
    input_schema: objectOf(draft.input_schema),
    output_schema: objectOf(draft.output_schema),
    limits,
    model_settings: modelSettingsOf(draft.model_settings),
  };
}

/** The schedule of a new agent, which the request creates with it. */
function scheduleOf(when: TimesDraft): Partial<AgentBody> {
  const { interval, times, days_of_week, day_of_month, timezone } = timesOf(when);
  return {
    schedule_enabled: true,
    schedule_interval: interval as "daily" | "weekly" | "monthly",
    schedule_time: times?.[0] ?? null,
    schedule_timezone: timezone,
    ...(days_of_week !== null && { schedule_days_of_week: days_of_week }),
    ...(day_of_month !== null && { schedule_day_of_month: day_of_month }),
  };
}

/** Only what the person has changed, so that a save does not undo a change from elsewhere. */
export function changesOf(agent: Agent, draft: Draft): Body<"PUT /api/v1/agents/{id}"> {
  const before = bodyOf(draftOf(agent));
  const after = bodyOf(draft);
  const { limits: _limits, model_settings: _settings, ...changes } = changedFields(before, after);
  const limits = changedFields(before.limits ?? {}, after.limits ?? {});
  const model_settings = changedFields(before.model_settings ?? {}, after.model_settings ?? {});
  return {
    ...changes,
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
    ...(Object.keys(model_settings).length === 0 ? {} : { model_settings }),
  };
}

/** An empty field is the model's default. */
function modelSettingsOf({ reasoning_effort, ...numbers }: Draft["model_settings"]): Agent["model_settings"] {
  const entries = Object.entries(numbers).map(([name, text]) => [name, numberOf(text) ?? null]);
  return { ...Object.fromEntries(entries), reasoning_effort: orNull(reasoning_effort) } as Agent["model_settings"];
}
