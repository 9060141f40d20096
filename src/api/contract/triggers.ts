import { TRIGGERS } from "../../kernel/constants.ts";
import { isJsonObject, jsonOrUndefined } from "../../platform/lib/json.ts";
import {
  instantSchema,
  json,
  listQuerySchema,
  longListQuerySchema,
  nameSchema,
  noFields,
  textSchema,
  uuidSchema,
} from "./common.ts";
import { readOnlyFields } from "./read-only.ts";
import { formerSecretUntil, overlapSchema, secretIsRotated } from "./rotation.ts";
import { pageSchema, routesOf } from "./routes.ts";
import { runOutcomeSchema, runPromptSchema } from "./runs.ts";
import { z } from "./zod.ts";

/** Triggers of an agent, their deliveries, and the address that receives them: contract 6.17. */

/** The path of the addresses that receive deliveries. */
export const HOOK = "/hooks/{trigger_id}";

const headerName = z.string().regex(/^[A-Za-z0-9-]{1,64}$/, "the name of a header");
const hmacSchema = z
  .strictObject({
    type: z.literal("hmac_sha256"),
    header: headerName.openapi({ description: "the header with the signature", example: "X-Shopify-Hmac-Sha256" }),
    prefix: textSchema(20).default("").openapi({ description: "the text before the signature", example: "sha256=" }),
    encoding: z.enum(["hex", "base64"]).default("hex"),
  })
  .openapi("HmacVerification");
const VERIFY_TYPES = ["standard_webhooks", "github", "stripe", "slack", "bearer"] as const;
/** `{"type": "github"}` means the same as `"github"`. */
const withoutType = (given: unknown) =>
  isJsonObject(given) && VERIFY_TYPES.some((type) => given.type === type) && Object.keys(given).length === 1
    ? given.type
    : given;
const verifySchema = z.preprocess(withoutType, z.union([z.enum(VERIFY_TYPES), hmacSchema])).openapi({
  description:
    "how a delivery proves its sender. `standard_webhooks`: webhook-id, webhook-timestamp and webhook-signature (Svix and others); " +
    "`github`: X-Hub-Signature-256; `stripe`: Stripe-Signature; `slack`: X-Slack-Signature; `bearer`: Authorization: Bearer and the secret; " +
    "an object: HMAC-SHA256 of the body in a header",
});
export type Verify = z.infer<typeof verifySchema>;

const pathSchema = textSchema(200)
  .regex(
    /^(headers\.[A-Za-z0-9-]+|\/.*|(?!\$[.[])[^./\s][^\s]*)$/,
    "a path such as action, repository.full_name or headers.x-github-event, without $ at its beginning",
  )
  .openapi({
    description:
      "a field of the body by names and places with dots (`repository.full_name`, `commits.0.id`) or as a JSON pointer (`/repository/full_name`); `headers.x-github-event`: a header",
  });
const MAX_FIELDS = 20;
const fieldsOf = <Value extends z.ZodType>(key: z.ZodType<string, string>, value: Value) =>
  z
    .record(key, value)
    .refine((fields) => Object.keys(fields).length <= MAX_FIELDS, `an object of at most ${MAX_FIELDS} fields`);
const scalar = z.union([textSchema(1_000), z.number(), z.boolean(), z.null()]);
const EQUALITY = /^(\S+?)\s*={1,2}\s*("(?:[^"\\]|\\.)*"|[^\s"]+)$/;
/** The fields of a filter in words: `event = "push" and action = "opened"`. A value without quotes is text unless it is JSON. */
function readEqualities(given: unknown): unknown {
  if (typeof given !== "string") return given;
  const pairs = given.split(/\s+(?:and|&&)\s+/i).map((part) => EQUALITY.exec(part.trim()));
  const fields = pairs.map((pair) => [pair?.[1], jsonOrUndefined(pair?.[2] ?? "") ?? pair?.[2]]);
  return pairs.includes(null) ? given : Object.fromEntries(fields);
}
const equalities = fieldsOf(pathSchema, z.union([scalar, z.array(scalar).min(1).max(50)]));
const filterSchema = z.preprocess(readEqualities, equalities).openapi({
  type: "object",
  description:
    'values by path: only a delivery that has all of them starts a run. A list: one of its values. `event` is also the header X-GitHub-Event. Text such as `event = "push" and action = "opened"` is read as such an object',
  example: { "headers.x-github-event": "issues", action: ["opened", "reopened"] },
});
const inputMapSchema = fieldsOf(textSchema(100).min(1), pathSchema).openapi({
  type: "object",
  description: "the fields of the run's input, each with the path of its value; null: the whole body is the input",
  example: { event: "headers.x-github-event", title: "issue.title" },
});
const secretSchema = textSchema(256).min(8).openapi({
  description: "the sender's own secret, such as Stripe's `whsec_…` or Shopify's client secret; without it, a new one",
});

