import { instantSchema, textSchema, uuidSchema } from "./common.ts";
import { z } from "./zod.ts";

/** What a run waits for a person to decide, and the decisions: contract 6.6.1. */

const ACTION_TYPES = ["tool_approval", "budget"] as const;
/** Who decided: the user of an MCP client, which asked them. */
export const MCP_CLIENT = "mcp";
/** What a caller may decide. */
const DECISIONS = ["approve", "edit", "reject"] as const;
/** What became of an action: a decision, its time is over, or its run was cancelled. */
const OUTCOMES = ["approved", "edited", "rejected", "expired", "cancelled"] as const;
export type Outcome = (typeof OUTCOMES)[number];
const REASON_CHARS = 2000;
/** Arguments of a call that a person decides about, as JSON. Nobody can review more. */
export const DECIDED_BYTES = 65_536;

const actionSchema = z.object({
  id: uuidSchema,
  type: z.enum(ACTION_TYPES).openapi({
    description:
      "`tool_approval`: a call of a tool that must be approved; `budget`: the run has no tokens left to go on",
  }),
  step: z.number().int().nullable().openapi({ description: "the index that the call's step will have" }),
  tool: z.string().nullable().openapi({ description: "the name of the call's tool" }),
  arguments: z.unknown().openapi({ description: "what the call sends, if it is approved" }),
  destination: z.string().nullable().openapi({ description: "the host or the server that the call goes to" }),
  budget: z
    .object({
      limit: z.enum(["run", "month", "balance"]).openapi({
        description:
          "what the run has reached: `max_cost_tokens_per_run`, `max_cost_tokens_per_month`, or the account's balance",
      }),
      needed_tokens: z.number().int().openapi({ description: "the least that the next model call needs" }),
      cap_tokens: z.number().int().nullable().openapi({ description: "the cap in force; null: the balance" }),
      added_tokens: z.number().int().nullable().openapi({
        description:
          "what an approval adds to the cap of this run; null: an approval tries again, 409 while tokens are missing",
      }),
    })
    .nullable()
    .openapi({ description: "of the type budget; otherwise null" }),
  reason: z.string().openapi({ description: "why the run asks, in a sentence of this service" }),
  untrusted_sources: z
    .array(
      z.object({
        step: z
          .number()
          .int()
          .nullable()
          .openapi({ description: "the step that read it; null: the run began with it" }),
        source: z.string().openapi({ description: "its address, or the name of the tool that returned it" }),
      }),
    )
    .openapi({ description: "the outside content that the run had read, which may have asked for the call" }),
  spent: z.object({ tokens: z.number().int(), usd: z.string() }).openapi({ description: "by the run so far" }),
  requested_at: instantSchema,
  expires_at: instantSchema.openapi({ description: "without a decision until then, it counts as rejected" }),
});

export const requiredActionSchema = actionSchema.openapi("RequiredAction");
export type RequiredAction = z.infer<typeof requiredActionSchema>;

export const decidedActionSchema = actionSchema
  .extend({
    decision: z.enum(OUTCOMES),
    reason_given: z.string().nullable().openapi({ description: "the reason of who decided" }),
    arguments_sent: z.unknown().openapi({ description: "of an approved or edited call; otherwise null" }),
    decided_at: instantSchema,
    decided_by: z
      .object({
        type: z.enum(["user", "api_key", MCP_CLIENT]),
        id: uuidSchema.openapi({ description: "of the user or of the API key" }),
        name: z.string().nullable(),
      })
      .nullable()
      .openapi({
        description: "null: nobody, because its time was over, its run was cancelled, or the tokens came by themselves",
      }),
  })
  .openapi("DecidedAction");
export type DecidedAction = z.infer<typeof decidedActionSchema>;
export type DecidedBy = NonNullable<DecidedAction["decided_by"]>;

export const decisionSchema = z
  .strictObject({
    decision: z.enum(DECISIONS),
    arguments: z
      .record(z.string(), z.unknown())
      .refine((given) => Buffer.byteLength(JSON.stringify(given)) <= DECIDED_BYTES, "a JSON object of at most 64 KB")
      .nullish()
      .openapi({
        type: "object",
        description:
          "with `edit`: what the call sends instead. With `approve`, as a check: what you were shown; 409 if the action has others",
      }),
    reason: textSchema(REASON_CHARS).nullish().openapi({ description: "of a rejection: the model reads it" }),
  })
  .openapi("Decision");
export type Decision = z.infer<typeof decisionSchema>;
