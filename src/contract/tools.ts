import { z } from "@hono/zod-openapi";

/**
 * The tools an agent may have and their settings: contract 7. Every tool's shape is here; what this version cannot do
 * yet is refused with a plain sentence rather than accepted and ignored.
 */

const HOST =
  /^(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\.?(:\d{1,5})?$|^\[[0-9a-f:.]+\](:\d{1,5})?$/i;
const SECRET_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;

const FETCH_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;
const SAFETY_LEVELS = ["strict", "balanced", "off"] as const;
/** Bounds and defaults of `max_calls`, per run. */
export const MAX_CALLS = { min: 1, max: 1000, web_fetch: 20, send_webhook: 5, mcp: 20 } as const;

const host = z.string().max(260).regex(HOST, "give `host`, `host:port` or `*.host`");
const hosts = z.array(host).min(1).max(100);
const methods = z.array(z.enum(FETCH_METHODS)).min(1).max(FETCH_METHODS.length);
const maxCalls = (fallback: number) =>
  z
    .number()
    .int()
    .min(MAX_CALLS.min)
    .max(MAX_CALLS.max)
    .optional()
    .openapi({ description: `per run; default ${fallback}` });
const secretName = z
  .string()
  .regex(SECRET_NAME, "give the name of a secret")
  .openapi({ description: "a secret's name" });

const injectSchema = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("bearer") }),
  z.strictObject({ type: z.literal("basic"), username: z.string().min(1).max(255) }),
  z.strictObject({ type: z.literal("header"), name: z.string().min(1).max(100) }),
  z.strictObject({ type: z.literal("query"), name: z.string().min(1).max(100) }),
  z.strictObject({ type: z.literal("hmac"), header: z.string().min(1).max(100) }),
]);

const authSchema = z.strictObject({
  secret: secretName,
  hosts,
  methods: methods.optional(),
  paths: z.array(z.string().startsWith("/").max(1000)).min(1).max(50).optional(),
  inject: injectSchema,
});

const webFetchSchema = z.strictObject({
  enabled: z.boolean(),
  auth: z.array(authSchema).max(20).optional(),
  hosts: hosts.optional().openapi({ description: "only these; absent: any public host" }),
  methods: methods.optional().openapi({ description: "default GET" }),
  max_calls: maxCalls(MAX_CALLS.web_fetch),
  safety: z.enum(SAFETY_LEVELS).optional().openapi({ description: "default balanced" }),
});

const sendWebhookSchema = z.strictObject({
  enabled: z.boolean(),
  urls: z
    .array(z.url({ protocol: /^https?$/ }).max(2000))
    .min(1)
    .max(100)
    .optional(),
  secret: secretName.optional(),
  max_calls: maxCalls(MAX_CALLS.send_webhook),
});

const mcpSchema = z.strictObject({
  enabled: z.boolean(),
  servers: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[a-z0-9_-]{1,64}$/i),
        url: z.url({ protocol: /^https?$/ }).max(2000),
        auth: authSchema.optional(),
        tools: z.array(z.string().min(1).max(200)).max(200).optional(),
        effects: z.enum(["none", "any"]).optional(),
      }),
    )
    .min(1)
    .max(20)
    .optional(),
  max_calls: maxCalls(MAX_CALLS.mcp),
});

/** `tools_config` of an agent. A disabled tool need not have its required settings. */
export const toolsConfigSchema = z
  .strictObject({
    web_fetch: webFetchSchema.optional(),
    send_webhook: sendWebhookSchema.optional(),
    mcp: mcpSchema.optional(),
  })
  .superRefine((config, context) => {
    const refuse = (path: (string | number)[], message: string) => context.addIssue({ code: "custom", path, message });
    for (const tool of ["send_webhook", "mcp"] as const) {
      if (config[tool]?.enabled) refuse([tool, "enabled"], `${tool} is not available yet; leave it out or disabled`);
    }
    config.web_fetch?.auth?.forEach((_auth, index) => {
      refuse(["web_fetch", "auth", index, "secret"], "secrets in tools are not available yet; leave auth out");
    });
    if (config.web_fetch?.safety === "off") {
      refuse(["web_fetch", "safety"], "web pages always pass the safety layer; choose strict or balanced");
    }
  })
  .openapi("ToolsConfig");

export type ToolsConfig = z.infer<typeof toolsConfigSchema>;
export type WebFetchSettings = NonNullable<ToolsConfig["web_fetch"]>;

/** Arguments that the model gives to web_fetch. */
export const webFetchArgumentsSchema = z.strictObject({
  url: z.string().min(1).max(4000).openapi({ description: "the address, http or https" }),
  method: z.enum(FETCH_METHODS).optional().openapi({ description: "default GET" }),
  body: z.string().max(100_000).optional().openapi({ description: "the request's body, for POST, PUT and PATCH" }),
});
export type WebFetchArguments = z.infer<typeof webFetchArgumentsSchema>;
