import { describe, expect, test } from "vitest";
import { countedAs, effectOf, TOOLS, usesServers } from "../../../src/agents/tools/registry.ts";
import { secretBindings, type ToolsConfig } from "../../../src/api/contract/tools.ts";
import { aCall, toolsWith } from "../../support/tools.ts";

const server = { name: "shop", url: "https://mcp.shop.example/mcp" };
const reading: ToolsConfig = { mcp: { enabled: true, servers: [{ ...server, effects: "none" }] } };
const acting: ToolsConfig = { mcp: { enabled: true, servers: [server] } };

describe("every tool", () => {
  test.each(TOOLS.map((tool) => [tool.contract.name, tool] as const))("%s describes itself", (name, { contract }) => {
    expect(contract.arguments.safeParse(JSON.parse(contract.example)).success).toBe(true);
    const settings = contract.settings.safeParse({ enabled: false, max_calls: contract.default_max_calls });
    expect(settings.error, "the settings of every tool have enabled and max_calls").toBeUndefined();
    expect(TOOLS.filter((tool) => tool.contract.name === name)).toHaveLength(1);
  });
});

describe("the effect of a call", () => {
  test.each([
    ["a GET", "web_fetch", { url: "https://a.example/" }, {}, "none"],
    ["a HEAD", "web_fetch", { url: "https://a.example/", method: "HEAD" }, {}, "none"],
    ["a POST", "web_fetch", { url: "https://a.example/", method: "POST" }, {}, "unknown"],
    ["arguments that are no JSON", "web_fetch", "not json", {}, "none"],
    ["a webhook, known by its id", "send_webhook", {}, {}, "idempotent"],
    ["a server that only reads", "shop__list", {}, reading, "none"],
    ["a server that may act", "shop__list", {}, acting, "unknown"],
    ["a server whose settings are not given", "shop__list", {}, {}, "unknown"],
    ["a server that is not configured", "other__list", {}, reading, "unknown"],
    ["a name that no tool has", "teleport", {}, reading, "unknown"],
  ])("%s", (_, name, given, config, effect) => {
    expect(effectOf({ name, arguments: given }, config)).toBe(effect);
  });
});

test("all tools of all servers count as one tool, and each unknown name counts separately", () => {
  expect(["web_fetch", "a__x", "b__y", "teleport"].map(countedAs)).toEqual(["web_fetch", "mcp", "mcp", "teleport"]);
});

test("a failed call is counted by its tool and its code, and an invented name is never a label", async () => {
  const counted: string[][] = [];
  const { tools } = toolsWith({ allow: [], onFailure: (...labels) => void counted.push(labels) });
  const tools_config: ToolsConfig = { web_fetch: { enabled: true } };
  await tools.call(aCall("web_fetch", { url: "http://127.0.0.1:1/" }, { tools_config }));
  await tools.call(aCall("teleport", {}, { tools_config }));
  expect(counted).toEqual([
    ["web_fetch", "egress_refused"],
    ["unknown", "unknown_tool"],
  ]);
});

test("a run connects to servers first only if an enabled tool has some", () => {
  expect([{}, { mcp: { enabled: false } }, { web_fetch: { enabled: true } }, reading].map(usesServers)).toEqual([
    ...[false, false, false, true],
  ]);
});

test("a tool's hosts and methods narrow its bindings; a disabled tool's bindings are listed too", () => {
  const auth = [{ secret: "KEY", hosts: ["*.a.example"], methods: ["GET", "POST"], inject: { type: "bearer" } }];
  const config = { web_fetch: { enabled: false, hosts: ["x.a.example", "b.example"], auth } } as ToolsConfig;
  const [binding, ...others] = secretBindings(config);
  expect(others).toEqual([]);
  expect(binding).toMatchObject({
    tool: "web_fetch",
    is_enabled: false,
    secret: "KEY",
    hosts: ["*.a.example"],
    path: ["web_fetch", "auth", 0, "secret"],
  });
  expect(binding?.usable?.()).toEqual({ hosts: ["x.a.example"], methods: ["GET"] });
});
