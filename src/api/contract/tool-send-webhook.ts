import {
  addressSchema,
  maxCalls,
  onToolFailure,
  permissionPolicy,
  type SecretBinding,
  safety,
  secretName,
  type ToolContract,
  type ToolProblem,
} from "./tool-fields.ts";
import { z } from "./zod.ts";

const MAX_CALLS = 5;

const settings = z.strictObject({
  enabled: z.boolean(),
  urls: z
    .array(addressSchema("webhooks are signed"))
    .max(100)
    .optional()
    .openapi({ description: "only to exactly these is anything sent; without any, each call fails" }),
  secret: secretName.optional().openapi({
    description:
      "a secret's name: signs what is sent; absent: the agent's own key does. Null as in `web_fetch.auth`: a secret that is kept",
  }),
  max_calls: maxCalls(MAX_CALLS),
  on_tool_failure: onToolFailure("fail"),
  permission_policy: permissionPolicy("always_allow"),
  safety: safety.openapi({ description: "of what receivers answer; default balanced" }),
});
type Settings = z.infer<typeof settings>;

const argumentsSchema = z.strictObject({
  url: z.string().min(1).max(4000).openapi({ description: "one of the listed URLs" }),
  payload: z
    .unknown()
    .refine((value) => value !== undefined, "is required: what is to be sent")
    .openapi({ description: "any JSON value; the body that is sent" }),
});
export type SendWebhookArguments = z.infer<typeof argumentsSchema>;

/** Sends JSON to the URLs that the owner listed, signed. */
export const sendWebhook = {
  name: "send_webhook",
  default_max_calls: MAX_CALLS,
  default_on_tool_failure: "fail",
  settings,
  arguments: argumentsSchema,
  example: '{"url": "https://…", "payload": {}}',
  secretBindings({ secret, urls = [] }: Settings): SecretBinding[] {
    if (secret === undefined) return [];
    // No other setting must stay the same: an added URL counts as a wider binding.
    return [
      {
        secret,
        path: ["secret"],
        kept_with: null,
        inject: null,
        urls,
        hosts: null,
        methods: null,
        paths: null,
        tools: null,
      },
    ];
  },
  problem({ urls = [] }: Settings): ToolProblem | null {
    if (urls.length > 0) return null;
    const message =
      "send_webhook has no destination, so each call of it fails. The agent's owner has to list its URLs in tools_config.send_webhook.urls.";
    return { code: "no_destination", path: ["urls"], message };
  },
} as const satisfies ToolContract;
