import { createRoute, z } from "@hono/zod-openapi";
import { needs } from "./caller.ts";
import {
  failures,
  instantSchema,
  json,
  jsonBody,
  listQuerySchema,
  longListQuerySchema,
  nextCursorSchema,
  textSchema,
  uuidSchema,
} from "./common.ts";
import { hostSchema } from "./hosts.ts";
import { createOAuthSchema, type OAuthChange, oauthSchema, updateOAuthSchema } from "./oauth-secrets.ts";
import { readOnlyFields } from "./read-only.ts";

/** The vault: contract 7. */

/** contract 7.1: in Unicode code points. */
const NAME_CHARACTERS = 64;
/** A name is one line: it stands in messages, subjects of mails and descriptions for models. */
const NOT_IN_A_NAME = /[\p{Cc}\u2028\u2029]/u;
/** A secret's name: any text, without the white space around it. */
export const secretNameSchema = z
  .string()
  .trim()
  .refine(
    (text) =>
      text !== "" &&
      text.length <= 2 * NAME_CHARACTERS &&
      [...text].length <= NAME_CHARACTERS &&
      text.isWellFormed() &&
      !NOT_IN_A_NAME.test(text),
    `one line of text of 1 to ${NAME_CHARACTERS} characters that is not blank`,
  )
  .openapi({ minLength: 1, maxLength: NAME_CHARACTERS });

/** Equal for two names exactly when they differ in nothing but case, also ß and SS, and the composition of accents. */
function foldedName(name: string): string {
  return name.normalize("NFC").toUpperCase().toLowerCase().normalize("NFC");
}

/** Finds a secret by its name, ignoring case. */
export function findNamed<Named extends { name: string }>(secrets: readonly Named[], name: string): Named | undefined {
  const folded = foldedName(name);
  return secrets.find((each) => foldedName(each.name) === folded);
}

/** A secret that tools_config can name. */
export interface NamedSecret {
  name: string;
  /** The only tool that may use it; null: every tool. */
  only_tool: string | null;
  /** Null: every host that a tool binds it to. */
  allowed_hosts: readonly string[] | null;
}
/** contract 7: bytes of UTF-8. */
const VALUE_BYTES = 65_536;
const SECRET_TYPES = ["value", "oauth"] as const;

export const secretSchema = z
  .object({
    id: uuidSchema,
    name: z.string(),
    type: z.enum(SECRET_TYPES).openapi({ description: "`oauth`: tokens of one MCP server" }),
    description: z.string(),
    masked_value: z
      .string()
      .openapi({ description: "all that is ever shown of the value", example: "sk_live_••••••••a1B2" }),
    allowed_hosts: z
      .array(z.string())
      .nullable()
      .openapi({ description: "where it may be sent at most; null: wherever the agents' tools_config binds it" }),
    version: z.number().int().openapi({ description: "of the value: counts its changes" }),
    created_at: instantSchema,
    updated_at: instantSchema,
    last_used_at: instantSchema.nullable(),
    reflected_at: instantSchema
      .nullable()
      .openapi({ description: "a site sent the value back then: it is not used again until it changes" }),
    oauth: oauthSchema.nullable().openapi({ description: "null for a value" }),
  })
  .openapi("Secret");
export type Secret = z.infer<typeof secretSchema>;

const USE_OUTCOMES = ["opened", "host_refused", "reflected", "unreadable", "no_token"] as const;
export const secretUseSchema = z
  .object({
    id: uuidSchema,
    secret_version: z.number().int(),
    agent_id: uuidSchema.nullable(),
    run_id: uuidSchema.nullable(),
    tool: z.string(),
    host: z.string().openapi({ description: "where it was to be sent" }),
    outcome: z.enum(USE_OUTCOMES).openapi({ description: "`opened`: handed to the tool; else why it was not" }),
    used_at: instantSchema,
  })
  .openapi("SecretUse");
export type SecretUse = z.infer<typeof secretUseSchema>;

const description = textSchema(2000);
const value = z
  .string()
  .min(1)
  .refine((text) => text.isWellFormed(), "text without halves of surrogate pairs")
  // What stands for bytes that were no UTF-8: stored, it would be another credential than the one that was sent.
  .refine((text) => !text.includes("\ufffd"), "UTF-8 without U+FFFD: send other bytes in base64, say")
  .refine((text) => Buffer.byteLength(text) <= VALUE_BYTES, `text of at most ${VALUE_BYTES} bytes`)
  .openapi({ description: `sent and never returned; 1 to ${VALUE_BYTES} bytes of UTF-8` });
