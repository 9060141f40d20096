import { describe, expect, test } from "vitest";
import { permittedTools, shownTo } from "../../../src/agents/definitions/secret-bindings.ts";
import type { Scope } from "../../../src/api/contract/caller.ts";
import type { ShownToolsConfig, ToolsConfig } from "../../../src/api/contract/tools.ts";
import { PurserError } from "../../../src/kernel/errors.ts";

// A key without `secrets:write` cannot bind a secret to a new place.

const bearer = { type: "bearer" } as const;
const auth = {
  secret: "STRIPE",
  hosts: ["api.stripe.com", "*.stripe.example"],
  methods: ["GET" as const],
  paths: ["/v1/*"],
  inject: bearer,
};
const server = {
  name: "shop",
  url: "https://mcp.shop.example/mcp",
  tools: ["read"],
  auth: { secret: "SHOP", inject: bearer },
};
const before: ToolsConfig = {
  web_fetch: { enabled: true, hosts: ["api.stripe.com", "docs.example"], auth: [auth] },
  send_webhook: { enabled: true, urls: ["https://hooks.example/a"], secret: "HOOK" },
  mcp: { enabled: true, servers: [server] },
};
const fetching = (changes: object, tool: object = {}) => ({
  ...before,
  web_fetch: { ...before.web_fetch, ...tool, auth: [{ ...auth, ...changes }] },
});
const hooks = (changes: object) => ({ ...before, send_webhook: { ...before.send_webhook, ...changes } });
const shop = (changes: object, sign_in: object = {}) => ({
  ...before,
  mcp: { ...before.mcp, servers: [{ ...server, ...changes, auth: { ...server.auth, ...sign_in } }] },
});
const write = (after: unknown, scopes: readonly Scope[] = ["agents:write"], from = before) => {
  try {
    return permittedTools({ scopes }, after as ShownToolsConfig, from);
  } catch (error) {
    if (!(error instanceof PurserError)) throw error;
    return { code: error.code, param: error.shape.param, message: error.message };
  }
};
const FETCH = "tools_config.web_fetch.auth[0].secret";
const HOOK = "tools_config.send_webhook.secret";
const SHOP = "tools_config.mcp.servers[0].auth.secret";

describe("a key with only agents:write cannot bind a secret", () => {
  test.each<[string, unknown, string]>([
    ["by another secret at the same hosts", fetching({ secret: "OTHER" }), FETCH],
    ["by its own host", fetching({ hosts: ["evil.example"] }), FETCH],
    ["by one more host", fetching({ hosts: [...auth.hosts, "evil.example"] }), FETCH],
    ["by a wildcard over a bound host", fetching({ hosts: ["*.stripe.com"] }), FETCH],
    ["by another port of a bound host", fetching({ hosts: ["api.stripe.com:8443"] }), FETCH],
    ["by one more method", fetching({ methods: ["GET", "POST"] }), FETCH],
    ["by another path", fetching({ paths: ["/v2/*"] }), FETCH],
    ["by all paths", fetching({ paths: undefined }), FETCH],
    ["by another place in the request", fetching({ inject: { type: "query", name: "q" } }), FETCH],
    ["by letting web_fetch reach a bound host that it could not reach", fetching({}, { hosts: undefined }), FETCH],
    [
      "by a binding that is off, for a later write to turn on",
      fetching({ hosts: ["evil.example"] }, { enabled: false }),
      FETCH,
    ],
    ["by its own webhook URL", hooks({ urls: ["https://hooks.example/a", "https://evil.example/"] }), HOOK],
    ["by signing with another secret", hooks({ secret: "STRIPE" }), HOOK],
    ["by another MCP server's URL", shop({ url: "https://evil.example/mcp" }), SHOP],
    ["by another host for an MCP server's secret", shop({}, { hosts: ["mcp.shop.example", "evil.example"] }), SHOP],
    ["by another secret for an MCP server", shop({}, { secret: "STRIPE" }), SHOP],
    ["by all tools of an MCP server", shop({ tools: undefined }), SHOP],
    ["by a null at other hosts", fetching({ secret: null, hosts: ["evil.example"] }), FETCH],
    ["by a null at its own webhook URL", hooks({ secret: null, urls: ["https://evil.example/"] }), HOOK],
    ["by a null at another MCP server", shop({ url: "https://evil.example/mcp" }, { secret: null }), SHOP],
  ])("%s", (_how, after, param) => {
    const denied = write(after);
    expect(denied).toMatchObject({ code: "insufficient_scope", param });
    expect((denied as { message: string }).message).toContain("secrets:write");
  });

  test("by enabling a tool whose binding was disabled, or by the tool's methods", () => {
    const off = fetching({ methods: ["GET", "POST"] }, { enabled: false }) as ToolsConfig;
    const on = fetching({ methods: ["GET", "POST"] });
    expect(write(on, ["agents:write"], off)).toMatchObject({ code: "insufficient_scope", param: FETCH });
    const posting = fetching({ methods: ["GET", "POST"] }, { methods: ["GET", "POST"] });
    expect(write(posting, ["agents:write"], on as ToolsConfig)).toMatchObject({ code: "insufficient_scope" });
  });

  test("by copying a binding to another agent", () => {
    expect(write(before, ["agents:write"], {})).toMatchObject({ code: "insufficient_scope", param: FETCH });
    const masked = shownTo({ scopes: [] }, { tools_config: before }).tools_config;
    expect(write(masked, ["agents:write"], {})).toMatchObject({ code: "insufficient_scope", param: FETCH });
  });

  test("but may keep, narrow or remove bindings", () => {
    for (const after of [
      before,
      {},
      fetching({ hosts: ["api.stripe.com"], methods: ["GET"] }, { hosts: ["api.stripe.com"] }),
      fetching({ hosts: ["eu.stripe.example"], paths: ["/v1/*"] }),
      fetching({}, { max_calls: 3, hosts: ["api.stripe.com", "docs.example", "other.example"] }),
      fetching({}, { enabled: false }),
      hooks({ urls: [], enabled: false }),
      hooks({ secret: undefined, urls: ["https://evil.example/"] }),
      shop({ name: "renamed" }),
    ]) {
      expect(write(after)).toEqual(after);
    }
  });

  test("and needs only secrets:write for each of these", () => {
    const after = fetching({ secret: "OTHER", hosts: ["own.example"] });
    expect(write(after, ["agents:write", "secrets:write"])).toEqual(after);
  });
});

