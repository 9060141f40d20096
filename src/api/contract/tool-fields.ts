import { mayCarrySecret } from "../../platform/net/credentials.ts";
import { hostSchema, isPlainAddress } from "./hosts.ts";
import { secretNameSchema } from "./secrets.ts";
import { z } from "./zod.ts";

/** Settings that several tools have, and the form in which each tool describes itself. */

export const FETCH_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;
const SAFETY_LEVELS = ["strict", "balanced", "off"] as const;
export type SafetyLevel = (typeof SAFETY_LEVELS)[number];
/** Bounds of `max_calls`, per run. */
const MAX_CALLS = { min: 1, max: 1000 } as const;

/** What a failed call does to its run: the model reads of it and the run goes on, or the run fails. */
const ON_TOOL_FAILURE = ["continue", "fail"] as const;
type OnToolFailure = (typeof ON_TOOL_FAILURE)[number];

/** Whether a call is made at once, only after a person approved it, or so once the run has read outside content. */
const PERMISSION_POLICIES = ["always_allow", "always_ask", "ask_after_untrusted"] as const;
export type PermissionPolicy = (typeof PERMISSION_POLICIES)[number];
export const permissionPolicySchema = z.enum(PERMISSION_POLICIES);

/** Settings that the service reads for every tool. */
export interface CommonSettings {
  enabled: boolean;
  max_calls?: number | undefined;
  on_tool_failure?: OnToolFailure | undefined;
  /** Only tools that bring text back have it. */
  safety?: SafetyLevel | undefined;
}

/** A tool as its owner configures it and as a model calls it. `api/contract/tools.ts` lists them. */
export interface ToolContract {
  /** Its key in `tools_config`. */
  readonly name: string;
  readonly default_max_calls: number;
  readonly default_on_tool_failure: OnToolFailure;
  readonly settings: z.ZodType<CommonSettings>;
  /** What the model gives to one call. */
  readonly arguments: z.ZodType;
  /** Such arguments, for a model whose own are not valid. */
  readonly example: string;
  /** Where the settings name secrets, also when the tool is disabled. */
  // biome-ignore lint/suspicious/noExplicitAny: each tool takes its own settings
  secretBindings(settings: any): SecretBinding[];
  /** Why each call fails under these settings, which are otherwise valid; null: it need not. */
  // biome-ignore lint/suspicious/noExplicitAny: each tool takes its own settings
  problem?(settings: any): ToolProblem | null;
}

/** Settings under which a tool cannot work. Its owner and the model read the message. */
export interface ToolProblem {
  readonly code: "no_destination";
  /** The path in the tool's settings to what has to change. */
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Where a tool may use a secret, and how. A null list is no limit. */
export interface SecretBinding {
  /** Null where the caller withheld the name or may not see it. */
  readonly secret: string | null;
  /** The path to the secret's name in the tool's settings. */
  readonly path: readonly PropertyKey[];
  /** The settings that must stay the same for a null to keep the name that was stored. */
  readonly kept_with: unknown;
  readonly inject: unknown;
  readonly urls: readonly string[];
  readonly hosts: readonly string[] | null;
  readonly methods: readonly string[] | null;
  readonly paths: readonly string[] | null;
  /** The MCP server's tools that may be called with it. */
  readonly tools: readonly string[] | null;
  /** Computes the hosts and methods that the tool's other settings leave of it; absent: all. */
  readonly usable?: () => { readonly hosts: readonly string[]; readonly methods: readonly string[] };
}

export const hosts = z.array(hostSchema).min(1).max(100);
export const methods = z.array(z.enum(FETCH_METHODS)).min(1).max(FETCH_METHODS.length);
export const safety = z.enum(SAFETY_LEVELS).optional();

/** `max_calls`, by default `fallback`. */
export function maxCalls(fallback: number) {
  const whole = z.number().int().min(MAX_CALLS.min).max(MAX_CALLS.max).optional();
  return whole.openapi({ description: `per run; default ${fallback}` });
}

/** `on_tool_failure`, by default `fallback`. */
export function onToolFailure(fallback: OnToolFailure) {
  return z
    .enum(ON_TOOL_FAILURE)
    .optional()
    .openapi({
      description: `\`fail\`: a call that fails ends the run as failed; \`continue\`: the model reads of it and goes on. Default ${fallback}`,
    });
}

/** `permission_policy`, by default `fallback`. */
export function permissionPolicy(fallback: PermissionPolicy) {
  return permissionPolicySchema.optional().openapi({
    description: `\`always_ask\`: each call waits for a person's decision; \`ask_after_untrusted\`: once the run has read outside content; \`always_allow\`: none does. Default ${fallback}`,
  });
}

export const secretName = secretNameSchema.nullable().openapi({
  description:
    "a secret's name, in any case. Null in answers without `secrets:read`; null in a PUT keeps that binding unchanged",
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
/** A secret with the hosts, methods and paths that it may go to, and its place in the request. */
export const authSchema = z.strictObject({
  secret: secretName,
  hosts,
  methods: methods.optional().openapi({ description: "default GET" }),
  paths: paths.optional(),
  inject: injectSchema,
});

/** An http or https address without user name and password. `instead` says where credentials go. */
export function addressSchema(instead: string) {
  return z
    .url({ protocol: /^https?$/ })
    .max(2000)
    .refine(isPlainAddress, `a URL without user name and password: ${instead}`);
}

/** Reports that the list at `key` is missing, for a setting that only an enabled tool must have. */
export function requireList(context: z.core.$RefinementCtx, key: string): void {
  context.addIssue({ code: "invalid_type", expected: "array", path: [key], message: "required" });
}
