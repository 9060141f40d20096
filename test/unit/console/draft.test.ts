import { expect, test } from "vitest";

// Imported by a computed name, because only the console's own project compiles JSX, to which the types lead.
const path = "../../../console/src/parts/draft.ts";
const { bodyOf, draftOf, EMPTY_DRAFT, NO_SERVER, withPolicy } = await import(path);

test("the editor sends the setting of the calling program's tools", () => {
  expect(bodyOf({ ...EMPTY_DRAFT, client_tools: "pass" }).client_tools).toBe("pass");
  expect(bodyOf(EMPTY_DRAFT).client_tools).toBe("ignore");
});

test("saving an agent keeps the settings of a tool that the form does not show", () => {
  const tools_kept = { almanac: { enabled: true } };
  expect(bodyOf({ ...EMPTY_DRAFT, tools_kept }).tools_config).toMatchObject({ almanac: { enabled: true } });
});

/** The saved server of an agent after its draft was changed. */
function savedServer(kept: object, changes: object = {}) {
  const agent = { ...bodyOf(EMPTY_DRAFT), tools_config: { mcp: { enabled: true, servers: [kept] } } };
  const draft = draftOf(agent);
  const [server] = draft.mcp_servers;
  return bodyOf({ ...draft, mcp_servers: [{ ...server, ...changes }] }).tools_config.mcp.servers[0];
}

test("saving an agent keeps the settings of an MCP server that the form does not show", () => {
  const server = { name: "library", url: "https://mcp.example.com/mcp", tools: ["search"] };
  const kept = { ...server, tool_permission_policies: { search: "always_allow" }, timeout_seconds: 300 };
  expect(savedServer(kept)).toEqual(kept);
  expect(savedServer(kept, { name: "shelf", tools: "", timeout_seconds: "" })).toMatchObject({
    name: "shelf",
    tools: undefined,
    tool_permission_policies: { search: "always_allow" },
    timeout_seconds: undefined,
  });
});

test.each([
  ["nothing", {}, undefined, undefined],
  ["a server that only reads", { effects: "none" }, "always_allow", undefined],
  ["a server with effects", { effects: "any" }, undefined, undefined],
  ["a tool that only reads", { tool_effects: { find: "none" } }, undefined, { find: "always_allow" }],
  [
    "a tool with effects of a server that only reads",
    { effects: "none", tool_effects: { lend: "any", find: "none" } },
    "always_allow",
    { lend: "ask_after_untrusted" },
  ],
  [
    "a policy beside effects",
    { permission_policy: "always_ask", effects: "none", tool_effects: { lend: "any", find: "none" } },
    "always_ask",
    { find: "always_allow" },
  ],
  [
    "a tool's policy beside its effects",
    { tool_effects: { find: "none" }, tool_permission_policies: { find: "always_ask" } },
    undefined,
    { find: "always_ask" },
  ],
])("the editor reads the effects of an older agent as policies: %s", (_name, settings, policy, of_tools) => {
  const server = { name: "library", url: "https://mcp.example.com/mcp" };
  expect(savedServer({ ...server, ...settings })).toEqual({
    ...server,
    permission_policy: policy,
    tool_permission_policies: of_tools,
  });
});

test("a policy is saved for the web, for webhooks, for a server and for a tool of it", () => {
  const draft = { ...EMPTY_DRAFT, fetch_enabled: true, fetch_policy: "always_ask", webhook_enabled: true };
  const tools = bodyOf({ ...draft, webhook_policy: "ask_after_untrusted" }).tools_config;
  expect(tools.web_fetch.permission_policy).toBe("always_ask");
  expect(tools.send_webhook.permission_policy).toBe("ask_after_untrusted");
  const asking = { policy: "always_ask", tool_policies: withPolicy(NO_SERVER, "find", "always_allow") };
  const server = { name: "library", url: "https://mcp.example.com/mcp" };
  expect(savedServer(server, asking)).toMatchObject({
    permission_policy: "always_ask",
    tool_permission_policies: { find: "always_allow" },
  });
  expect(withPolicy({ ...NO_SERVER, ...asking }, "find", null)).toEqual([]);
});

test("an agent waits 24 hours for a decision unless the editor says otherwise", () => {
  expect(bodyOf(EMPTY_DRAFT).approval_hours).toBe(24);
  expect(bodyOf({ ...EMPTY_DRAFT, approval_hours: "2" }).approval_hours).toBe(2);
});
