import { describe, expect, it } from "vitest";
import { isListedHost } from "../../../src/api/contract/hosts.ts";
import { toolsConfigSchema } from "../../../src/api/contract/tools.ts";
import { validationError } from "../../../src/api/contract/validation.ts";
import { z } from "../../../src/api/contract/zod.ts";

function refusal(tools_config: unknown) {
  const parsed = toolsConfigSchema.safeParse(tools_config);
  if (parsed.success) return null;
  const issues = parsed.error.issues.map((issue) => ({ ...issue, path: ["tools_config", ...issue.path] }));
  const { code, param } = validationError(
    issues as never,
    { tools_config },
    z.object({ tools_config: toolsConfigSchema }),
  ).shape;
  return { code, param };
}

const auth = { secret: "STRIPE", hosts: ["api.stripe.com"], inject: { type: "bearer" } };
/** Secrets that are sent with every GET to one host, each in its own header. */
const boundTo = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ ...auth, inject: { type: "header", name: `X-Key-${n}` } }));
const server = { name: "a", url: "https://a.example/mcp" };

describe("tools_config", () => {
  it.each([
    {},
    { web_fetch: { enabled: true } },
    {
      web_fetch: {
        enabled: true,
        hosts: ["a.example", "*.b.example", "c.example:8443", "[::1]:80"],
        methods: ["GET", "POST"],
        max_calls: 3,
        safety: "strict",
      },
    },
    { send_webhook: { enabled: false }, mcp: { enabled: false } },
    { send_webhook: { enabled: false, urls: ["https://a.example/x"] } },
    { send_webhook: { enabled: true } },
    { send_webhook: { enabled: true, urls: [] } },
    { send_webhook: { enabled: true, urls: ["https://a.example/x"], max_calls: 2, safety: "strict", secret: "HOOK" } },
    { web_fetch: { enabled: true, auth: [auth, { ...auth, methods: ["POST"], paths: ["/v1/*"] }] } },
    // A request takes at most three: one place has one secret, and methods, hosts and paths separate requests.
    { web_fetch: { enabled: true, auth: [...boundTo(3), ...boundTo(3)] } },
    { web_fetch: { enabled: true, auth: [...boundTo(3), { ...boundTo(4)[3], methods: ["POST"] }] } },
    { web_fetch: { enabled: true, auth: [...boundTo(3), { ...boundTo(4)[3], hosts: ["b.example"] }] } },
    { web_fetch: { enabled: true, auth: [...boundTo(3), { ...boundTo(4)[3], paths: ["/v1/*"] }] } },
    { mcp: { enabled: true, servers: [{ ...server, auth: { secret: "KEY", inject: auth.inject }, effects: "none" }] } },
  ])("accepts %j", (config) => expect(refusal(config)).toBeNull());

  it.each<[unknown, string, string]>([
    [{ web_search: { enabled: true } }, "unknown_field", "tools_config.web_search"],
    [{ web_fetch: {} }, "missing_field", "tools_config.web_fetch.enabled"],
    [{ web_fetch: { enabled: "yes" } }, "invalid_value", "tools_config.web_fetch.enabled"],
    [{ web_fetch: { enabled: true, host: [] } }, "unknown_field", "tools_config.web_fetch.host"],
    [
      { web_fetch: { enabled: true, hosts: ["https://a.example"] } },
      "invalid_value",
      "tools_config.web_fetch.hosts[0]",
    ],
    [{ web_fetch: { enabled: true, auth: boundTo(20) } }, "invalid_value", "tools_config.web_fetch.auth[3]"],
    [
      { web_fetch: { enabled: true, auth: [...boundTo(3), { ...boundTo(4)[3], hosts: ["API.stripe.com."] }] } },
      "invalid_value",
      "tools_config.web_fetch.auth[3]",
    ],
    [{ web_fetch: { enabled: true, max_calls: 0 } }, "invalid_value", "tools_config.web_fetch.max_calls"],
    [{ web_fetch: { enabled: true, safety: "none" } }, "invalid_value", "tools_config.web_fetch.safety"],
    [
      { web_fetch: { enabled: true, auth: [{ ...auth, secret: "two\nlines" }] } },
      "invalid_value",
      "tools_config.web_fetch.auth[0].secret",
    ],
    ...["Host", "content-length", "Connection", "x\r\ny", "Mcp-Session-Id", "", "proxy-authorization"].map(
      (name): [unknown, string, string] => [
        { web_fetch: { enabled: true, auth: [{ ...auth, inject: { type: "header", name } }] } },
        "invalid_value",
        "tools_config.web_fetch.auth[0].inject.name",
      ],
    ),
    [
      { web_fetch: { enabled: true, auth: [{ ...auth, inject: { type: "basic", username: "a:b" } }] } },
      "invalid_value",
      "tools_config.web_fetch.auth[0].inject.username",
    ],
    [
      { web_fetch: { enabled: true, auth: [{ ...auth, hosts: ["*"] }] } },
      "invalid_value",
      "tools_config.web_fetch.auth[0].hosts[0]",
    ],
    [
      { web_fetch: { enabled: true, auth: [{ ...auth, secrets: 1 }] } },
      "unknown_field",
      "tools_config.web_fetch.auth[0].secrets",
    ],
    [{ send_webhook: { enabled: true, urls: ["a.example"] } }, "invalid_value", "tools_config.send_webhook.urls[0]"],
    [
      { send_webhook: { enabled: true, urls: ["https://me:pass@a.example/"] } },
      "invalid_value",
      "tools_config.send_webhook.urls[0]",
    ],
    [
      { send_webhook: { enabled: true, urls: ["https://a.example/x"], safety: "none" } },
      "invalid_value",
      "tools_config.send_webhook.safety",
    ],
    [
      { send_webhook: { enabled: false, urls: ["https://a.example/x"], url: 1 } },
      "unknown_field",
      "tools_config.send_webhook.url",
    ],
    [{ mcp: { enabled: true } }, "missing_field", "tools_config.mcp.servers"],
    [{ mcp: { enabled: true, servers: [server, server] } }, "invalid_value", "tools_config.mcp.servers[1].name"],
    [
      { mcp: { enabled: true, servers: [{ ...server, name: "a__b" }] } },
      "invalid_value",
      "tools_config.mcp.servers[0].name",
    ],
    [
      { mcp: { enabled: true, servers: [{ ...server, auth: { ...auth, hosts: ["b.example"] } }] } },
      "invalid_value",
      "tools_config.mcp.servers[0].auth.hosts",
    ],
  ])("rejects %j", (config, code, param) => expect(refusal(config)).toEqual({ code, param }));
});

describe("hosts", () => {
  it.each([
    ["https://a.example/", "a.example", true],
    ["https://A.example./", "a.example", true],
    ["https://a.example:8443/", "a.example", false],
    ["https://a.example:8443/", "a.example:8443", true],
    ["https://a.example/", "a.example:443", true],
    ["http://a.example/", "a.example:443", false],
    ["https://b.a.example/", "a.example", false],
    ["https://b.a.example/", "*.a.example", true],
    ["https://c.b.a.example/", "*.a.example", false],
    ["https://a.example/", "*.a.example", false],
    ["https://evila.example/", "*.a.example", false],
    ["http://[::1]:8080/", "[::1]:8080", true],
  ])("%s at %s: %s", (url, host, expected) => expect(isListedHost(new URL(url), [host])).toBe(expected));
});
