import { AGENT_LIMITS, REASONING_EFFORTS } from "../../kernel/constants.ts";
import {
  errorSchema,
  instantSchema,
  json,
  jsonOrEvents,
  listQuerySchema,
  longListQuerySchema,
  nameSchema,
  noFields,
  textSchema,
  timeZoneSchema,
  uuidSchema,
} from "./common.ts";
import { chatEventSchema, chatResponseSchema, waitingFields } from "./completions.ts";
import { agentDeliveriesSchema } from "./deliveries.ts";
import { readOnlyFields } from "./read-only.ts";
import { pageSchema, routesOf } from "./routes.ts";
import { runSchema } from "./runs.ts";
import {
  dayOfMonthSchema,
  intervalSchema,
  scheduleStatusSchema,
  timeOfDaySchema,
  upcomingRunSchema,
  weekdaySchema,
  weekdaysSchema,
} from "./schedules.ts";
import { threadIdSchema } from "./threads.ts";
import { permissionPolicySchema } from "./tool-fields.ts";
import { toolsConfigSchema } from "./tools.ts";
import { z } from "./zod.ts";

/** Agents and agent chat: contract 6. */

const PROMPT_MAX = 100_000;
/** 90 days. */
const APPROVAL_HOURS_MAX = 2_160;

const positive = (max: number) => z.number().int().min(1).max(max);
const tokenLimit = positive(Number.MAX_SAFE_INTEGER).nullable();

/** The limits of an agent's runs. Omitted fields keep their value or default. */
const limitsInput = z.strictObject({
  max_steps: positive(200).optional().openapi({ default: AGENT_LIMITS.max_steps }),
  max_run_seconds: positive(3600).optional().openapi({ default: AGENT_LIMITS.max_run_seconds }),
  max_cost_tokens_per_run: tokenLimit.optional(),
  max_cost_tokens_per_month: tokenLimit.optional(),
  max_consecutive_failures: positive(100).optional().openapi({ default: AGENT_LIMITS.max_consecutive_failures }),
});

/** How an agent's model is called. Null: as the model does by default. Omitted fields keep their value. */
const modelSettingsInput = z.strictObject({
  temperature: z.number().min(0).max(2).nullable().optional(),
  top_p: z.number().min(0).max(1).nullable().optional(),
  reasoning_effort: z.enum(REASONING_EFFORTS).nullable().optional(),
  max_output_tokens: positive(10_000_000).nullable().optional().openapi({
    description: "the cap of one answer; without it, the model's cap, lowered to what the balance affords",
  }),
});

const schemaInput = (description: string) =>
  z
    .record(z.string(), z.unknown())
    .openapi({ description: `${description}. JSON Schema (draft 2020-12) of an object` })
    .nullable();

const agentFields = {
  name: nameSchema(200),
  description: textSchema(2000).nullable(),
  system_prompt: textSchema(PROMPT_MAX).nullable(),
  run_prompt: textSchema(PROMPT_MAX).nullable().openapi({ description: "what a scheduled run or run-now executes" }),
  model_id: textSchema(200)
    .min(1)
    .nullable()
    .openapi({ description: "a model's id or UUID; required unless auto_route" }),
  auto_route: z.boolean(),
  is_active: z.boolean(),
  tools_config: toolsConfigSchema,
  input_schema: schemaInput("what a run's `input` must be"),
  output_schema: schemaInput("what a run's answer is: its `output_json` conforms to it"),
  client_tools: z.enum(["ignore", "pass"]).openapi({
    description:
      "the tools of a request with `model: agent/{id}`. `ignore`: dropped; `pass`: offered to the model beside the agent's own, and a call to one ends the answer with `finish_reason: tool_calls`",
  }),
  deliveries: agentDeliveriesSchema,
  approval_hours: positive(APPROVAL_HOURS_MAX).openapi({
    description: "how long a run waits for a decision. Then the call counts as rejected",
  }),
  on_budget: z.enum(["fail", "ask"]).openapi({
    description:
      "what a run does that reaches `max_cost_tokens_per_run`, `max_cost_tokens_per_month` or the balance. `fail`: it fails; `ask`: it waits for a decision, for a raised limit, or for tokens. Chats and tests fail",
  }),
  schedule_enabled: z.boolean(),
  schedule_interval: intervalSchema.nullable().openapi({
    description:
      "daily, weekly or monthly. The schedule named `default` may also be `cron` or `once`, which …/schedules sets",
  }),
  schedule_time: timeOfDaySchema.nullable().openapi({ description: "null if it has several times, see …/schedules" }),
  schedule_day_of_week: weekdaySchema.nullable().openapi({
    description: "weekly only: its one day; null if it has several. It or schedule_days_of_week is required",
  }),
  schedule_days_of_week: weekdaysSchema.nullable().openapi({ description: "weekly only: its days" }),
  schedule_day_of_month: dayOfMonthSchema.nullable().openapi({ description: "monthly only; 1 unless given" }),
  schedule_timezone: timeZoneSchema,
} as const;

