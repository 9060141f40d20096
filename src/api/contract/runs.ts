import { TOKENS_PER_USD } from "../../kernel/constants.ts";
import { decimalText } from "../../platform/lib/decimal.ts";
import {
  instantSchema,
  json,
  longListQuerySchema,
  noFields,
  streamErrorSchema,
  textSchema,
  uuidSchema,
  windowQuery,
  wordsQuery,
} from "./common.ts";
import { resultDeliverySchema } from "./deliveries.ts";
import { formatSchema, jsonOrCsv } from "./ledger-export.ts";
import { pageSchema, routesOf } from "./routes.ts";
import { decidedActionSchema, decisionSchema, requiredActionSchema } from "./run-actions.ts";
import { z } from "./zod.ts";

/** Runs of an agent: contract 6. */

const RUN_PROMPT_MAX = 100_000;
/** How long run-now may wait for the finished run (`Prefer: wait=N`). */
export const MAX_WAIT_SECONDS = 60;

export const triggerSchema = z.enum(["schedule", "manual", "chat", "webhook", "test"]);
/** Runs whose caller watches them: their ends make no notices and no deliveries. */
export const WATCHED_TRIGGERS = ["chat", "test"] as const;
export type UnwatchedTrigger = Exclude<RunTrigger, (typeof WATCHED_TRIGGERS)[number]>;

export function isUnwatched(trigger: RunTrigger): trigger is UnwatchedTrigger {
  return !WATCHED_TRIGGERS.some((watched) => watched === trigger);
}

/**
 * The phases of a run:
 *
 * - `queued`: a worker may claim it. A run-now counts against the queue of its user.
 * - `waiting`: it waits for something outside, has no worker, and is queued again afterwards.
 * - `working`: a worker executes it under a lease, and it counts against `concurrent_runs`.
 * - `ended`: it never changes.
 */
export type RunPhase = "queued" | "waiting" | "working" | "ended";
/** Each status of a run with its phase, which the column run.phase has too, and its meaning in words. */
export const RUN_STATUSES = {
  queued: { phase: "queued", words: "it waits for a worker" },
  running: { phase: "working", words: "a worker executes it" },
  requires_action: { phase: "waiting", words: "it waits for a decision of its user, at no cost" },
  cancelling: { phase: "working", words: "its cancellation was requested, and the worker stops it" },
  succeeded: { phase: "ended", words: "it has its output" },
  failed: { phase: "ended", words: "its error says why" },
  cancelled: { phase: "ended", words: "it was stopped before its end" },
} as const satisfies Record<string, { phase: RunPhase; words: string }>;
export type RunStatus = keyof typeof RUN_STATUSES;
export const runStatusSchema = z.enum(Object.keys(RUN_STATUSES) as [RunStatus, ...RunStatus[]]);
const outsideSchema = z
  .object({
    status: z.number().int().nullable().openapi({ description: "its HTTP status, if it sent one" }),
    text: z.string().nullable().openapi({ description: "its first words, without secrets" }),
  })
  .openapi("OutsideWords", {
    description:
      "what the server or the model's provider said. Text from outside: show it as such, and give it to no model",
  });
/** What a server or a provider said of a failure, for the owner. */
export type OutsideWords = z.infer<typeof outsideSchema>;
/** contract 6.6: the codes of `error`. */
export const RUN_ERROR_CODES = [
  "timeout",
  "max_steps",
  "budget_exceeded",
  "insufficient_tokens",
  "worker_lost",
  "model_unavailable",
  "tool_failed",
  "effect_unknown",
  "unsafe_content",
  "secret_reflected",
  "output_invalid",
  "too_many_waiting",
  "internal",
] as const;
const runErrorSchema = z.object({
  code: z.string(),
  message: z.string(),
  outside: outsideSchema.optional(),
  param: z
    .string()
    .optional()
    .openapi({ description: "the setting of the agent that ended it, such as limits.max_cost_tokens_per_month" }),
});
const usageSchema = z
  .object({
    input_tokens: z.number().int(),
    output_tokens: z.number().int(),
    total_tokens: z.number().int(),
    cost_tokens: z.number().int().openapi({ description: "billed tokens" }),
  })
  .openapi("RunUsage");

/** Data that a caller gives a run: 64 KB as JSON. */
const RUN_INPUT_BYTES = 65_536;
export const runInputSchema = z
  .record(z.string(), z.unknown())
  .refine((input) => Buffer.byteLength(JSON.stringify(input)) <= RUN_INPUT_BYTES, "a JSON object of at most 64 KB")
  .openapi({ type: "object", description: "data for the prompts, which name it as {{input}} or {{input.name}}" });
