import { fieldsOf } from "../../platform/lib/json.ts";
import { errorSchema, json, jsonOrEvents } from "./common.ts";
import {
  limitSchema,
  modelNameSchema,
  routingSchema,
  toolNameSchema,
  usageSchema,
  withoutNulls,
} from "./completions.ts";
import { countedList, firstInvalid, mapSchema } from "./request-limits.ts";
import { routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** OpenAI's Responses API (contract 4): a second shape of the same model calls. */

const text = z.string();
const otherThan = (...types: string[]) =>
  z.looseObject({ type: z.string().refine((type) => !types.includes(type), { abort: true }) });

const inputPartSchema = z.union([
  z.discriminatedUnion("type", [
    z.looseObject({ type: z.literal("input_text"), text }),
    z.looseObject({ type: z.literal("output_text"), text }),
    z.looseObject({ type: z.literal("refusal"), refusal: text }),
    z.looseObject({ type: z.literal("input_image"), image_url: text.nullish(), detail: text.nullish() }),
    z.looseObject({
      type: z.literal("input_file"),
      file_data: text.nullish(),
      file_id: text.nullish(),
      file_url: text.nullish(),
      filename: text.nullish(),
    }),
    z.looseObject({ type: z.literal("input_audio"), input_audio: z.looseObject({ data: text, format: text }) }),
  ]),
  otherThan("input_text", "output_text", "refusal", "input_image", "input_file", "input_audio"),
]);
const contentSchema = z.union([text, z.preprocess(firstInvalid(inputPartSchema), z.array(inputPartSchema))]);

const summarySchema = z.looseObject({ type: text, text });
const callIdSchema = text.min(1).max(200);
/** Of a tool that OpenAI defines and the caller executes. */
const LOCAL_CALL = { call_id: callIdSchema };
const CALL = { call_id: callIdSchema, name: text.min(1).max(200), namespace: text.max(200).nullish() };
const MESSAGE = {
  role: z.enum(["user", "assistant", "system", "developer"], "one of user, assistant, system, developer"),
  content: contentSchema,
};
const TYPED_ITEMS = [
  z.looseObject({ type: z.literal("message"), ...MESSAGE }),
  z.looseObject({ type: z.literal("function_call"), ...CALL, arguments: text }),
  z.looseObject({ type: z.literal("function_call_output"), call_id: text, output: contentSchema }),
  z.looseObject({ type: z.literal("custom_tool_call"), ...CALL, input: text }),
  z.looseObject({ type: z.literal("custom_tool_call_output"), call_id: text, output: contentSchema }),
  z.looseObject({ type: z.literal("shell_call"), ...LOCAL_CALL, action: mapSchema }),
  z.looseObject({ type: z.literal("shell_call_output"), ...LOCAL_CALL, output: z.array(z.unknown()) }),
  z.looseObject({ type: z.literal("local_shell_call"), ...LOCAL_CALL, action: mapSchema }),
  // Its `id` is the id of the call.
  z.looseObject({ type: z.literal("local_shell_call_output"), call_id: callIdSchema.nullish(), output: text }),
  z.looseObject({ type: z.literal("apply_patch_call"), ...LOCAL_CALL, operation: mapSchema }),
  z.looseObject({ type: z.literal("apply_patch_call_output"), ...LOCAL_CALL, output: text.nullish() }),
  z.looseObject({
    type: z.literal("reasoning"),
    summary: z.preprocess(firstInvalid(summarySchema), z.array(summarySchema).nullish()),
    encrypted_content: text.nullish(),
  }),
  z.looseObject({ type: z.literal("item_reference"), id: text.min(1).max(200) }),
] as const;
const inputItemSchema = z.union([
  z.discriminatedUnion("type", TYPED_ITEMS),
  otherThan(...TYPED_ITEMS.map(({ shape }) => shape.type.value)),
  z.looseObject({ type: z.null().optional(), ...MESSAGE }),
]);

const countedInput = countedList(
  inputItemSchema,
  "items and parts of items",
  (item: { content?: unknown; output?: unknown; summary?: unknown } | null) => [
    item?.content,
    item?.output,
    item?.summary,
  ],
);

const functionSchema = z.looseObject({
  type: z.literal("function"),
  name: toolNameSchema,
  description: text.nullish(),
  parameters: mapSchema.nullish(),
  strict: z.boolean().nullish(),
});
const customSchema = z.looseObject({
  type: z.literal("custom"),
  name: toolNameSchema,
  description: text.nullish(),
  format: mapSchema.nullish(),
});
const toolSchema = z.union([
  z.discriminatedUnion("type", [
    functionSchema,
    customSchema,
    z.looseObject({
      type: z.literal("namespace"),
      name: text.min(1).max(200),
      description: text.nullish(),
      tools: z.array(z.union([functionSchema, customSchema, otherThan("function", "custom")])).max(128),
    }),
  ]),
  otherThan("function", "custom", "namespace"),
]);
const chosenSchema = z.looseObject({ type: text, name: text.nullish(), namespace: text.nullish() });
const toolChoiceSchema = z.union([
  z.enum(["none", "auto", "required"]),
  z.looseObject({
    type: z.literal("allowed_tools"),
    mode: z.enum(["auto", "required"]),
    tools: z.array(chosenSchema).max(128),
  }),
  chosenSchema,
]);
const formatSchema = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("text") }),
  z.looseObject({ type: z.literal("json_object") }),
  z.looseObject({
    type: z.literal("json_schema"),
    name: text,
    schema: mapSchema.nullish(),
    description: text.nullish(),
    strict: z.boolean().nullish(),
  }),
]);