export const updateAgentSchema = z
  .strictObject({ ...agentFields, limits: limitsInput, model_settings: modelSettingsInput })
  .partial();
export const createAgentSchema = updateAgentSchema.required({ name: true }).openapi("CreateAgent");
export type AgentChanges = z.infer<typeof updateAgentSchema>;
export const AGENT_READ_ONLY = {
  fixed: [
    "id",
    "version",
    "created_at",
    "updated_at",
    "next_run_at",
    "schedule_status",
    "schedule_paused_reason",
    "schedule_api_key_id",
    "secrets_used",
  ],
  // Runs and the operator's models change them.
  moving: ["last_run", "upcoming_runs", "consecutive_failures", "warnings"],
} as const;
export const putAgentSchema = updateAgentSchema.extend(readOnlyFields(AGENT_READ_ONLY)).openapi("PutAgent");

const agentSchema = z
  .object({
    id: uuidSchema,
    version: z.number().int().openapi({ description: "bumped by each change" }),
    ...agentFields,
    limits: limitsInput.required(),
    model_settings: modelSettingsInput.required(),
    created_at: instantSchema,
    updated_at: instantSchema,
    next_run_at: instantSchema.nullable(),
    upcoming_runs: z.array(upcomingRunSchema),
    schedule_status: scheduleStatusSchema,
    schedule_paused_reason: z.string().nullable().openapi({
      description:
        "`key_revoked`, `key_expired` or `key_budget_exceeded` of that key; otherwise a sentence for the owner",
    }),
    schedule_api_key_id: uuidSchema.nullable().openapi({
      description:
        "the API key that enabled the schedule, resumed it or changed its task last; its budget covers the runs. Null: the console",
    }),
    consecutive_failures: z.number().int(),
    last_run: runSchema.pick({ id: true, status: true, finished_at: true, has_errors: true }).nullable(),
    secrets_used: z.array(z.string()).openapi({ description: "names of the secrets that tools_config refers to" }),
    warnings: z
      .array(z.object({ code: z.string(), param: z.string(), message: z.string() }))
      .openapi({ description: "settings that are accepted and cannot work; a call fails with the same code" }),
  })
  .openapi("Agent");
/** An agent of a user. */
export interface AgentKey {
  user_id: string;
  agent_id: string;
}

export type AgentRecord = z.infer<typeof agentSchema>;

const agentVersionSchema = z
  .object({
    agent_id: uuidSchema,
    version: z.number().int(),
    ...agentFields,
    limits: limitsInput.required(),
    model_settings: modelSettingsInput.required(),
    created_at: instantSchema.openapi({ description: "since when the agent was configured so" }),
  })
  .openapi("AgentVersion");
export type AgentVersion = z.infer<typeof agentVersionSchema>;

const listedVersionSchema = z
  .object({
    version: z.number().int(),
    created_at: instantSchema.openapi({ description: "since when the agent was configured so" }),
    previous_version: z.number().int().nullable().openapi({
      description: "the version that `changes` compares with; null: none that is kept",
    }),
    changes: z.array(
      z.object({
        field: z.string().openapi({ description: "such as run_prompt, limits.max_steps or tools_config.web_fetch" }),
        before: z.unknown(),
        after: z.unknown(),
      }),
    ),
  })
  .openapi("ListedVersion");
export type ListedVersion = z.infer<typeof listedVersionSchema>;

const agentTemplateSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    description: z.string(),
    blanks: z
      .array(z.object({ name: z.string(), description: z.string(), example: z.string() }))
      .openapi({ description: "each stands as <NAME> in texts of `agent`" }),
    agent: z.record(z.string(), z.unknown()).openapi({
      description: "the body of POST /api/v1/agents, once its blanks are replaced",
    }),
  })
  .openapi("AgentTemplate");
export type AgentTemplate = z.infer<typeof agentTemplateSchema> & { agent: z.input<typeof createAgentSchema> };