/** As in OpenAI's API. */
const METADATA_PAIRS = 16;
export const runMetadataSchema = z
  .record(textSchema(64), textSchema(512))
  .refine((pairs) => Object.keys(pairs).length <= METADATA_PAIRS, `an object of at most ${METADATA_PAIRS} pairs`)
  .openapi({
    description:
      "up to 16 names (64 characters) with texts (512 characters). Runs are found and usage is summed by them",
  });
export type RunData = Readonly<Record<string, unknown>>;
export type RunMetadata = Readonly<Record<string, string>>;

export type RunTrigger = z.infer<typeof triggerSchema>;
export type RunError = z.infer<typeof runErrorSchema>;

/** A filter of lists of runs. */
export const hasErrorsInput = z
  .enum(["true", "false"])
  .transform((text) => text === "true")
  .openapi({ description: "only runs with (true) or without (false) errors" });

export const runSchema = z
  .object({
    id: uuidSchema,
    agent_id: uuidSchema,
    agent_version: z.number().int().openapi({ description: "of a test: the version that its draft changes" }),
    trigger: triggerSchema.openapi({
      description: "what started it. `test`: it tests changes of the agent that are not saved",
    }),
    status: runStatusSchema.openapi({
      description: Object.entries(RUN_STATUSES)
        .map(([status, { words }]) => `${status}: ${words}`)
        .join("; "),
    }),
    schedule_id: uuidSchema.nullable().openapi({
      description: "the schedule of a scheduled run, and of a run-now of a schedule",
    }),
    trigger_id: uuidSchema.nullable().openapi({ description: "the trigger whose delivery started it (`webhook`)" }),
    trigger_name: z.string().nullable().openapi({ description: "the trigger's name at that time" }),
    scheduled_for: instantSchema.nullable().openapi({ description: "the due instant, of scheduled runs" }),
    queued_at: instantSchema,
    started_at: instantSchema.nullable(),
    finished_at: instantSchema.nullable(),
    lateness_ms: z.number().int().nullable().openapi({ description: "started_at − scheduled_for" }),
    attempt: z.number().int().openapi({ description: "above 1: a worker was lost, and another went on" }),
    model_id: z.string().nullable(),
    routing: z.record(z.string(), z.unknown()).nullable(),
    usage: usageSchema,
    steps_count: z.number().int(),
    failed_steps: z.number().int().openapi({ description: "steps whose status is failed" }),
    has_errors: z.boolean().openapi({
      description:
        "the run failed, or a tool's call or server did, or its answer was filtered, cut off or empty, also if the run succeeded. A model call that was repeated with success does not count, nor does a call that its user rejected",
    }),
    error: runErrorSchema.nullable(),
    metadata: z.record(z.string(), z.string()).nullable(),
    required_actions: z
      .array(requiredActionSchema)
      .openapi({ description: "what a run with the status requires_action waits for; empty for other runs" }),
  })
  .openapi("Run");
export type RunRecord = z.infer<typeof runSchema>;

/** In records that a run belongs to. */
export const runOutcomeSchema = runSchema
  .pick({ status: true, has_errors: true })
  .nullable()
  .openapi({ description: "what became of its run; null without one, and once the run is deleted" });

export const stepSchema = z
  .object({
    index: z.number().int(),
    type: z.enum(["model", "tool"]),
    name: z.string(),
    status: z.enum(["running", "succeeded", "failed", "cancelled"]),
    arguments: z.unknown(),
    result: z.unknown().openapi({
      description:
        "of a model step the assistant's message with its reasoning and its `model`, the `finish_reason` of a whole answer (`length` and `content_filter`: it is cut off), and a `note` when reasoning of another model was not sent; of a tool step what the model was given",
    }),
    error: runErrorSchema.nullable(),
    safety: z
      .unknown()
      .openapi({ description: "what the safety layer and the operator's judges found, removed and marked" }),
    // not .nullable(), which the document would show as "a RunUsage that may be null": nothing can be both
    usage: z.union([usageSchema, z.null()]),
    started_at: instantSchema,
    finished_at: instantSchema.nullable(),
  })
  .openapi("RunStep");
export type StepRecord = z.infer<typeof stepSchema>;

export const runDetailSchema = runSchema
  .extend({
    input: z.record(z.string(), z.unknown()).nullable(),
    run_prompt: z.string().nullable().openapi({
      description:
        "what it executed in place of the agent's own run_prompt; null: that one, or this one is no longer kept",
    }),
    input_safety: z.unknown().openapi({
      description:
        "of a trigger's run: what the safety layer found, removed and marked in its input before the model read it; null: nothing, or not read yet",
    }),
    output: z.string().nullable(),
    output_json: z
      .unknown()
      .openapi({ description: "the output as JSON, if the agent has an output_schema; else null" }),
    deliveries: z
      .array(resultDeliverySchema)
      .openapi({ description: "where its result is sent, and what became of it" }),
    decisions: z.array(decidedActionSchema).openapi({ description: "the actions that were decided, oldest first" }),
    steps: z.array(stepSchema),
  })
  .openapi("RunDetail");
