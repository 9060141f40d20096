import { expect, it } from "vitest";
import {
  type Asker,
  createMcpTools,
  type McpServerDeps,
  slugOf,
  toolNames,
} from "../../../src/agents/mcp/mcp-server.ts";
import { describeUnexpected } from "../../../src/platform/telemetry/log.ts";

it.each([
  ["Daily Report", "daily_report"],
  ["  Späher №1! ", "spaher_no1"],
  ["日本", "agent"],
  ["x".repeat(200), "x".repeat(48)],
])("the slug of %j has letters, digits and _ only", (name, slug) => {
  expect(slugOf(name)).toBe(slug);
});

it("a name never passes from one agent to another that has the same slug", () => {
  const agents = ["11111111-0000-0000-0000-00000000000a", "11111111-0000-0000-0000-00000000000b"].map((id) => ({
    id,
    name: "Report",
  }));
  expect([...toolNames(agents).keys()]).toEqual(["run_report_0000000a", "run_report_0000000b"]);
  expect([...toolNames([...agents, { id: "c", name: "Other" }]).keys()]).toContain("run_other");
});

it("a failure of the service while it lists tools does not show its cause to the caller", async () => {
  const cause = new Error('relation "agent" of host 10.0.0.7 is missing');
  const asModels = () => Promise.reject(cause);
  const logged: unknown[] = [];
  const log = { error: (fields: object) => logged.push(fields), warn: () => {} };
  const tools = createMcpTools({ agents: { asModels }, log } as unknown as McpServerDeps);
  const asker = { caller: { user_id: "u", scopes: ["agents:read"] }, request_id: "r" } as unknown as Asker;
  await expect(tools.list(asker)).rejects.toMatchObject({ code: "internal" });
  await expect(tools.list(asker)).rejects.not.toThrow("10.0.0.7");
  expect(logged).toEqual(Array(2).fill({ request_id: "r", ...describeUnexpected(cause) }));
  expect(JSON.stringify(logged)).not.toContain("10.0.0.7");
});

it("a call stops watching its caller when it ends, and a call whose client has left cancels its run", async () => {
  const agent = { id: "a", name: "Report" };
  const run = { id: "r", agent_id: "a", status: "succeeded", output: "Done.", usage: {}, error: null };
  const cancelled: string[] = [];
  let watches = 0;
  const agents = {
    asModels: async () => [agent],
    find: async () => ({ ...agent, input_schema: null, output_schema: null }),
    ready: async () => {},
    runNow: async () => run,
    follow: async () => null,
    run: async () => run,
    cancelRun: async (_user_id: string, _agent_id: string, run_id: string) => void cancelled.push(run_id),
  };
  const tools = createMcpTools({ agents } as unknown as McpServerDeps);
  const live = () => {
    watches += 1;
    const leave = () => {
      watches -= 1;
    };
    return { refused: new AbortController().signal, leave };
  };
  const caller = { user_id: "u", scopes: ["agents:write"] };
  const asker = (hung_up: AbortSignal | null) => ({ caller, live, request_id: "r", hung_up }) as unknown as Asker;
  const exchange = { takes_tasks: false, elicits: false, progress: null, answered: null };
  expect((await tools.call(asker(null), "run_report", {}, exchange)).isError).toBe(false);
  expect([watches, cancelled]).toEqual([0, []]);
  await tools.call(asker(AbortSignal.abort()), "run_report", {}, exchange);
  expect([watches, cancelled]).toEqual([0, ["r"]]);
});
