import { instantSchema, json, textSchema } from "./common.ts";
import { isPlainAddress } from "./hosts.ts";
import { readOnlyFields } from "./read-only.ts";
import { routesOf } from "./routes.ts";
import { z } from "./zod.ts";

/** Secrets of type `oauth`, for MCP servers that want a sign-in: contract 7. */

const GRANTS = ["client_credentials", "authorization_code"] as const;
const STATUSES = ["not_connected", "connected", "revoked"] as const;
const ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"] as const;
const MAX_SCOPE = 2000;
const MAX_CREDENTIAL = 16_384;

/** The path to which authorization servers send the owner's browser back. */
export const OAUTH_CALLBACK = "/api/v1/secrets/oauth/callback";
/** The address of this document is the client's id, where an authorization server accepts one. */
export const OAUTH_CLIENT_METADATA = "/api/v1/secrets/oauth/client-metadata";

export const oauthSchema = z
  .object({
    server: z.string().openapi({ description: "the MCP server's address, the only one that gets the token" }),
    grant: z.enum(GRANTS),
    client_id: z.string().nullable().openapi({ description: "null until Connect has registered a client" }),
    issuer: z.string().nullable().openapi({ description: "the authorization server; null until it is known" }),
    scope: z.string().nullable(),
    resource: z.string().nullable(),
    token_endpoint: z.string().nullable(),
    status: z.enum(STATUSES).openapi({
      description:
        "`not_connected`: there is no token yet; `revoked`: the authorization server refuses, and the owner has to connect again or change the credentials",
    }),
    expires_at: instantSchema.nullable().openapi({ description: "of the access token, which is renewed before" }),
    error: z.string().nullable().openapi({ description: "why the last token was refused" }),
  })
  .openapi("OAuthSecret");
export type ShownOAuth = z.infer<typeof oauthSchema>;

const address = z
  .url({ protocol: /^https?$/ })
  .max(2000)
  .refine(isPlainAddress, "a URL without user name and password");
const credential = textSchema(MAX_CREDENTIAL).min(1);
const credentials = {
  client_id: textSchema(2000).min(1).optional(),
  client_secret: credential.optional().openapi({ description: "sent and never returned" }),
  private_key: credential
    .includes("-----BEGIN PRIVATE KEY-----")
    .optional()
    .openapi({ description: "PKCS#8 as PEM, in place of client_secret: private_key_jwt. Sent and never returned" }),
  algorithm: z.enum(ALGORITHMS).optional().openapi({ description: "of private_key; default RS256" }),
  scope: textSchema(MAX_SCOPE).min(1).optional().openapi({ description: "default: what the server asks for" }),
};

export const createOAuthSchema = z
  .strictObject({
    server: address.openapi({ description: "the MCP server's address, as tools_config has it" }),
    grant: z.enum(GRANTS).default("authorization_code"),
    ...credentials,
    token_endpoint: address
      .optional()
      .openapi({ description: "default: discovered, and then it must be on its issuer's host" }),
    resource: address
      .optional()
      .openapi({ description: "RFC 8707; default: what the server publishes, or its address" }),
  })
  .superRefine(({ grant, client_id, client_secret, private_key }, context) => {
    const need = (key: string) =>
      context.addIssue({ code: "invalid_type", expected: "string", path: [key], message: "required" });
    if (grant === "client_credentials" && client_id === undefined) need("client_id");
    const has_secret = client_secret !== undefined || private_key !== undefined;
    if (grant === "client_credentials" && !has_secret) need("client_secret");
    if (has_secret && client_id === undefined) need("client_id");
    refuseTwo({ client_secret, private_key }, context);
  })
  .openapi("CreateOAuthSecret");
export type NewOAuth = z.infer<typeof createOAuthSchema>;

export const OAUTH_READ_ONLY = {
  fixed: ["server", "grant", "issuer", "resource", "token_endpoint"],
  moving: ["status", "expires_at", "error"],
} as const;
const oauthChangeSchema = z.strictObject(credentials);
export type OAuthChange = z.infer<typeof oauthChangeSchema>;
export const updateOAuthSchema = oauthChangeSchema
  .extend({
    client_id: credentials.client_id.nullable(),
    scope: credentials.scope.nullable(),
    ...readOnlyFields(OAUTH_READ_ONLY),
  })
  .superRefine(refuseTwo)
  .openapi("UpdateOAuthSecret");

function refuseTwo(
  { client_secret, private_key }: { client_secret?: string | undefined; private_key?: string | undefined },
  context: z.core.$RefinementCtx,
): void {
  if (client_secret === undefined || private_key === undefined) return;
  context.addIssue({ code: "custom", path: ["private_key"], message: "absent beside client_secret" });
}

const routes = routesOf("Secrets");

export const connectSecret = routes.post("/api/v1/secrets/{id}/oauth/connect", {
  summary: "Begin a sign-in at the MCP server of an oauth secret",
  description:
    "Open authorization_url in the browser. The authorization server sends it back to /api/v1/secrets/oauth/callback, which accepts the same session or API key only.",
  scope: "secrets:write",
  answers: {
    200: json(z.object({ authorization_url: z.string(), expires_at: instantSchema }), "where the owner signs in"),
  },
  fails: [409, 502, 503],
});

/** Not in the reference: only browsers call it, and it answers with a redirect. */
export const oauthCallback = routes.get(OAUTH_CALLBACK, {
  hide: true,
  summary: "The end of a sign-in at an authorization server",
  description: "Redirects to the console's secrets with `connected` or with `connect_error`.",
  scope: "secrets:write",
  query: z.looseObject({
    state: z.string().max(200).optional(),
    code: z.string().max(8192).optional(),
    iss: z.string().max(2000).optional(),
    error: z.string().max(2000).optional(),
  }),
  answers: { 303: { description: "to the console" } },
});

export const oauthClientMetadata = routes.get(OAUTH_CLIENT_METADATA, {
  summary: "The client id metadata document, for authorization servers",
  security: [],
  answers: {
    200: json(
      z.object({
        client_id: z.string(),
        client_name: z.string(),
        client_uri: z.string(),
        application_type: z.string(),
        redirect_uris: z.array(z.string()),
        grant_types: z.array(z.string()),
        response_types: z.array(z.string()),
        token_endpoint_auth_method: z.string(),
      }),
      "the document",
    ),
  },
});
