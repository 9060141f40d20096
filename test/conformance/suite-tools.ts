import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

// The suite's task scenarios call tools of its own server by name. Here an agent stands behind each of these names.

/** Answers `/?seconds=N` after N seconds, and `/broken` with 500. */
export async function startSlowSite(): Promise<{ url: string; close(): void }> {
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
    await delay(Number(searchParams.get("seconds") ?? 0) * 1000, undefined, { ref: false });
    response.writeHead(pathname === "/broken" ? 500 : 200, { "content-type": "text/plain" }).end("Computed.");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

/** The agents, which the rehearsal model carries out. */
export function suiteAgents(site_url: string): object[] {
  const agent = (name: string, run_prompt: string, web_fetch: object = {}) => ({
    name,
    run_prompt,
    model_id: "purser/rehearsal",
    input_schema: { type: "object" },
    tools_config: { web_fetch: { enabled: true, ...web_fetch } },
  });
  const asks = { permission_policy: "always_ask" };
  return [
    agent("slow_compute", `Fetch ${site_url}/?seconds={{input.seconds}}`),
    agent("failing_job", `Fetch ${site_url}/broken`, { on_tool_failure: "fail" }),
    agent("confirm_delete", `Fetch ${site_url}/one`, asks),
    agent("multi_input", `Fetch ${site_url}/one and ${site_url}/two`, asks),
  ];
}

const TOOLS: Readonly<Record<string, string>> = {
  // A tool that is no task.
  greet: "list_runs",
  ...Object.fromEntries(
    ["slow_compute", "failing_job", "confirm_delete", "multi_input"].map((name) => [name, `run_${name}`]),
  ),
};

/** A request of the suite with the name of the agent's tool in the place of its own. */
export function renameTool(body: Buffer, headers: IncomingHttpHeaders): { body: Buffer; headers: IncomingHttpHeaders } {
  const message = parsed(body);
  const asked = message?.method === "tools/call" ? message.params?.name : undefined;
  const name = TOOLS[asked ?? ""];
  if (message === null || asked === undefined || name === undefined) return { body, headers };
  const given = asked === "greet" ? { arguments: {} } : {};
  const renamed = Buffer.from(JSON.stringify({ ...message, params: { ...message.params, name, ...given } }));
  const own = headers["mcp-name"] === asked ? { "mcp-name": name } : {};
  return { body: renamed, headers: { ...headers, ...own, "content-length": String(renamed.length) } };
}

function parsed(body: Buffer): { method?: string; params?: { name?: string } } | null {
  try {
    return JSON.parse(body.toString());
  } catch {
    return null;
  }
}
