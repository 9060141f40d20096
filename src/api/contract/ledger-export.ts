import { USAGE_DAYS } from "../../kernel/constants.ts";
import { agentNameFields } from "./agent-name.ts";
import { ENTRY_TYPES, listedTransactionSchema, usageSchema } from "./billing.ts";
import {
  instantSchema,
  json,
  listQuerySchema,
  nextCursorSchema,
  tokensSchema,
  uuidSchema,
  windowQuery,
} from "./common.ts";
import { pageSchema, routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** Usage, the ledger and what a charge is made of: to read, and to take away. Contract 5. */

export const formatSchema = z
  .enum(["json", "csv"])
  .default("json")
  .openapi({ description: "`csv` streams all of it, whatever `limit` and `cursor` say (RFC 4180)" });

/** A response in JSON, or in CSV where that was asked for. */
export function jsonOrCsv<S extends z.ZodType>(schema: S, description: string) {
  const { content } = json(schema, description);
  return { description, content: { ...content, "text/csv": { schema: z.string() } } };
}

/** contract 5.14.1: the response header of a CSV whose user has archived entries. */
export const ARCHIVED_HEADER = "Purser-Archived-Before";
export const archivedFields = {
  archived_before: instantSchema.optional().openapi({
    description: "on the last page, if older rows are in the operator's archive: rows of before this instant",
  }),
};

const groupedUsageSchema = z
  .object({
    ...usageSchema.shape,
    group_by: z.string().optional(),
    groups: z
      .array(
        z.object({
          value: z.string().openapi({ description: "the model, day, user or value of the name" }),
          tokens: z.number().int(),
          cost_tokens: tokensSchema,
          requests: z.number().int(),
        }),
      )
      .optional()
      .openapi({ description: "with `group_by`: the highest cost first" }),
    next_cursor: nextCursorSchema.optional(),
  })
  .openapi("GroupedUsage");

const rateSchema = z.number().openapi({ description: "billed tokens per raw token" });
const exactSchema = z.string().openapi({ description: "billed tokens with all their decimals", example: "93.8333336" });

const chargeFields = {
  hold_id: uuidSchema,
  status: z.enum(["open", "settled"]).openapi({ description: "open: the call has not ended" }),
  model: z.string().nullable(),
  agent_id: uuidSchema.nullable(),
  run_id: uuidSchema.nullable(),
  api_key_id: uuidSchema.nullable(),
  estimate: z
    .object({
      input_tokens: z.number().int(),
      max_output_tokens: z.number().int(),
      input_rate: rateSchema,
      output_rate: rateSchema,
      cost_tokens: tokensSchema,
    })
    .nullable()
    .openapi({ description: "the worst case, estimated before the call was made, at the dearest rates in its reach" }),
  hold: z
    .object({ requested_tokens: tokensSchema, held_tokens: tokensSchema, overage_tokens: tokensSchema })
    .nullable()
    .openapi({ description: "what was set aside for it; null when it was gone by the time of the charge" }),
  slices: z
    .array(z.object({ bucket_id: uuidSchema, tokens: tokensSchema }))
    .openapi({ description: "the buckets that the hold was taken from" }),
  rates: z
    .object({
      input_rate: rateSchema,
      cached_input_rate: rateSchema,
      cache_write_rate: rateSchema,
      cache_write_1h_rate: rateSchema,
      output_rate: rateSchema,
      version: z.string().nullable().openapi({ description: "names the price list that was in force" }),
    })
    .nullable()
    .openapi({ description: "as they were for this call; of an open call, the dearest in its reach" }),
  priced: z
    .array(
      z.object({
        tokens_of: z.enum(["input", "cached_input", "cache_write", "cache_write_1h", "output"]),
        tokens: z.number().int(),
        rate: rateSchema,
        amount: exactSchema,
      }),
    )
    .openapi({ description: "raw tokens × rate, for each kind of tokens" }),
  rounding: z
    .object({ exact: exactSchema, rounded_up_by: exactSchema })
    .nullable()
    .openapi({ description: "the sum of `priced`, rounded up once to whole tokens" }),
  cost_tokens: tokensSchema.nullable(),
  charged_tokens: tokensSchema.nullable(),
  overage_tokens: tokensSchema.nullable(),
  absorbed_tokens: tokensSchema.nullable(),
  from_progress: z
    .boolean()
    .openapi({ description: "the call was lost, and this is what was last known to have been generated" }),
  estimated: z.boolean().openapi({
    description: "the counts are estimates: the provider reported no usable ones, or the caller disconnected first",
  }),
  legs: z.array(listedTransactionSchema).openapi({ description: "the ledger's lines of the charge" }),
  created_at: instantSchema.nullable(),
};

export const explanationSchema = z
  .object({
    request_id: z.string(),
    ...chargeFields,
    others: z.array(z.object(chargeFields)).openapi({
      description: "older charges with the same request id: those of a run, or of a caller that repeats it",
    }),
  })
  .openapi("Explanation");

const routes = routesOf("Usage and billing");

export const getUsage = routes.get("/api/v1/users/me/usage", {
  summary: "Usage by day (UTC), model, agent and key",
  scope: "billing:read",
  query: z.object({
    days: z.coerce.number().int().min(USAGE_DAYS.min).max(USAGE_DAYS.max).default(USAGE_DAYS.default),
    format: formatSchema,
    group_by: z
      .string()
      .regex(/^(model|day|user|metadata\.[^\0]{1,64})$/, "model, day, user or metadata.{name}")
      .optional()
      .openapi({ description: "adds `groups`: model, day, user or metadata.{name}; `limit` and `cursor` page them" }),
    ...listQuerySchema.shape,
  }),
  answers: {
    200: jsonOrCsv(
      groupedUsageSchema,
      "every day of the window, today last; as CSV a line for each day, model, agent and key",
    ),
  },
});

const entryFilters = {
  type: z.enum(ENTRY_TYPES).optional(),
  run_id: z.uuid().optional(),
  agent_id: z.uuid().optional(),
  ...windowQuery("written"),
};

export const listTransactions = routes.get("/api/v1/users/me/transactions", {
  summary: "The ledger, newest first; as CSV oldest first",
  scope: "billing:read",
  query: listQuerySchema.extend({
    ...entryFilters,
    hold_id: z.uuid().optional().openapi({ description: "the call: `hold_id` of a group or of an explanation" }),
    format: formatSchema,
  }),
  answers: {
    200: jsonOrCsv(
      pageSchema({ transactions: listedTransactionSchema }).extend(archivedFields),
      "a page of entries; as CSV all of them, with what `npm run audit -- --verify` needs",
    ),
  },
});

export const transactionGroupSchema = z
  .object({
    run_id: uuidSchema.nullable(),
    hold_id: uuidSchema
      .nullable()
      .openapi({ description: "the call, without a run; null with `run_id`: another entry" }),
    entries: z.number().int(),
    moved_tokens: z.number().int().openapi({
      description: "what its entries moved the balance by: their amounts without overage and absorbed tokens",
    }),
    overage_tokens: tokensSchema,
    absorbed_tokens: tokensSchema,
    first_at: instantSchema,
    newest: listedTransactionSchema,
  })
  .openapi("TransactionGroup");

export const listTransactionGroups = routes.get("/api/v1/users/me/transaction-groups", {
  summary: "The ledger by run, by call without a run, and each other entry alone; the newest entry first",
  scope: "billing:read",
  query: listQuerySchema.extend(entryFilters),
  answers: {
    200: json(
      pageSchema({ groups: transactionGroupSchema }).extend(archivedFields),
      "a page of groups of the entries that match; all pages show the ledger as of the first one",
    ),
  },
});

export const holdSchema = z
  .object({
    hold_id: uuidSchema,
    request_id: z.string(),
    agent_id: uuidSchema.nullable(),
    ...agentNameFields,
    run_id: uuidSchema.nullable(),
    api_key_id: uuidSchema.nullable(),
    end_user: z.string().nullable(),
    held_tokens: tokensSchema.openapi({ description: "of the balance" }),
    overage_tokens: tokensSchema.openapi({ description: "held of the overage's cap" }),
    since: instantSchema,
  })
  .openapi("Hold");

export const listHolds = routes.get("/api/v1/users/me/holds", {
  summary: "The calls that hold tokens now, newest first",
  scope: "billing:read",
  query: listQuerySchema,
  answers: { 200: json(pageSchema({ holds: holdSchema }), "a page of open holds") },
});

export const explainCharge = routes.get("/api/v1/billing/explain/{request_id}", {
  summary: "What a charge is made of",
  scope: "billing:read",
  params: z.object({ request_id: z.string().min(1).max(255) }),
  answers: { 200: json(explanationSchema, "estimate, hold, slices, rates, rounding and the ledger's lines") },
  fails: [404],
});