const allowedHosts = z
  .array(hostSchema)
  .max(100)
  .nullable()
  .openapi({ description: "`host`, `host:port` or `*.host`; null: wherever tools_config binds it; []: nowhere" });

export const createSecretSchema = z
  .strictObject({
    name: secretNameSchema.openapi({ description: "unique, ignoring case" }),
    type: z.enum(SECRET_TYPES).default("value"),
    description: description.default(""),
    value: value.optional(),
    allowed_hosts: allowedHosts.default(null),
    oauth: createOAuthSchema.optional(),
  })
  .superRefine(({ type, ...given }, context) => {
    const [wanted, other] = type === "value" ? (["value", "oauth"] as const) : (["oauth", "value"] as const);
    const expected = type === "value" ? "string" : "object";
    if (given[wanted] === undefined)
      context.addIssue({ code: "invalid_type", expected, path: [wanted], message: "required" });
    const path = given[other] !== undefined ? [other] : ["allowed_hosts"];
    if (given[other] !== undefined || (type === "oauth" && given.allowed_hosts !== null)) {
      context.addIssue({ code: "custom", path, message: `absent for a secret of type ${type}` });
    }
  })
  .openapi("CreateSecret");
/** The type follows from the fields. */
export type NewSecret = Omit<z.infer<typeof createSecretSchema>, "type">;

export const SECRET_READ_ONLY = {
  fixed: ["id", "name", "type", "masked_value", "version", "created_at", "updated_at", "reflected_at"],
  moving: ["last_used_at"],
} as const;
export const updateSecretSchema = z
  .strictObject({
    value: value.optional(),
    description: description.optional(),
    allowed_hosts: allowedHosts.optional().openapi({ description: "widening it needs the value sent again" }),
    oauth: updateOAuthSchema
      .nullish()
      .openapi({ description: "replaces credentials or the scope of an oauth secret, and drops its tokens" }),
    ...readOnlyFields(SECRET_READ_ONLY),
  })
  .openapi("UpdateSecret");
export type SecretChange = Pick<z.infer<typeof updateSecretSchema>, "value" | "description" | "allowed_hosts"> & {
  oauth?: OAuthChange | undefined;
};

const tags = ["Secrets"];
const idParams = z.object({ id: z.string() });

export const listSecrets = createRoute({
  method: "get",
  path: "/api/v1/secrets",
  tags,
  summary: "The caller's secrets, masked, newest first",
  ...needs("secrets:read"),
  request: { query: longListQuerySchema },
  responses: {
    200: json(z.object({ secrets: z.array(secretSchema), next_cursor: nextCursorSchema }), "a page of secrets"),
    ...failures(400, 403),
  },
});

export const createSecret = createRoute({
  method: "post",
  path: "/api/v1/secrets",
  tags,
  summary: "Store a credential; its value is never returned",
  ...needs("secrets:write"),
  request: jsonBody(createSecretSchema),
  responses: { 201: json(secretSchema, "the secret, masked"), ...failures(400, 403, 409, 503) },
});

export const getSecret = createRoute({
  method: "get",
  path: "/api/v1/secrets/{id}",
  tags,
  summary: "One secret, masked",
  ...needs("secrets:read"),
  request: { params: idParams },
  responses: { 200: json(secretSchema, "the secret, masked"), ...failures(403, 404) },
});

export const updateSecret = createRoute({
  method: "patch",
  path: "/api/v1/secrets/{id}",
  tags,
  summary: "Change a secret's value, description or hosts",
  ...needs("secrets:write"),
  request: { params: idParams, ...jsonBody(updateSecretSchema) },
  responses: { 200: json(secretSchema, "the secret, masked"), ...failures(400, 403, 404, 503) },
});

export const deleteSecret = createRoute({
  method: "delete",
  path: "/api/v1/secrets/{id}",
  tags,
  summary: "Delete a secret: steps that need it fail from then on",
  ...needs("secrets:write"),
  request: { params: idParams },
  responses: { 204: { description: "deleted" }, ...failures(403, 404, 503) },
});

export const listSecretUses = createRoute({
  method: "get",
  path: "/api/v1/secrets/{id}/uses",
  tags,
  summary: "When, by which run and for which host a secret was used, newest first",
  ...needs("secrets:read"),
  request: { params: idParams, query: listQuerySchema },
  responses: {
    200: json(z.object({ uses: z.array(secretUseSchema), next_cursor: nextCursorSchema }), "a page of uses"),
    ...failures(400, 403, 404),
  },
});