const fieldsSchema = z
  .looseObject({
    model: modelNameSchema,
    input: z.preprocess(countedInput, z.union([text, z.array(inputItemSchema)])),
    instructions: text.nullish(),
    tools: z.array(toolSchema).max(128).nullish().openapi({
      description:
        "functions, custom tools, namespaces of both, shell (local), local_shell and apply_patch; tools that OpenAI executes are dropped",
    }),
    tool_choice: toolChoiceSchema.nullish(),
    parallel_tool_calls: z.boolean().nullish(),
    max_output_tokens: limitSchema,
    temperature: z.number().min(0).max(2).nullish(),
    top_p: z.number().min(0).max(1).nullish(),
    text: z.looseObject({ format: formatSchema.nullish(), verbosity: text.nullish() }).nullish(),
    reasoning: z.looseObject({ effort: text.nullish(), summary: text.nullish() }).nullish(),
    include: z.array(text).max(20).nullish(),
    metadata: mapSchema.nullish(),
    prompt_cache_key: text.nullish(),
    safety_identifier: text.nullish(),
    presence_penalty: z.number().min(-2).max(2).nullish(),
    frequency_penalty: z.number().min(-2).max(2).nullish(),
    top_logprobs: z.number().int().min(0).max(20).nullish(),
    max_tool_calls: z.number().int().min(1).nullish(),
    truncation: z.enum(["auto", "disabled"]).nullish(),
    service_tier: text.max(64).nullish().openapi({
      description:
        "sent where the operator allows it for the provider (`forward`); the answer has the tier that applied",
    }),
    previous_response_id: text.max(200).nullish().openapi({
      description: "a stored response, which this one continues. Its instructions are not inherited",
    }),
    store: z.boolean().nullish().openapi({
      description:
        "`false`: the response cannot be read or continued later, and its items not named by `item_reference`. It is also answered `false` when the account has no room for another one",
    }),
    stream: z.boolean().nullish(),
    user: text.nullish(),
  })
  .openapi("CreateResponse");

/** The fields that are validated here. */
export const RESPONSE_FIELDS: ReadonlySet<string> = new Set(Object.keys(fieldsSchema.shape));

type Fields = typeof fieldsSchema.shape;
/** A request after validation: without nulls on the first level. */
export type ResponseRequest = {
  [Name in Exclude<keyof Fields, "model" | "input">]?: Exclude<z.infer<Fields[Name]>, null>;
} & { model: string; input: string | InputItem[]; [field: string]: unknown };
export type InputItem = z.infer<typeof inputItemSchema>;
export type InputPart = z.infer<typeof inputPartSchema>;
export type ResponseTool = z.infer<typeof toolSchema>;

