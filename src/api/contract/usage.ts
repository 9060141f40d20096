import { LIST_LIMIT, USAGE_DAYS } from "../../kernel/constants.ts";
import { boundInput, textSchema, tokensSchema } from "./common.ts";
import { archivedFields, formatSchema, jsonOrCsv } from "./ledger-export.ts";
import { routesOf } from "./routes.ts";
import { runMetadataSchema } from "./runs.ts";
import { z } from "./zod.ts";

/** What the usage of a window consists of: contract 5.3.3. */

/** A leap year. */
export const MAX_USAGE_DAYS = 366;
/** The whole days (UTC) of a report on usage. */
export const usageWindowQuery = {
  days: z.coerce
    .number()
    .int()
    .min(USAGE_DAYS.min)
    .max(USAGE_DAYS.max)
    .optional()
    .openapi({ description: `days up to today, or to \`to\`; ${USAGE_DAYS.default} unless \`from\` is given` }),
  from: boundInput.optional().openapi({ description: "the first day (UTC), instead of `days`" }),
  to: boundInput
    .optional()
    .openapi({ description: `the day after the last one, at most ${MAX_USAGE_DAYS} days after \`from\`` }),
};

const daySchema = z.string().openapi({ format: "date" });
const usageFigures = {
  cost_usd: z.string().openapi({ description: "cost_tokens at the standard rate, as decimal text", example: "0.0032" }),
  cost_tokens: tokensSchema,
  tokens: z.number().int().openapi({ description: "raw tokens" }),
  requests: z.number().int(),
};
const usageSeries = {
  ...usageFigures,
  daily: z
    .array(z.object({ date: daySchema, ...usageFigures }))
    .openapi({ description: "oldest first; days without requests are absent" }),
};
const dimensionInput = z
  .string()
  .regex(/^(model|agent|api_key|user|metadata\.[^\0]{1,64})$/, "model, agent, api_key, user or metadata.{name}")
  .openapi({ description: "model, agent, api_key, user or metadata.{name}" });
const keyFields = {
  value: z.string().nullable().openapi({ description: "null: the requests without one" }),
  name: z.string().nullable().openapi({ description: "of an agent or a key" }),
  deleted: z.boolean().openapi({ description: "the agent was deleted" }),
};
const idOrNone = z.union([z.uuid(), z.literal("none")]).optional();

const usageBreakdownSchema = z
  .object({
    from: daySchema.openapi({ description: "the first day" }),
    to: daySchema.openapi({ description: "the day after the last one" }),
    group_by: z.string(),
    then_by: z.string().nullable(),
    filters: z
      .array(z.object({ dimension: z.string(), ...keyFields }))
      .openapi({ description: "what the figures are narrowed to" }),
    total: z.object(usageSeries),
    groups: z
      .array(
        z.object({
          keys: z.array(z.object(keyFields)).openapi({ description: "of `group_by`, and of `then_by`" }),
          ...usageSeries,
        }),
      )
      .openapi({ description: "the highest cost first" }),
    other: z
      .object({ groups: z.number().int(), ...usageSeries })
      .nullable()
      .openapi({ description: "the sum of the groups beyond `limit`" }),
    metadata_names: z
      .array(z.string())
      .openapi({ description: "names that requests of these days have in their metadata, at most 100" }),
    ...archivedFields,
  })
  .openapi("UsageBreakdown");

const routes = routesOf("Usage and billing");

export const getUsageBreakdown = routes.get("/api/v1/users/me/usage/breakdown", {
  summary: "Usage by day (UTC) and by one or two of model, agent, key, end user and metadata",
  description:
    "`total` is the sum of `groups` and `other`. Where the days begin before `archived_before`, and the breakdown has an end user or metadata beside anything else, `from` is later than asked.",
  scope: "billing:read",
  query: z.object({
    ...usageWindowQuery,
    group_by: dimensionInput.default("model"),
    then_by: dimensionInput.optional(),
    model: textSchema(200).min(1).optional(),
    agent_id: idOrNone.openapi({ description: "`none`: requests without an agent" }),
    api_key_id: idOrNone.openapi({ description: "`none`: the console's, and those of schedules" }),
    user: textSchema(256).min(1).optional(),
    metadata: runMetadataSchema.optional().openapi({
      param: { style: "deepObject", explode: true },
      description: "`metadata[name]=value`: requests that have all of these pairs",
    }),
    limit: z.coerce.number().int().min(LIST_LIMIT.min).max(LIST_LIMIT.max).default(LIST_LIMIT.default),
    format: formatSchema,
  }),
  answers: {
    200: jsonOrCsv(usageBreakdownSchema, "figures of the days; as CSV a line for each group and day"),
  },
});