/** A picture's data is part of the request, like its text. */
const PICTURE_CHARS = 16_000_000;
const chatPartSchema = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text"), text: textSchema(1_000_000) }),
  z.strictObject({
    type: z.literal("image_url"),
    image_url: z.strictObject({ url: textSchema(PICTURE_CHARS), detail: textSchema(20).optional() }),
  }),
]);
const chatContentSchema = z.union([textSchema(1_000_000), z.array(chatPartSchema).min(1).max(100)]).openapi({
  description: "text, or parts: `text`, and `image_url` for agents whose model has `supports.vision`",
});
const agentChatSchema = z
  .strictObject({
    messages: z
      .array(z.strictObject({ role: z.enum(["system", "user", "assistant"]), content: chatContentSchema }))
      .min(1)
      .max(1000),
    user: textSchema(256).nullish().openapi({ description: "the end user: usage and budgets are by it" }),
    metadata: z
      .record(z.string(), z.unknown())
      .nullish()
      .openapi({ description: "up to 16 names and values, as in chat completions: usage can be summed by them" }),
    stream: z.boolean().default(false),
    thread_id: threadIdSchema.optional().openapi({
      description: "of your choice; the thread's earlier turns come before these messages. Created at its first use",
    }),
    on_disconnect: z.enum(["cancel", "continue"]).default("cancel").openapi({
      description:
        "what becomes of the run when you hang up: cancelled, with what was generated billed, or carried on to its end",
    }),
  })
  .openapi("AgentChat");
const agentAnswerSchema = (chatResponseSchema as z.ZodObject)
  .extend({
    run_id: uuidSchema,
    thread_id: z.string().optional(),
    choices: z.array(
      z.looseObject({
        index: z.number().int(),
        message: z.looseObject({ role: z.literal("assistant"), content: z.string().nullable() }),
        finish_reason: z
          .enum(["stop", "length", "tool_calls", "content_filter", "requires_action"])
          .openapi({ description: "requires_action: the run waits for a decision, and goes on by itself after it" }),
      }),
    ),
    ...waitingFields,
  })
  .openapi("AgentAnswer");
export type AgentChat = z.infer<typeof agentChatSchema>;

const routes = routesOf("Agents");

export const createAgent = routes.post("/api/v1/agents", {
  summary: "Create an agent",
  scope: "agents:write",
  body: createAgentSchema,
  answers: { 201: json(agentSchema, "the agent") },
  fails: [409],
});

export const listAgents = routes.get("/api/v1/agents", {
  summary: "The caller's agents, newest first",
  scope: "agents:read",
  query: longListQuerySchema.extend({
    name: textSchema(200).optional().openapi({ description: "a part of the name, in upper or lower case" }),
    sort: z.literal("next_run_at").optional().openapi({
      description:
        "the agents that will run by schedule, soonest first; paused schedules are left out. Not with `name` and `needs_attention`",
    }),
    needs_attention: z.literal("true").optional().openapi({
      description:
        "true: only agents whose newest run failed or had errors, or with a schedule that is paused or has consecutive_failures",
    }),
  }),
  answers: { 200: json(pageSchema({ agents: agentSchema }), "a page of agents") },
});

export const getAgent = routes.get("/api/v1/agents/{id}", {
  summary: "One agent",
  scope: "agents:read",
  answers: { 200: json(agentSchema, "the agent") },
});

export const getAgentVersion = routes.get("/api/v1/agents/{id}/versions/{version}", {
  summary: "The configuration that a run was carried out with: its `agent_version`",
  scope: "agents:read",
  answers: { 200: json(agentVersionSchema, "the configuration") },
});

export const listAgentVersions = routes.get("/api/v1/agents/{id}/versions", {
  summary: "The agent's versions, newest first, with what each changed",
  description: "The names of secrets in `before` and `after` need `secrets:read`.",
  scope: "agents:read",
  query: listQuerySchema,
  answers: { 200: json(pageSchema({ versions: listedVersionSchema }), "a page of versions") },
});

export const restoreAgentVersion = routes.post("/api/v1/agents/{id}/versions/{version}/restore", {
  summary: "Make the settings of a version the present ones, as a new version",
  description: "`is_active` and the schedules stay as they are. It is checked like a change by PUT.",
  scope: "agents:write",
  optional_body: noFields,
  answers: { 200: json(agentSchema, "the agent as it is now") },
  fails: [409],
});

export const duplicateAgent = routes.post("/api/v1/agents/{id}/duplicate", {
  summary: "Create an agent with the same settings and schedules, which are off",
  description:
    "Bindings of secrets are copied too, which needs `secrets:write`; runs, conversations and the webhook key are not.",
  scope: "agents:write",
  optional_body: z
    .strictObject({
      name: agentFields.name.optional().openapi({ description: "of the copy; “(copy)” is added unless given" }),
    })
    .openapi("DuplicateAgent"),
  answers: { 201: json(agentSchema, "the new agent") },
  fails: [409],
});