/** OpenAI takes a request without input that continues a response. */
function withInput(request: unknown): unknown {
  const { input, previous_response_id: previous } = fieldsOf(request);
  return input == null && typeof previous === "string" ? { ...(request as object), input: [] } : request;
}

const requestSchema = z
  .preprocess(withInput, fieldsSchema)
  .transform(withoutNulls) as unknown as z.ZodType<ResponseRequest>;

const outputPartSchema = z.union([
  z.looseObject({ type: z.literal("output_text"), text, annotations: z.array(z.unknown()) }),
  z.looseObject({ type: z.literal("refusal"), refusal: text }),
]);
const status = z.enum(["in_progress", "completed", "incomplete"]);
export const outputItemSchema = z
  .discriminatedUnion("type", [
    z.looseObject({
      type: z.literal("message"),
      id: text,
      role: z.literal("assistant"),
      status,
      content: z.array(outputPartSchema),
    }),
    z.looseObject({
      type: z.literal("reasoning"),
      id: text,
      summary: z.array(z.looseObject({ type: z.literal("summary_text"), text })),
      encrypted_content: text.nullish(),
    }),
    z.looseObject({ type: z.literal("function_call"), id: text, ...CALL, arguments: text, status }),
    z.looseObject({ type: z.literal("custom_tool_call"), id: text, ...CALL, input: text, status }),
    z.looseObject({ type: z.literal("shell_call"), id: text, ...LOCAL_CALL, action: mapSchema, status }),
    z.looseObject({ type: z.literal("local_shell_call"), id: text, ...LOCAL_CALL, action: mapSchema, status }),
    z.looseObject({ type: z.literal("apply_patch_call"), id: text, ...LOCAL_CALL, operation: mapSchema, status }),
  ])
  .openapi("ResponseOutputItem");
export type OutputItem = z.infer<typeof outputItemSchema>;

export const responseSchema = z
  .looseObject({
    id: text,
    object: z.literal("response"),
    created_at: z.number().int(),
    completed_at: z.number().int().nullable(),
    previous_response_id: text.nullable(),
    status: z.enum(["in_progress", "completed", "incomplete", "failed"]),
    error: z.looseObject({ code: text, message: text }).nullable(),
    incomplete_details: z.looseObject({ reason: text }).nullable(),
    model: text,
    output: z.array(outputItemSchema),
    store: z.boolean(),
    usage: usageSchema
      .omit({
        prompt_tokens: true,
        completion_tokens: true,
        prompt_tokens_details: true,
        completion_tokens_details: true,
      })
      .extend({
        input_tokens_details: z.looseObject({ cached_tokens: z.number().int() }),
        output_tokens_details: z.looseObject({ reasoning_tokens: z.number().int() }),
      })
      .nullable(),
    routing: routingSchema.optional(),
  })
  .openapi("Response");
export type ResponseRecord = z.infer<typeof responseSchema>;

/** Positions of a piece within the response. */
const count = z.number().int();
const IN_ITEM = { item_id: text, output_index: count };
const IN_CONTENT = { ...IN_ITEM, content_index: count };
const IN_SUMMARY = { ...IN_ITEM, summary_index: count };
const summaryPartSchema = z.looseObject({ type: z.literal("summary_text"), text });
const RESPONSE = { response: responseSchema };
const ITEM = { output_index: count, item: outputItemSchema };
const event = <const Type extends string, Fields extends z.ZodRawShape>(type: Type, fields: Fields) =>
  z.looseObject({ type: z.literal(type), sequence_number: count, ...fields });

