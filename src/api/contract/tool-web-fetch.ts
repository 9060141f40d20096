import { injectionPlace, MAX_CREDENTIALS } from "../../platform/net/credentials.ts";
import { commonHosts, normalHost } from "./hosts.ts";
import {
  authSchema,
  FETCH_METHODS,
  hosts,
  maxCalls,
  methods,
  onToolFailure,
  permissionPolicy,
  type SecretBinding,
  safety,
  type ToolContract,
} from "./tool-fields.ts";
import { z } from "./zod.ts";

const MAX_CALLS = 20;

const settings = z
  .strictObject({
    enabled: z.boolean(),
    auth: z.array(authSchema).max(20).optional(),
    hosts: hosts.optional().openapi({ description: "only these; absent: any public host" }),
    methods: methods.optional().openapi({ description: "default GET" }),
    max_calls: maxCalls(MAX_CALLS),
    on_tool_failure: onToolFailure("continue"),
    permission_policy: permissionPolicy("always_allow"),
    safety: safety.openapi({ description: "default balanced" }),
  })
  .superRefine(({ auth = [] }, context) => {
    const crowded = crowdedBinding(auth);
    if (crowded === undefined) return;
    const message = `a binding that leaves at most ${MAX_CREDENTIALS} secrets for one request. Narrow its hosts, methods or paths`;
    context.addIssue({ code: "custom", path: ["auth", crowded], message });
  });
type Settings = z.infer<typeof settings>;

/** Models write null for an argument that they leave out. */
const argumentsSchema = z.strictObject({
  url: z.string().min(1).max(4000).openapi({ description: "the address, http or https" }),
  method: z.enum(FETCH_METHODS).nullish().openapi({ description: "default GET" }),
  body: z.string().max(100_000).nullish().openapi({ description: "the request's body, for POST, PUT and PATCH" }),
  links_from: z
    .int()
    .min(0)
    .max(1_000_000)
    .nullish()
    .openapi({ description: "returns the page's list of links from this one on, instead of its text" }),
});
export type WebFetchArguments = z.infer<typeof argumentsSchema>;

/** Fetches a page or a document, with the owner's secrets where they bind them. */
export const webFetch = {
  name: "web_fetch",
  default_max_calls: MAX_CALLS,
  default_on_tool_failure: "continue",
  settings,
  arguments: argumentsSchema,
  example: '{"url": "https://…"}',
  secretBindings({ auth = [], hosts: allowed, methods: permitted = ["GET"] }: Settings): SecretBinding[] {
    return auth.map(({ secret, ...place }, index) => {
      const { hosts, methods = ["GET"], paths = null, inject } = place;
      return {
        secret,
        path: ["auth", index, "secret"],
        kept_with: place,
        inject,
        urls: [],
        hosts,
        methods,
        paths,
        tools: null,
        usable: () => ({
          hosts: allowed === undefined ? hosts : commonHosts(hosts, allowed),
          methods: methods.filter((method) => permitted.includes(method)),
        }),
      };
    });
  },
} as const satisfies ToolContract;

/**
 * Returns the index of a binding that gives one request too many secrets. Compares only bindings for all paths of equal
 * hosts; other requests are checked when they are made.
 */
function crowdedBinding(auth: NonNullable<Settings["auth"]>): number | undefined {
  const places = new Map<string, Set<string>>();
  for (const [index, { hosts, methods = ["GET"], paths = ["/*"], inject }] of auth.entries()) {
    if (!paths.includes("/*")) continue;
    for (const request of hosts.flatMap((host) => methods.map((method) => `${method} ${normalHost(host)}`))) {
      const taken = places.get(request) ?? new Set();
      places.set(request, taken.add(injectionPlace(inject)));
      if (taken.size > MAX_CREDENTIALS) return index;
    }
  }
  return undefined;
}