export type RunDetail = z.infer<typeof runDetailSchema>;

const USD_DECIMALS = 7;
const USD_UNITS = BigInt(10 ** USD_DECIMALS / TOKENS_PER_USD);
/** The price of billed tokens at the standard rate, in US dollars as decimal text. */
export const toUsd = (tokens: number): string => decimalText(BigInt(tokens) * USD_UNITS, USD_DECIMALS);

const foundRunSchema = runSchema
  .extend({
    agent: z.object({
      id: uuidSchema,
      name: z.string().nullable().openapi({ description: "null: its record has been removed" }),
      deleted: z.boolean(),
    }),
    user: z.string().nullable().openapi({ description: "the end user that its request named" }),
    api_key_id: uuidSchema.nullable().openapi({ description: "the key that it counts against; null: the console" }),
    duration_ms: z.number().int().nullable().openapi({ description: "finished_at − started_at" }),
    has_injection: z
      .boolean()
      .openapi({ description: "something that it read contained instructions for the model: the steps' `safety`" }),
    first_line: z.string().nullable().openapi({
      description: "the first line of its error's message, or else of its output, at most 200 characters",
    }),
    cost_usd: z
      .string()
      .openapi({ description: "usage.cost_tokens in US dollars, as decimal text", example: "0.0032" }),
  })
  .openapi("FoundRun");
export type FoundRun = z.infer<typeof foundRunSchema>;

/** A message that a run began with, as text. */
const sentMessageSchema = z.object({ role: z.string(), content: z.string().nullable() }).openapi("SentMessage");
export type SentMessage = z.infer<typeof sentMessageSchema>;
const ofRun = { run_id: uuidSchema };
/** The data of a run's events. The event's name tells which one it is. */
const runEventSchema = z
  .union([
    z
      .object({
        ...ofRun,
        ...runSchema.pick({ agent_id: true, trigger: true, scheduled_for: true, queued_at: true }).shape,
      })
      .openapi("RunQueued"),
    z.object({ ...ofRun, started_at: instantSchema }).openapi("RunStarted"),
    z
      .object({
        ...ofRun,
        ...stepSchema.pick({ index: true, type: true, name: true, arguments: true, started_at: true }).shape,
      })
      .openapi("StepStarted"),
    z.object({ ...ofRun, ...stepSchema.shape }).openapi("StepFinished"),
    z.object({ ...ofRun, cancel_requested_at: instantSchema }).openapi("RunCancelling"),
    z.object({ ...ofRun, required_actions: z.array(requiredActionSchema) }).openapi("RunRequiresAction"),
    z
      .object({
        ...ofRun,
        ...runSchema.shape,
        input: z.unknown(),
        input_safety: z.unknown(),
        output: z.string().nullish(),
        output_json: z.unknown(),
      })
      .openapi("RunFinished"),
    z.object({ text: z.string(), from_start: z.literal(true).optional() }).openapi("RunText"),
    streamErrorSchema,
  ])
  .openapi("RunEvent", {
    description:
      "the data of one event. The event's name tells its kind: run.queued, run.started, step.started, step.finished, run.cancelling, run.requires_action, run.finished, text or error",
  });

const routes = routesOf("Runs");

export const listRuns = routes.get("/api/v1/agents/{id}/runs", {
  summary: "Recent runs of the agent, newest first",
  scope: "agents:read",
  query: longListQuerySchema.extend({
    status: runStatusSchema.optional(),
    trigger: triggerSchema.optional(),
    has_errors: hasErrorsInput.optional(),
    ...windowQuery("queued"),
  }),
  answers: { 200: json(pageSchema({ runs: runSchema }), "a page of runs") },
});

export const listAllRuns = routes.get("/api/v1/runs", {
  summary: "Runs of all agents, newest first; as CSV all of them",
  description: "Runs of deleted agents are included as long as they are kept.",
  scope: "agents:read",
  query: longListQuerySchema.extend({
    status: runStatusSchema.optional(),
    trigger: triggerSchema.optional(),
    has_errors: hasErrorsInput.optional(),
    agent_id: z.uuid().optional(),
    model_id: textSchema(200).min(1).optional(),
    schedule_id: z.uuid().optional(),
    api_key_id: z.uuid().optional().openapi({ description: "the key that the run counts against" }),
    user: textSchema(256).min(1).optional().openapi({ description: "the end user that the request named" }),
    metadata: runMetadataSchema.optional().openapi({
      param: { style: "deepObject", explode: true },
      description: "`metadata[name]=value`: runs whose metadata has all of these pairs",
    }),
    q: wordsQuery("the run's output, error or input"),
    ...windowQuery("queued"),
    format: formatSchema,
  }),
  answers: { 200: jsonOrCsv(pageSchema({ runs: foundRunSchema }), "a page of runs") },
});