const responseEventSchema = z
  .discriminatedUnion("type", [
    event("response.created", RESPONSE),
    event("response.in_progress", RESPONSE),
    event("response.output_item.added", ITEM),
    event("response.content_part.added", { ...IN_CONTENT, part: outputPartSchema }),
    event("response.output_text.delta", { ...IN_CONTENT, delta: text }),
    event("response.output_text.done", { ...IN_CONTENT, text }),
    event("response.refusal.delta", { ...IN_CONTENT, delta: text }),
    event("response.refusal.done", { ...IN_CONTENT, refusal: text }),
    event("response.content_part.done", { ...IN_CONTENT, part: outputPartSchema }),
    event("response.function_call_arguments.delta", { ...IN_ITEM, delta: text }),
    event("response.function_call_arguments.done", { ...IN_ITEM, name: text, arguments: text }),
    event("response.custom_tool_call_input.delta", { ...IN_ITEM, delta: text }),
    event("response.custom_tool_call_input.done", { ...IN_ITEM, input: text }),
    event("response.reasoning_summary_part.added", { ...IN_SUMMARY, part: summaryPartSchema }),
    event("response.reasoning_summary_text.delta", { ...IN_SUMMARY, delta: text }),
    event("response.reasoning_summary_text.done", { ...IN_SUMMARY, text }),
    event("response.reasoning_summary_part.done", { ...IN_SUMMARY, part: summaryPartSchema }),
    event("response.output_item.done", ITEM),
    event("response.completed", RESPONSE),
    event("response.incomplete", RESPONSE),
    event("response.failed", RESPONSE),
  ])
  .openapi("ResponseStreamEvent", { description: "the data of one event; `type` is also the event's name" });

const routes = routesOf("Model calls in other shapes");

export const createResponseRoute = routes.post("/api/v1/responses", {
  operationId: "createResponse",
  summary: "Create a response (OpenAI's Responses API)",
  description:
    "OpenAI's Responses API over every model. Unless `store` is `false`, the response is kept for some days " +
    "(PURSER_KEEP_RESPONSES_DAYS, 1 by default): it can be read, and `previous_response_id` continues it. " +
    "`conversation`, `background` and `prompt` are 400. Tools that OpenAI executes itself are dropped, and their items " +
    "of earlier turns are left out.",
  scope: "chat:write",
  body: requestSchema,
  answers: {
    200: jsonOrEvents(responseSchema, responseEventSchema, "the response"),
    502: json(errorSchema, "the model's provider failed; nothing was charged"),
    504: json(errorSchema, "the model did not answer in time; nothing was charged"),
  },
  fails: [402, 404, 409, 503],
});

const path = "/api/v1/responses/{response_id}";

export const getResponseRoute = routes.get(path, {
  operationId: "getResponse",
  summary: "A stored response, as it was answered",
  scope: "chat:read",
  query: z.object({ include: z.unknown().optional(), "include[]": z.unknown().optional() }),
  answers: { 200: json(responseSchema, "the response") },
});

export const deleteResponseRoute = routes.delete(path, {
  operationId: "deleteResponse",
  summary: "Delete a stored response",
  scope: "chat:write",
  answers: {
    200: json(
      z.object({ id: text, object: z.literal("response"), deleted: z.literal(true) }).openapi("DeletedResponse"),
      "deleted",
    ),
  },
});

export const responseInputItemsRoute = routes.get(`${path}/input_items`, {
  operationId: "listResponseInputItems",
  summary: "The input items of a stored response's request, the last one first",
  scope: "chat:read",
  query: z.object({
    limit: z.coerce.number().int().min(1).max(100).default(20).openapi({ description: "items a page" }),
    order: z.enum(["asc", "desc"]).default("desc"),
    after: text.optional().openapi({ description: "the id of the last item of the page before" }),
    include: z.unknown().optional(),
    "include[]": z.unknown().optional(),
  }),
  answers: {
    200: json(
      z
        .object({
          object: z.literal("list"),
          data: z.array(z.looseObject({ id: text, type: text })),
          first_id: text.nullable(),
          last_id: text.nullable(),
          has_more: z.boolean(),
        })
        .openapi("ResponseInputItems"),
      "a page of items",
    ),
  },
});

export const countResponseTokensRoute = routes.post("/api/v1/responses/input_tokens", {
  operationId: "countResponseInputTokens",
  summary: "Estimate the input tokens of a response without creating it",
  scope: "chat:write",
  body: requestSchema,
  answers: {
    200: json(
      z
        .object({ object: z.literal("response.input_tokens"), input_tokens: z.number().int() })
        .openapi("ResponseInputTokens"),
      "the estimate",
    ),
  },
  fails: [404],
});

/** Not in the reference: it answers what to do instead. */
export const compactResponseRoute = routes.post("/api/v1/responses/compact", {
  hide: true,
  scope: "chat:write",
  answers: {},
});