describe("a null instead of a secret's name", () => {
  test("keeps every binding that a key without secrets:read has read", () => {
    const shown = shownTo(
      { scopes: ["agents:read"] },
      { tools_config: before, secrets_used: ["STRIPE", "HOOK", "SHOP"] },
    );
    expect(JSON.stringify(shown)).not.toMatch(/STRIPE|HOOK|SHOP/);
    expect(shown.secrets_used).toEqual([]);
    expect(write(shown.tools_config)).toEqual(before);
  });

  test("stays with its binding when entries are removed or reordered", () => {
    const second = { ...auth, secret: "SECOND", hosts: ["second.example"] };
    const two: ToolsConfig = { web_fetch: { enabled: true, auth: [auth, second] } };
    const nulls = (...entries: object[]) => ({
      web_fetch: { enabled: true, auth: entries.map((each) => ({ ...each, secret: null })) },
    });
    expect(write(nulls(second), ["agents:write"], two)).toEqual({ web_fetch: { enabled: true, auth: [second] } });
    expect(write(nulls(second, auth), ["agents:write"], two)).toEqual({
      web_fetch: { enabled: true, auth: [second, auth] },
    });
  });

  test("of two secrets with the same settings keeps their order, and is rejected if one of them is missing", () => {
    const twin = { ...auth, secret: "TWIN" };
    const two: ToolsConfig = { web_fetch: { enabled: true, auth: [auth, twin] } };
    const other = { ...auth, secret: "STRIPE", hosts: ["eu.stripe.example"] };
    const [first, second] = [auth, twin].map((each) => ({ ...each, secret: null }));
    const written = { web_fetch: { enabled: true, auth: [other, first, second] } };
    expect(write(written, ["agents:write"], two)).toEqual({
      web_fetch: { enabled: true, auth: [other, auth, twin] },
    });
    const one_left = { web_fetch: { enabled: true, auth: [second] } };
    expect(write(one_left, ["agents:write"], two)).toMatchObject({ code: "insufficient_scope", param: FETCH });
    expect(write(one_left, ["secrets:write"], two)).toMatchObject({ code: "invalid_value", param: FETCH });
    const moved = {
      web_fetch: { enabled: true, auth: [{ ...auth, hosts: ["x.example"] }, twin, { ...auth, secret: null }] },
    };
    expect(write(moved, ["secrets:write"], two)).toMatchObject({
      code: "invalid_value",
      param: "tools_config.web_fetch.auth[2].secret",
    });
  });

  test("is rejected in a new binding, also for a key with secrets:write", () => {
    expect(write(fetching({ secret: null, hosts: ["own.example"] }), ["secrets:write"])).toMatchObject({
      code: "invalid_value",
      param: FETCH,
    });
    expect(write({ send_webhook: { enabled: false, secret: null } }, ["secrets:write"], {})).toMatchObject({
      param: HOOK,
    });
  });
});