export const getAnyRun = routes.get("/api/v1/runs/{run_id}", {
  summary: "One run of any agent, also of a deleted one, with its full output and its steps",
  scope: "agents:read",
  answers: { 200: json(runDetailSchema, "the run") },
});

/** A run_prompt in place of the agent's own. */
export const runPromptSchema = textSchema(RUN_PROMPT_MAX).regex(/\S/, "text that is not blank");
export const preferHeader = z.object({
  prefer: z
    .string()
    .optional()
    .openapi({
      description: `wait=N: answer with the finished run, or with the run as it stands after N seconds or once it waits for a decision; more than ${MAX_WAIT_SECONDS} counts as ${MAX_WAIT_SECONDS}`,
    }),
});

/** The answers of a request that starts a run. */
export const startedRunAnswers = {
  200: json(runDetailSchema, "the finished run, with `Prefer: wait`"),
  202: {
    ...json(runSchema, "the queued run; `Location` is its address"),
    headers: z.object({ Location: z.string() }),
  },
};

/** N of `Prefer: wait=N` (RFC 7240), at most the contract's; 0 when it is absent. */
export function waitSeconds(prefer: string | undefined): number {
  const wanted = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,9})/i.exec(prefer ?? "")?.[1] ?? "0";
  return Math.min(Number(wanted), MAX_WAIT_SECONDS);
}

export const getRun = routes.get("/api/v1/agents/{id}/runs/{run_id}", {
  summary: "One run with its full output and its steps",
  scope: "agents:read",
  answers: { 200: json(runDetailSchema, "the run") },
});

export const getRunPrompt = routes.get("/api/v1/agents/{id}/runs/{run_id}/prompt", {
  summary: "The messages that the run began with, as text",
  description:
    "The instructions of the agent's version (role system), then the run_prompt or the chat's own messages. Messages that are not kept are left out.",
  scope: "agents:read",
  answers: { 200: json(z.object({ messages: z.array(sentMessageSchema) }), "the messages") },
});

export const cancelRun = routes.post("/api/v1/agents/{id}/runs/{run_id}/cancel", {
  summary: "Stop the run: at once while it is queued, through `cancelling` while it is at work",
  scope: "agents:write",
  optional_body: noFields,
  answers: { 200: json(runSchema, "the run, cancelled or cancelling") },
  fails: [409],
});

export const decideAction = routes.post("/api/v1/agents/{id}/runs/{run_id}/actions/{action_id}", {
  summary: "Decide what a run waits for: approve a call as it is, send it with other arguments, or reject it",
  description:
    "What is sent is exactly the action's `arguments`, or with `edit` yours, which the tool's rules apply to. The decision on the last open action of the run has it go on. The model reads of a rejection, with its reason. 409 for an action that is decided, expired or of a run that no longer waits.",
  scope: "agents:approve",
  body: decisionSchema,
  answers: { 200: json(runDetailSchema, "the run") },
  fails: [409],
});

export const runEvents = routes.get("/api/v1/agents/{id}/runs/{run_id}/events", {
  summary: "Follow a run: its events from the beginning, then as they happen, up to its end",
  description:
    "Server-sent events with a JSON object each: `run.queued`, `run.started`, `step.started`, `step.finished` (the step " +
    "as the run's record has it), `run.cancelling`, and last `run.finished` (the record without its steps). Ids count " +
    "from 1 and are the same on every node and at every time, so that `Last-Event-ID` resumes anywhere. `run.cancelling` " +
    "comes once the step at work has stopped. `text` events have no id: they are the answer as it is generated, of runs " +
    "that the node you are connected to carries out. The first one of an answer and the first one of a connection have " +
    "`from_start: true`: their text is all of the answer so far and replaces what you had. `run.requires_action` has no id " +
    "either: it says what the run waits for, whenever that changes and at the start of a connection. A comment keeps the connection alive every " +
    "15 seconds. The stream ends after `run.finished`; when the process stops it ends before, so connect again.",
  scope: "agents:read",
  headers: z.object({
    "last-event-id": z.string().optional().openapi({ description: "the id of the last event that you have seen" }),
  }),
  answers: {
    200: { description: "the run's events", content: { "text/event-stream": { schema: runEventSchema } } },
    204: { description: "the run has ended and `Last-Event-ID` is its last event" },
  },
});
