import { ALERT_PERCENTS, type AlertPercent } from "../../kernel/constants.ts";
import { instantSchema, tokensSchema, uuidSchema } from "./common.ts";
import type { NoticeEvent } from "./notices.ts";
import { pauseReasonSchema } from "./payments.ts";
import { runDetailSchema, runSchema, triggerSchema, WATCHED_TRIGGERS } from "./runs.ts";
import { z } from "./zod.ts";

/** What Purser posts to the addresses of its users: contract 5. */

const percent = z.custom<AlertPercent>().openapi({ type: "integer", enum: [...ALERT_PERCENTS] });
const ofRun = { agent_id: uuidSchema, run_id: uuidSchema, trigger: triggerSchema.exclude(WATCHED_TRIGGERS) };
const lastError = { error_code: z.string(), error_message: z.string() };

const noticeActionSchema = z.object({
  id: z.string(),
  type: z
    .enum(["tool_approval", "budget"])
    .openapi({ description: "budget: tool, destination and arguments are null" }),
  tool: z.string().nullable(),
  destination: z.string().nullable(),
  arguments: z.string().nullable().openapi({
    description: "the first 1,000 characters of their JSON, and … if there is more, which the run's record has",
  }),
  reason: z.string(),
  expires_at: instantSchema,
});
/** What a run asks: a call of a tool, or tokens. */
export type NoticeAction = z.infer<typeof noticeActionSchema>;

/** The data of each notice, flat and small. */
export const NOTICE_DATA = {
  "balance.low": z
    .object({ percent, granted_tokens: tokensSchema, remaining_tokens: tokensSchema })
    .openapi({ description: "this share of the balance after the last grant is spent" }),
  "overage.cap_near": z
    .object({ percent, cap_tokens: tokensSchema, used_tokens: tokensSchema })
    .openapi({ description: "this share of the period's overage cap is used" }),
  "key_budget.near": z
    .object({ percent, api_key_id: uuidSchema, budget_tokens: tokensSchema, spent_tokens: tokensSchema })
    .openapi({ description: "this share of an API key's budget is spent" }),
  "auto_topup.paused": z
    .object({ reason: pauseReasonSchema, payment_id: uuidSchema, amount_cents: z.int() })
    .openapi({ description: "an automatic top-up was declined or returned; nothing is bought until the user resumes" }),
  "run.failed": z.object({ ...ofRun, ...lastError }).openapi({ description: "a run of an agent failed, except chats" }),
  "run.has_errors": z.object({ ...ofRun, failed_steps: z.int(), tool: z.string(), ...lastError }).openapi({
    description: "a run succeeded, but a tool's call in it failed or its answer is incomplete: the last one",
  }),
  "run.succeeded": z.object(ofRun).openapi({ description: "a run of an agent succeeded, except chats" }),
  "run.requires_action": z
    .object({
      agent_id: uuidSchema,
      run_id: uuidSchema,
      trigger: triggerSchema,
      actions_count: z.int(),
      actions: z.array(noticeActionSchema).openapi({ description: "the first ones" }),
    })
    .openapi({ description: "a run waits for its user's decisions: one notice for all that it asks at once" }),
  "delivery.failed": z
    .object({
      agent_id: uuidSchema,
      run_id: uuidSchema,
      delivery_id: uuidSchema,
      to: z.string(),
      last_status: z.int().nullable(),
      last_error: z.string().nullable(),
    })
    .openapi({ description: "the result of a run could not be delivered: why the last try failed" }),
  "schedule.paused": z
    .object({ agent_id: uuidSchema, schedule_id: uuidSchema, schedule_name: z.string(), reason: z.string() })
    .openapi({ description: "a schedule was paused" }),
  "secret.reflected": z
    .object({ secret_id: uuidSchema, secret_name: z.string(), run_id: uuidSchema.nullable() })
    .openapi({ description: "a site returned a secret, and Purser disabled it" }),
  "secret.disconnected": z
    .object({ secret_id: uuidSchema, secret_name: z.string(), server: z.string() })
    .openapi({ description: "an authorization server refuses a secret of type oauth: connect it again" }),
  "subscription.renewed": z
    .object({ plan_id: z.string(), period_start: instantSchema, period_end: instantSchema })
    .openapi({ description: "a new paid period began and its tokens were granted" }),
} as const satisfies Record<NoticeEvent, z.ZodObject>;

export type NoticeData = { [Event in NoticeEvent]: z.output<(typeof NOTICE_DATA)[Event]> };

const runResultSchema = runSchema
  .extend({
    ...runDetailSchema.pick({ input: true, output: true, output_json: true }).shape,
    agent_name: z.string(),
    schedule_name: z.string().nullable(),
  })
  .openapi({ description: "the result of a run, to an address in the agent's `deliveries`" });

/** The event of `POST /api/v1/webhook-endpoints/{id}/test`. */
export const TEST_EVENT = "webhook.test";
const testSchema = z
  .object({ endpoint_id: uuidSchema })
  .openapi({ description: "a test of an endpoint, which its user asked for" });

/** The body of each webhook by its `type`. */
export const WEBHOOKS = Object.entries({
  ...NOTICE_DATA,
  "run.finished": runResultSchema,
  [TEST_EVENT]: testSchema,
}).map(([type, data]) => ({
  type,
  description: String(data.meta()?.description ?? ""),
  body: z.object({ type: z.literal(type), timestamp: instantSchema, data }),
}));