const triggerFields = {
  name: nameSchema(100).openapi({
    description: "unique within the agent",
  }),
  verify: verifySchema,
  // The description of a preprocessed value has no type of its own.
  filter: filterSchema.nullable().openapi({ type: ["object", "null"] }),
  input_map: inputMapSchema.nullable().openapi({ type: ["object", "null"] }),
  run_prompt: runPromptSchema
    .nullable()
    .openapi({ description: "what its runs execute; null: the agent's run_prompt" }),
  enabled: z.boolean().openapi({ description: "off: deliveries are listed, and start no runs" }),
} as const;
const changeTriggerSchema = z.strictObject(triggerFields).partial();
const createTriggerSchema = changeTriggerSchema
  .required({ name: true, verify: true })
  .extend({ secret: secretSchema.optional() })
  .openapi("CreateTrigger");
export type TriggerChanges = z.infer<typeof changeTriggerSchema>;
export type NewTrigger = z.infer<typeof createTriggerSchema>;
export const TRIGGER_READ_ONLY = {
  fixed: ["id", "agent_id", "url", "api_key_id", "created_at", "updated_at"],
  moving: ["former_secret_until", "last_delivery_at", "rejected_count", "last_rejected_at", "last_rejected_reason"],
} as const;
const patchTriggerSchema = z
  .strictObject(
    { ...changeTriggerSchema.shape, ...readOnlyFields(TRIGGER_READ_ONLY) },
    { error: secretIsRotated("/api/v1/agents/{id}/triggers/{trigger_id}") },
  )
  .openapi("UpdateTrigger");

const triggerSchema = z
  .object({
    id: uuidSchema,
    agent_id: uuidSchema,
    url: z.string().openapi({ description: "where the sender posts its deliveries" }),
    ...triggerFields,
    api_key_id: uuidSchema.nullable().openapi({
      description:
        "the API key that created it or changed its task last; its budget covers the runs. Null: the console",
    }),
    former_secret_until: formerSecretUntil("is accepted"),
    last_delivery_at: instantSchema.nullable(),
    rejected_count: z.number().int().openapi({ description: "deliveries that were answered 401" }),
    last_rejected_at: instantSchema.nullable(),
    last_rejected_reason: z.string().nullable(),
    created_at: instantSchema,
    updated_at: instantSchema,
  })
  .openapi("Trigger");
export type TriggerRecord = z.infer<typeof triggerSchema>;
const createdTriggerSchema = triggerSchema
  .extend({ secret: z.string().openapi({ description: "shown this once, never again" }) })
  .openapi("CreatedTrigger");

const rotateSchema = z
  .strictObject({ secret: secretSchema.optional(), overlap_hours: overlapSchema("is accepted") })
  .openapi("RotateTriggerSecret");

const outcomeSchema = z.enum(["run", "filtered", "failed"]).openapi({
  description:
    "run: it started a run; filtered: it lacks what the filter asks for; failed: no run could start, `error` says why",
});
const triggerDeliverySchema = z
  .object({
    id: uuidSchema,
    trigger_id: uuidSchema,
    delivery_id: z.string().nullable().openapi({
      description:
        "what the sender calls it: webhook-id, X-GitHub-Delivery, X-Shopify-Webhook-Id or the event's id; null: nothing",
    }),
    resent_from: uuidSchema.nullable().openapi({ description: "the delivery that was sent again" }),
    received_at: instantSchema,
    outcome: outcomeSchema,
    run_id: uuidSchema.nullable(),
    run: runOutcomeSchema,
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    bytes: z.number().int(),
    attempts: z
      .number()
      .int()
      .openapi({ description: "how often it came; a delivery that came before starts no second run" }),
  })
  .openapi("TriggerDelivery");
