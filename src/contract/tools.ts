import { z } from "@hono/zod-openapi";
import { MAX_CREDENTIALS, mayCarrySecret, placeOf } from "../platform/credentials.ts";
import { hostSchema, isListedHost, normalHost } from "./hosts.ts";
import { SECRET_NAME } from "./secrets.ts";

/** The tools an agent may have and their settings: contract 7. */

const FETCH_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;
const SAFETY_LEVELS = ["strict", "balanced", "off"] as const;
export type SafetyLevel = (typeof SAFETY_LEVELS)[number];
/** Bounds and defaults of `max_calls`, per run. */
export const MAX_CALLS = { min: 1, max: 1000, web_fetch: 20, send_webhook: 5, mcp: 20 } as const;

const hosts = z.array(hostSchema).min(1).max(100);
const methods = z.array(z.enum(FETCH_METHODS)).min(1).max(FETCH_METHODS.length);
const maxCalls = (fallback: number) =>
  z
    .number()
    .int()
    .min(MAX_CALLS.min)
    .max(MAX_CALLS.max)
    .optional()
    .openapi({ description: `per run; default ${fallback}` });
const secretName = z.string().regex(SECRET_NAME, "the name of a secret").nullable().openapi({
  description: "a secret's name. Null in answers without `secrets:read`; null in a PUT keeps that binding unchanged",
});

const header = z
  .string()
  .max(100)
  .refine(mayCarrySecret, "a header's name, and none that says where a request goes, where it ends or what it is");
const injectSchema = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("bearer") }),
  z.strictObject({
    type: z.literal("basic"),
    username: z
      .string()
      .max(255)
      .refine((text) => !/[\p{Cc}:]/u.test(text), "up to 255 characters without colons and line breaks"),
  }),
  z.strictObject({ type: z.literal("header"), name: header }),
  z.strictObject({
    type: z.literal("query"),
    name: z.string().regex(/^[!-~]{1,100}$/, "1 to 100 printable characters"),
  }),
  z.strictObject({
    type: z.literal("hmac"),
    header: header.openapi({ description: "gets HMAC-SHA256 in hex of the body; without one, of path and query" }),
  }),
]);

const paths = z
  .array(z.string().startsWith("/").max(1000))
  .min(1)
  .max(50)
  .openapi({ description: "`*` stands for any text; default all" });
const authSchema = z.strictObject({
  secret: secretName,
  hosts,
  methods: methods.optional().openapi({ description: "default GET" }),
  paths: paths.optional(),
  inject: injectSchema,
});
export type AuthSettings = Named<z.infer<typeof authSchema>>;

const webFetchSchema = z.strictObject({
  enabled: z.boolean(),
  auth: z.array(authSchema).max(20).optional(),
  hosts: hosts.optional().openapi({ description: "only these; absent: any public host" }),
  methods: methods.optional().openapi({ description: "default GET" }),
  max_calls: maxCalls(MAX_CALLS.web_fetch),
  safety: z.enum(SAFETY_LEVELS).optional().openapi({ description: "default balanced" }),
});

const httpUrl = z.url({ protocol: /^https?$/ }).max(2000);
const webhookUrl = httpUrl.refine(
  (url) => !hasCredentials(url),
  "a URL without user name and password: webhooks are signed",
);
const serverUrl = httpUrl.refine(
  (url) => !hasCredentials(url),
  "a URL without user name and password: they go into auth",
);
const sendWebhookSchema = z.strictObject({
  enabled: z.boolean(),
  urls: z
    .array(webhookUrl)
    .min(1)
    .max(100)
    .optional()
    .openapi({ description: "required: only to exactly these is anything sent" }),
  secret: secretName.optional().openapi({
    description:
      "a secret's name: signs what is sent; absent: the agent's own key does. Null as in `web_fetch.auth`: a secret that is kept",
  }),
  max_calls: maxCalls(MAX_CALLS.send_webhook),
  safety: z.enum(SAFETY_LEVELS).optional().openapi({ description: "of what receivers answer; default balanced" }),
});

