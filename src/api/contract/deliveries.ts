import { instantSchema, textSchema, uuidSchema } from "./common.ts";
import { z } from "./zod.ts";

/** Where the results of an agent's runs are sent, and what became of each: contract 6.15. */

/** The ends of a run that are delivered. A cancelled run has no result. */
const DELIVERED_ENDS = ["succeeded", "failed"] as const;
const MAX_DELIVERIES = 5;

const agentDeliverySchema = z
  .strictObject({
    to: textSchema(2048).min(1).openapi({
      description: "https; http where the operator allows the host; or mailto: and your own, confirmed address",
      example: "https://example.com/results",
    }),
    on: z
      .array(z.enum(DELIVERED_ENDS))
      .min(1)
      .max(DELIVERED_ENDS.length)
      .default([...DELIVERED_ENDS]),
    unless: z.literal("unchanged").nullable().default(null).openapi({
      description:
        "unchanged: the result of a succeeded run is skipped if its output_json, or otherwise its output without white space, is the one that this address got last from the same schedule or the agent's run-nows",
    }),
  })
  .openapi("AgentDelivery");
export const agentDeliveriesSchema = z.array(agentDeliverySchema).max(MAX_DELIVERIES).openapi({
  description: "where the results of runs are sent; chats are answered to their caller only",
});
export type AgentDelivery = z.infer<typeof agentDeliverySchema>;

/** What deliveries of notices and of results have in common. */
export const triesSchema = z.object({
  attempts: z.number().int(),
  last_attempt_at: instantSchema.nullable(),
  last_status: z.number().int().nullable().openapi({
    description:
      "HTTP status of the last answer; of an e-mail the mail server's, or 410 once the address is no longer yours",
  }),
  last_error: z.string().nullable().openapi({ description: "why there was no answer, as a code" }),
  next_attempt_at: instantSchema.nullable(),
  delivered_at: instantSchema.nullable(),
});

export const resultDeliverySchema = triesSchema
  .extend({
    id: uuidSchema.openapi({ description: "the `webhook-id` of every try" }),
    to: z.string(),
    status: z.enum(["pending", "delivered", "failed", "skipped"]).openapi({
      description:
        "skipped: the output is the one that this address got last. failed: a notice `delivery.failed` tells",
    }),
  })
  .openapi("ResultDelivery");
export type ResultDelivery = z.infer<typeof resultDeliverySchema>;