export type TriggerDelivery = z.infer<typeof triggerDeliverySchema>;

const receivedSchema = z
  .object({
    run_id: uuidSchema.nullable().openapi({ description: "null: the filter left it out" }),
    outcome: outcomeSchema,
    delivery: uuidSchema.openapi({ description: "its id in the trigger's deliveries" }),
  })
  .openapi("ReceivedDelivery");
export type Received = z.infer<typeof receivedSchema>;

const routes = routesOf("Triggers");

export const listTriggers = routes.get("/api/v1/agents/{id}/triggers", {
  summary: "The agent's triggers, oldest first",
  scope: "agents:read",
  query: longListQuerySchema,
  answers: { 200: json(pageSchema({ triggers: triggerSchema }), "a page of triggers") },
});

export const createTrigger = routes.post("/api/v1/agents/{id}/triggers", {
  summary: "Add an address at which another service starts runs of the agent",
  description:
    "The answer has its `url` and, this once, its `secret`. Each delivery that proves its sender starts a run whose input is the " +
    "delivery's body. The input counts as outside content from the start. Its runs count against the key that creates it.",
  scope: "agents:write",
  body: createTriggerSchema,
  answers: { 201: json(createdTriggerSchema, "the trigger; its secret is shown this once") },
  fails: [409],
});

export const getTrigger = routes.get("/api/v1/agents/{id}/triggers/{trigger_id}", {
  summary: "One trigger",
  scope: "agents:read",
  answers: { 200: json(triggerSchema, "the trigger") },
});

export const updateTrigger = routes.patch("/api/v1/agents/{id}/triggers/{trigger_id}", {
  summary: "Change the fields given; the others stay",
  description: "A change of more than the name has its runs count against the key that wrote it.",
  scope: "agents:write",
  body: patchTriggerSchema,
  answers: { 200: json(triggerSchema, "the trigger as it is now") },
  fails: [409],
});

export const deleteTrigger = routes.delete("/api/v1/agents/{id}/triggers/{trigger_id}", {
  summary: "Delete a trigger and its deliveries; its runs stay",
  scope: "agents:write",
  answers: { 204: { description: "deleted" } },
});

export const rotateTrigger = routes.post("/api/v1/agents/{id}/triggers/{trigger_id}/rotate", {
  summary: "Give the trigger a new secret; the former one is accepted for a while",
  description: "Secrets of rotations before are accepted until their own time ends.",
  scope: "agents:write",
  optional_body: rotateSchema,
  answers: { 200: json(createdTriggerSchema, "the trigger with its new secret, which is shown this once") },
  fails: [409],
});

export const listTriggerDeliveries = routes.get("/api/v1/agents/{id}/triggers/{trigger_id}/deliveries", {
  summary: `The trigger's deliveries of the last ${TRIGGERS.kept_days} days, newest first`,
  description: "Deliveries without a valid signature are counted in the trigger, and not listed.",
  scope: "agents:read",
  query: listQuerySchema.extend({ outcome: outcomeSchema.optional() }),
  answers: { 200: json(pageSchema({ deliveries: triggerDeliverySchema }), "a page of deliveries") },
});

export const resendTriggerDelivery = routes.post(
  "/api/v1/agents/{id}/triggers/{trigger_id}/deliveries/{delivery_id}/resend",
  {
    summary: "Send a delivery again: the trigger and the agent treat it as they are now",
    scope: "agents:write",
    optional_body: noFields,
    answers: { 202: json(receivedSchema, "what became of it, as a new delivery") },
    fails: [402, 409],
  },
);

export const receiveDelivery = routes.post(HOOK, {
  summary: "A delivery of another service: it proves its sender as the trigger says",
  description:
    `JSON or a form, up to ${TRIGGERS.body_bytes / 1024} KB; a form's field \`payload\` with a JSON object is the body. The same delivery ` +
    `within ${TRIGGERS.recognized_days} days gets the first answer and starts no second run. An error starts no run; the sender may send the delivery again.`,
  security: [],
  answers: {
    200: json(z.object({ challenge: z.string() }), "Slack's check of the address"),
    202: json(receivedSchema, "the run is queued, or the filter left the delivery out"),
  },
  fails: [402, 403, 404, 409],
});
