import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { answerAsMcp, mcpTool } from "./mcp-messages.ts";
import { type Site, startSite } from "./sites.ts";

/** The fake's behaviour, which a test may change. */
interface Conduct {
  /** The lifetime of access tokens. */
  expires_in: number;
  /** Fields that replace fields of the authorization server's metadata. */
  metadata: Record<string, unknown>;
  /** Fields that replace fields of the MCP server's metadata. */
  resource: Record<string, unknown>;
  /** Fields of the answer to a token request, besides the token. */
  onGrant: (token: string) => Record<string, unknown>;
  /** The result of the tool, which was called with this token. */
  onCall: (token: string) => string;
  /** The target to which the MCP server redirects its requests; null: it answers them. */
  redirect: string | null;
  /** Whether a refresh token is replaced at each use. */
  rotates: boolean;
  /** Answers the token request instead of the fake. */
  onToken: ((request: IncomingMessage, response: ServerResponse, form: URLSearchParams) => void) | null;
}

/** An MCP server with one tool, `berth`, that requires a sign-in, and its authorization server. */
export interface OAuthServer {
  readonly site: Site;
  /** The MCP endpoint. */
  readonly mcp: string;
  readonly conduct: Conduct;
  /** The forms of the token requests. */
  readonly asked: URLSearchParams[];
  /** The access tokens with which the tool was called. */
  readonly calls: string[];
  /** Rejects all access tokens from now on, but accepts refresh tokens. */
  expire(): void;
  /** Rejects all refresh tokens and access tokens from now on. */
  revoke(): void;
  /** Every token that was issued. */
  tokens(): string[];
  reset(): void;
}

const conductAtFirst = (): Conduct => ({
  expires_in: 3600,
  metadata: {},
  resource: {},
  redirect: null,
  rotates: true,
  onToken: null,
  onGrant: () => ({}),
  onCall: () => "Berth 7 is free.",
});

export const CLIENT_SECRET = "client-secret-0123456789abcdef";

/** Starts it on a free port of the loopback address. */
export async function startOAuthServer(): Promise<OAuthServer> {
  const conduct = conductAtFirst();
  const access = new Set<string>();
  const refresh = new Set<string>();
  const given: string[] = [];
  const asked: URLSearchParams[] = [];
  const calls: string[] = [];
  const codes = new Map<string, string>();
  const body = () => site.requests.at(-1)?.body ?? "";
  const json = (response: ServerResponse, value: unknown, status = 200) =>
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));

  const site = await startSite({
    "/mcp": (request, response) => {
      const token = request.headers.authorization?.replace("Bearer ", "") ?? "";
      if (conduct.redirect !== null) return response.writeHead(307, { location: conduct.redirect }).end();
      if (!access.has(token)) {
        const challenge = `Bearer resource_metadata="${site.url}/.well-known/oauth-protected-resource/mcp", scope="berths"`;
        return response.writeHead(401, { "www-authenticate": challenge }).end();
      }
      const onCall = (answer: (result: unknown) => void) => {
        calls.push(token);
        answer({ content: [{ type: "text", text: conduct.onCall(token) }] });
      };
      answerAsMcp(response, body(), { tools: [mcpTool("berth")], onCall });
    },
    "/.well-known/oauth-protected-resource/mcp": (_request, response) =>
      json(response, { resource: `${site.url}/mcp`, authorization_servers: [site.url], ...conduct.resource }),
    "/.well-known/oauth-authorization-server": (_request, response) =>
      json(response, {
        issuer: site.url,
        authorization_endpoint: `${site.url}/authorize`,
        token_endpoint: `${site.url}/token`,
        registration_endpoint: `${site.url}/register`,
        response_types_supported: ["code"],
        code_challenge_methods_supported: ["S256"],
        authorization_response_iss_parameter_supported: true,
        ...conduct.metadata,
      }),
    "/register": (_request, response) => json(response, { ...JSON.parse(body()), client_id: "registered" }, 201),
    "/authorize": (request, response) => {
      const { searchParams } = new URL(request.url ?? "", site.url);
      const code = `code-${codes.size}`;
      codes.set(code, searchParams.get("code_challenge") ?? "");
      const back = new URL(searchParams.get("redirect_uri") ?? "");
      back.search = String(new URLSearchParams({ code, state: searchParams.get("state") ?? "", iss: site.url }));
      response.writeHead(302, { location: back.href }).end();
    },
    "/token": (request, response) => {
      const form = new URLSearchParams(body());
      asked.push(form);
      if (conduct.onToken !== null) return conduct.onToken(request, response, form);
      const problem = problemOf(form, request);
      if (problem !== null) return json(response, { error: problem }, 400);
      const old = form.get("refresh_token");
      if (old !== null && conduct.rotates) refresh.delete(old);
      const token = `access-token-${given.length}-0123456789`;
      const next = `refresh-token-${given.length}-0123456789`;
      given.push(token, next);
      access.add(token);
      const is_person = form.get("grant_type") !== "client_credentials";
      if (is_person && (conduct.rotates || old === null)) refresh.add(next);
      const kept = is_person && (conduct.rotates || old === null) ? { refresh_token: next } : {};
      json(response, {
        access_token: token,
        token_type: "Bearer",
        expires_in: conduct.expires_in,
        ...kept,
        ...conduct.onGrant(token),
      });
    },
  });

  function problemOf(form: URLSearchParams, { headers }: IncomingMessage): string | null {
    const basic = Buffer.from(headers.authorization?.replace("Basic ", "") ?? "", "base64").toString();
    switch (form.get("grant_type")) {
      case "client_credentials":
        return basic === `robot:${CLIENT_SECRET}` ? null : "invalid_client";
      case "refresh_token":
        return refresh.has(form.get("refresh_token") ?? "") ? null : "invalid_grant";
      case "authorization_code": {
        const challenge = codes.get(form.get("code") ?? "");
        const verifier = createHash("sha256")
          .update(form.get("code_verifier") ?? "")
          .digest("base64url");
        return challenge === verifier ? null : "invalid_grant";
      }
      default:
        return "unsupported_grant_type";
    }
  }

  return {
    site,
    mcp: `${site.url}/mcp`,
    conduct,
    asked,
    calls,
    expire: () => access.clear(),
    revoke() {
      access.clear();
      refresh.clear();
    },
    tokens: () => given,
    reset() {
      Object.assign(conduct, conductAtFirst());
      for (const each of [asked, calls, site.requests]) each.length = 0;
    },
  };
}
