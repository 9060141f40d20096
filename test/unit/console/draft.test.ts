import { expect, test } from "vitest";
import { AGENT_TEMPLATES } from "../../../src/agents/definitions/templates.ts";

// Imported by a computed name, because only the console's own project compiles JSX, to which the types lead.
const path = "../../../console/src/parts/draft.ts";
const { bodyOf, draftOf, EMPTY_DRAFT, newAgentDraft, NO_SERVER, withPolicy } = await import(path);

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

const ONLY_READS = { effects: "none", tool_effects: { lend: "any", find: "none" } };
test.each([
  ["nothing", {}, "ask_after_untrusted", {}],
  ["a server that only reads", { effects: "none" }, "always_allow", {}],
  ["a server with effects", { effects: "any" }, "ask_after_untrusted", {}],
  ["a tool that only reads", { tool_effects: { find: "none" } }, "ask_after_untrusted", { find: "always_allow" }],
  [
    "a tool with effects of a server that only reads",
    ONLY_READS,
    "always_allow",
    { lend: "ask_after_untrusted", find: "always_allow" },
  ],
  [
    "a policy beside effects",
    { permission_policy: "always_ask", ...ONLY_READS },
    "always_ask",
    { find: "always_allow" },
  ],
  [
    "a tool's policy beside its effects",
    { tool_effects: { find: "none" }, tool_permission_policies: { find: "always_ask" } },
    "ask_after_untrusted",
    { find: "always_ask" },
  ],
])(
  "the editor shows the effects of an older agent as the policies that they mean, and saves them as they are: %s",
  (_name, settings, policy, of_tools) => {
    const server = { name: "library", url: "https://mcp.example.com/mcp", ...settings };
    const agent = { ...bodyOf(EMPTY_DRAFT), tools_config: { mcp: { enabled: true, servers: [server] } } };
    const [shown] = draftOf(agent).mcp_servers;
    expect(shown.policy).toBe(policy);
    expect(shown.tool_policies).toEqual(Object.entries(of_tools).map(([tool, policy]) => ({ tool, policy })));
    expect(savedServer(server)).toEqual(server);
  },
);

test.each([
  ["another policy of the server", { policy: "always_ask" }, { permission_policy: "always_ask" }],
  [
    "another policy of a tool",
    {
      tool_policies: [
        { tool: "find", policy: "always_ask" },
        { tool: "lend", policy: "ask_after_untrusted" },
      ],
    },
    { tool_permission_policies: { find: "always_ask" } },
  ],
  [
    "no exceptions",
    { tool_policies: [] },
    { tool_effects: { lend: "any" }, tool_permission_policies: { lend: "always_allow" } },
  ],
])("a changed policy of a server with effects holds in place of what they mean: %s", (_name, changes, saved) => {
  const server = { name: "library", url: "https://mcp.example.com/mcp", ...ONLY_READS };
  const found = savedServer(server, changes);
  const lend = "policy" in changes ? { tool_permission_policies: { lend: "ask_after_untrusted" } } : {};
  expect(found).toEqual({ ...server, ...lend, ...saved });
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

test.each(AGENT_TEMPLATES)("the form of the template $id has all that the template sets", ({ agent }) => {
  const filled = JSON.parse(JSON.stringify(agent).replaceAll("<MAIL>", "ada@example.com"));
  expect(bodyOf(newAgentDraft(filled))).toMatchObject(filled);
});