const mcpServerSchema = z.strictObject({
  name: z
    .string()
    .max(32)
    .regex(/^[A-Za-z0-9]+([_-][A-Za-z0-9]+)*$/, "letters, digits and single - or _ between them, 32 at most")
    .openapi({ description: "its tools are called `name__tool`" }),
  url: serverUrl,
  auth: authSchema
    .partial({ hosts: true })
    .optional()
    .openapi({ description: "hosts: default the server's; methods: default all that the protocol uses" }),
  tools: z
    .array(z.string().min(1).max(200))
    .min(1)
    .max(200)
    .optional()
    .openapi({ description: "only these; absent: all that the server has" }),
  effects: z
    .enum(["none", "any"])
    .optional()
    .openapi({ description: "`none`: its tools only read. Default any: refused once outside content is in the run" }),
});
const mcpSchema = z.strictObject({
  enabled: z.boolean(),
  servers: z.array(mcpServerSchema).min(1).max(20).optional().openapi({ description: "required" }),
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
    const require = (path: string[]) =>
      context.addIssue({ code: "invalid_type", expected: "array", path, message: "required" });
    if (config.send_webhook?.enabled && config.send_webhook.urls === undefined) require(["send_webhook", "urls"]);
    if (config.mcp?.enabled && config.mcp.servers === undefined) require(["mcp", "servers"]);
    const crowded = crowdedBinding(config.web_fetch?.auth ?? []);
    if (crowded !== undefined) {
      const why = `a binding that leaves at most ${MAX_CREDENTIALS} secrets for one request. Narrow its hosts, methods or paths`;
      refuse(["web_fetch", "auth", crowded], why);
    }
    const names = new Set<string>();
    for (const [index, { name, url, auth }] of (config.mcp?.servers ?? []).entries()) {
      if (names.has(name)) refuse(["mcp", "servers", index, "name"], "a name that no other server here has");
      names.add(name);
      if (auth?.hosts !== undefined && !isListedHost(new URL(url), auth.hosts)) {
        refuse(["mcp", "servers", index, "auth", "hosts"], "a list with the server's own host in it");
      }
    }
  })
  .openapi("ToolsConfig");

/** The settings in requests and answers: a secret's name may be null. */
export type ShownToolsConfig = z.infer<typeof toolsConfigSchema>;
/** The stored settings: every secret has its name. */
export type ToolsConfig = Named<ShownToolsConfig>;

/** The settings with no null in place of a secret's name. */
type Named<Settings> = Settings extends readonly (infer Item)[]
  ? Named<Item>[]
  : Settings extends object
    ? { [Key in keyof Settings]: Key extends "secret" ? Exclude<Settings[Key], null> : Named<Settings[Key]> }
    : Settings;

export type WebFetchSettings = NonNullable<ToolsConfig["web_fetch"]>;
export type SendWebhookSettings = NonNullable<ToolsConfig["send_webhook"]>;
export type McpSettings = NonNullable<ToolsConfig["mcp"]>;
export type McpServer = NonNullable<McpSettings["servers"]>[number];

/**
 * Returns the index of a binding that gives one request too many secrets. Compares only bindings for all paths of equal
 * hosts; other requests are checked when they are made.
 */
function crowdedBinding(auth: readonly Omit<AuthSettings, "secret">[]): number | undefined {
  const places = new Map<string, Set<string>>();
  for (const [index, { hosts, methods = ["GET"], paths = ["/*"], inject }] of auth.entries()) {
    if (!paths.includes("/*")) continue;
    for (const request of hosts.flatMap((host) => methods.map((method) => `${method} ${normalHost(host)}`))) {
      const taken = places.get(request) ?? new Set();
      places.set(request, taken.add(placeOf(inject)));
      if (taken.size > MAX_CREDENTIALS) return index;
    }
  }
  return undefined;
}

/** Returns the names of secrets in `tools_config` with their paths, without nulls. */
export function secretsReferred({
  web_fetch,
  send_webhook,
  mcp,
}: ShownToolsConfig): { name: string; path: PropertyKey[] }[] {
  const referred = (web_fetch?.auth ?? []).map(({ secret }, index) => ({
    name: secret,
    path: ["web_fetch", "auth", index, "secret"] as PropertyKey[],
  }));
  if (send_webhook?.secret !== undefined)
    referred.push({ name: send_webhook.secret, path: ["send_webhook", "secret"] });
  for (const [index, { auth }] of (mcp?.servers ?? []).entries()) {
    if (auth !== undefined) referred.push({ name: auth.secret, path: ["mcp", "servers", index, "auth", "secret"] });
  }
  return referred.flatMap(({ name, path }) => (name === null ? [] : { name, path }));
}

/** The tools whose settings have `safety: off`, which the operator must have allowed. */
export function unjudgedTools(config: ShownToolsConfig): string[] {
  return (["web_fetch", "send_webhook"] as const).filter((tool) => config[tool]?.safety === "off");
}

function hasCredentials(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && (url.username !== "" || url.password !== "");
}

/** Arguments that the model gives to web_fetch. */
export const webFetchArgumentsSchema = z.strictObject({
  url: z.string().min(1).max(4000).openapi({ description: "the address, http or https" }),
  method: z.enum(FETCH_METHODS).optional().openapi({ description: "default GET" }),
  body: z.string().max(100_000).optional().openapi({ description: "the request's body, for POST, PUT and PATCH" }),
});
export type WebFetchArguments = z.infer<typeof webFetchArgumentsSchema>;

/** Arguments that the model gives to send_webhook. */
export const sendWebhookArgumentsSchema = z.strictObject({
  url: z.string().min(1).max(4000).openapi({ description: "one of the listed URLs" }),
  payload: z
    .unknown()
    .refine((value) => value !== undefined, "is required: what is to be sent")
    .openapi({ description: "any JSON value; the body that is sent" }),
});
