import { instantSchema, json, listQuerySchema, longListQuerySchema, textSchema, uuidSchema } from "./common.ts";
import { hostSchema } from "./hosts.ts";
import { createOAuthSchema, type OAuthChange, oauthSchema, updateOAuthSchema } from "./oauth-secrets.ts";
import { readOnlyFields } from "./read-only.ts";
import { pageSchema, routesOf } from "./routes.ts";
import { z } from "./zod.ts";

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

const routes = routesOf("Secrets");

export const listSecrets = routes.get("/api/v1/secrets", {
  summary: "The caller's secrets, masked, newest first",
  scope: "secrets:read",
  query: longListQuerySchema,
  answers: { 200: json(pageSchema({ secrets: secretSchema }), "a page of secrets") },
});

export const createSecret = routes.post("/api/v1/secrets", {
  summary: "Store a credential; its value is never returned",
  scope: "secrets:write",
  body: createSecretSchema,
  answers: { 201: json(secretSchema, "the secret, masked") },
  fails: [409, 503],
});

export const getSecret = routes.get("/api/v1/secrets/{id}", {
  summary: "One secret, masked",
  scope: "secrets:read",
  answers: { 200: json(secretSchema, "the secret, masked") },
});

export const updateSecret = routes.patch("/api/v1/secrets/{id}", {
  summary: "Change a secret's value, description or hosts",
  scope: "secrets:write",
  body: updateSecretSchema,
  answers: { 200: json(secretSchema, "the secret, masked") },
  fails: [503],
});

export const deleteSecret = routes.delete("/api/v1/secrets/{id}", {
  summary: "Delete a secret: steps that need it fail from then on",
  scope: "secrets:write",
  answers: { 204: { description: "deleted" } },
  fails: [503],
});

export const listSecretUses = routes.get("/api/v1/secrets/{id}/uses", {
  summary: "When, by which run and for which host a secret was used, newest first",
  scope: "secrets:read",
  query: listQuerySchema,
  answers: { 200: json(pageSchema({ uses: secretUseSchema }), "a page of uses") },
});
