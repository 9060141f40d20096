import { isListedHost } from "./hosts.ts";
import {
  addressSchema,
  authSchema,
  maxCalls,
  onToolFailure,
  permissionPolicy,
  permissionPolicySchema,
  requireList,
  type SecretBinding,
  type ToolContract,
} from "./tool-fields.ts";
import { z } from "./zod.ts";

const MAX_CALLS = 20;
const MAX_TIMEOUT_SECONDS = 600;
const MAX_TOOLS = 200;
const toolName = z.string().min(1).max(200);

const serverSchema = z.strictObject({
  name: z
    .string()
    .max(32)
    .regex(/^[A-Za-z0-9]+([_-][A-Za-z0-9]+)*$/, "letters, digits and single - or _ between them, 32 at most")
    .openapi({ description: "its tools are called `name__tool`" }),
  url: addressSchema("they go into auth"),
  auth: authSchema
    .partial({ hosts: true })
    .optional()
    .openapi({ description: "hosts: default the server's; methods: default all that the protocol uses" }),
  tools: z
    .array(toolName)
    .min(1)
    .max(MAX_TOOLS)
    .optional()
    .openapi({ description: "only these; absent: all that the server has" }),
  permission_policy: permissionPolicy("ask_after_untrusted"),
  tool_permission_policies: z
    .record(toolName, permissionPolicySchema)
    .refine((policies) => Object.keys(policies).length <= MAX_TOOLS, `${MAX_TOOLS} tools at most`)
    .optional()
    .openapi({ description: "of single tools, by the server's names for them; the others have `permission_policy`" }),
  effects: z.enum(["none", "any"]).optional().openapi({
    description: "`none`: its tools only read, so they are always_allow unless a policy says otherwise. Default any",
  }),
  tool_effects: z
    .record(toolName, z.enum(["none", "any"]))
    .refine((effects) => Object.keys(effects).length <= MAX_TOOLS, `${MAX_TOOLS} tools at most`)
    .optional()
    .openapi({ description: "the effects of single tools, by the server's names for them; the others have `effects`" }),
  timeout_seconds: z.number().int().min(1).max(MAX_TIMEOUT_SECONDS).optional().openapi({
    description: "for one call, from its start or from the last progress that the server reports; default 60",
  }),
});

const settings = z
  .strictObject({
    enabled: z.boolean(),
    servers: z.array(serverSchema).min(1).max(20).optional().openapi({ description: "required" }),
    max_calls: maxCalls(MAX_CALLS),
    on_tool_failure: onToolFailure("continue"),
  })
  .superRefine(({ enabled, servers = [] }, context) => {
    if (enabled && servers.length === 0) requireList(context, "servers");
    const names = new Set<string>();
    const refuse = (path: PropertyKey[], message: string) =>
      context.addIssue({ code: "custom", path: ["servers", ...path], message });
    for (const [index, { name, url, auth }] of servers.entries()) {
      if (names.has(name)) refuse([index, "name"], "a name that no other server here has");
      names.add(name);
      if (auth?.hosts !== undefined && !isListedHost(new URL(url), auth.hosts)) {
        refuse([index, "auth", "hosts"], "a list with the server's own host in it");
      }
    }
  });
type Settings = z.infer<typeof settings>;

/** The tools of MCP servers over streamable HTTP. A call names one as `server__tool`. */
export const mcp = {
  name: "mcp",
  default_max_calls: MAX_CALLS,
  default_on_tool_failure: "continue",
  settings,
  /** Each tool of a server has a schema of its own, by which the server checks. */
  arguments: z.record(z.string(), z.unknown()),
  example: "{}",
  secretBindings({ servers = [] }: Settings): SecretBinding[] {
    return servers.flatMap(({ url, auth, tools = null }, index) => {
      if (auth === undefined) return [];
      const { secret, ...place } = auth;
      const { inject, hosts = [new URL(url).host], methods = null, paths = null } = place;
      const path = ["servers", index, "auth", "secret"];
      return { secret, path, kept_with: { ...place, url }, inject, urls: [url], hosts, methods, paths, tools };
    });
  },
} as const satisfies ToolContract;