export const listAgentTemplates = routes.get("/api/v1/agent-templates", {
  summary: "Agents to begin with",
  scope: "agents:read",
  answers: { 200: json(z.object({ templates: z.array(agentTemplateSchema) }), "the templates") },
});

export const updateAgent = routes.put("/api/v1/agents/{id}", {
  summary: "Change the fields given; the others stay. Null clears what can be empty",
  description:
    "tools_config is replaced as a whole; of limits and model_settings only the given ones change. Adding or widening a secret's binding needs " +
    "`secrets:write`; `secret: null` keeps the binding that is otherwise the same. A paused schedule stays paused, unless the write turns " +
    "the schedule or the agent on, or consists of `schedule_enabled: true` alone. A write that enables or resumes the " +
    "schedule, or changes what its runs do, has them count against the key that wrote it.",
  scope: "agents:write",
  body: putAgentSchema,
  answers: { 200: json(agentSchema, "the agent as it is now") },
  fails: [409],
});

export const resumeSchedule = routes.post("/api/v1/agents/{id}/resume", {
  summary: "Resume the agent's paused schedule",
  description:
    "Its runs then count against the key that resumed it, and `consecutive_failures` restarts at 0. A schedule that is off stays off.",
  scope: "agents:write",
  optional_body: noFields,
  answers: { 200: json(agentSchema, "the agent as it is now") },
});

export const deleteAgent = routes.delete("/api/v1/agents/{id}", {
  summary: "Delete an agent and cancel its runs",
  scope: "agents:write",
  answers: { 204: { description: "deleted" } },
});

export const chatWithAgent = routes.post("/api/v1/agents/{id}/chat", {
  summary: "Converse with the agent; every turn is a run",
  description:
    "With `stream: true` the answer is server-sent events of chat.completion.chunk objects, usage on the last one, " +
    "then `data: [DONE]`; headers come with the first text. Over the limit of runs at a time it waits up to 30 s for a " +
    "place, then 429. A failure names its run in `error.metadata.run_id`. With `thread_id` the service keeps the " +
    "conversation: send the new messages only. One turn of a thread at a time: 409 `thread_busy`.",
  scope: "chat:write",
  body: agentChatSchema,
  answers: {
    200: jsonOrEvents(agentAnswerSchema, chatEventSchema, "the answer"),
    502: json(errorSchema, "the model's provider failed"),
    504: json(errorSchema, "the model, or the whole run, took too long"),
  },
  fails: [402, 409, 503],
});

/** The key that signs an agent's webhooks: contract 6.15.3 and 7. */

const webhookKeySchema = z
  .object({
    key: z.string().openapi({ description: "`whsec_…`, for any Standard Webhooks library" }),
    created_at: instantSchema,
  })
  .openapi("WebhookKey");

export const getWebhookKey = routes.get("/api/v1/agents/{id}/webhook-key", {
  summary: "The key that the agent's webhooks are signed with, made when it is first asked for or needed",
  scope: "agents:write",
  answers: { 200: json(webhookKeySchema, "the key, to verify webhooks with") },
  fails: [409],
});

/** The tools of an agent's MCP server, for the owner: contract 7.5.2. */

const serverToolsSchema = z
  .object({
    tools: z.array(
      z.object({
        name: z.string().openapi({ description: "the server's own name for it, as tool_effects takes it" }),
        description: z.string(),
        read_only_hint: z.boolean().nullable().openapi({
          description: "the server's own claim (readOnlyHint). null: it claims nothing. Purser does not act on it",
        }),
        effects: z.enum(["none", "any"]).openapi({ description: "as the agent's settings say" }),
        permission_policy: permissionPolicySchema.openapi({ description: "as the agent's settings say" }),
      }),
    ),
    left_out: z.number().int().openapi({
      description: "tools that the model does not get: their texts give orders, they are too large, or over 100",
    }),
  })
  .openapi("ServerTools");

export const listServerTools = routes.get("/api/v1/agents/{id}/mcp-servers/{server}/tools", {
  summary: "The tools of one of the agent's MCP servers, asked for now",
  description:
    "The tools that a run would have, with safe texts. It sends the server's secret, as a run does. 502: the server " +
    "cannot be used, and the message says why.",
  scope: "agents:write",
  params: z.object({ id: z.string(), server: z.string().openapi({ description: "its name in tools_config" }) }),
  answers: { 200: json(serverToolsSchema, "the tools"), 502: json(errorSchema, "the server cannot be used") },
  fails: [404, 409],
});
