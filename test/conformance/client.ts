import type { McpServer, ToolsConfig } from "../../src/api/contract/tools.ts";
import { aCall, toolsWith, UNSTOPPED } from "../support/tools.ts";
import { signingVault } from "./sign-in.ts";

// The client under test, as the MCP project's conformance suite calls it: `client.ts <url of a server>`. It uses Purser's
// own tools like a run: it lists the server's tools, calls each once, and ends the run.

const url = process.argv.at(-1) ?? "";
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const wants_sign_in = process.env.MCP_CONFORMANCE_SCENARIO?.startsWith("auth/") === true;
const allow = [new URL(url).host, "127.0.0.0/8", "::1/128"];
const { tools } = toolsWith({ allow, ...(wants_sign_in ? { vault: signingVault(url, context, allow) } : {}) });
const auth: McpServer["auth"] = { secret: "SUITE", inject: { type: "bearer" } };
const server: McpServer = { name: "suite", url, timeout_seconds: 20, ...(wants_sign_in ? { auth } : {}) };
const tools_config: ToolsConfig = { mcp: { enabled: true, servers: [server] } };
const { run } = aCall("", {});

const definitions = await tools.definitions(tools_config, run, UNSTOPPED);
console.log("tools", definitions.map(({ function: { name } }) => name).join(", "));
for (const { name } of await tools.unusableServers(tools_config, run, UNSTOPPED)) console.log("unusable", name);
for (const [name, given] of callsOf()) console.log(name, JSON.stringify(await calling(name, given)));
await tools.endRun(run.run_id);

/** The suite's own calls, a schema that a scenario wants back, or one call of each tool. */
function callsOf(): [name: string, given: unknown][] {
  const wanted = (context.toolCalls ?? []) as { name: string; arguments: unknown }[];
  if (wanted.length > 0) return wanted.map((each) => [`suite__${each.name}`, each.arguments]);
  const echo = definitions.find(({ function: { name } }) => name === "suite__json_schema_echo");
  const [rich] = definitions.filter((each) => each !== echo);
  if (echo !== undefined) return [[echo.function.name, { schema: rich?.function.parameters }]];
  return definitions.map(({ function: { name, parameters } }) => [name, exampleOf(parameters)]);
}

async function calling(name: string, given: unknown): Promise<unknown> {
  const { status, result, error } = await tools.call(aCall(name, given, { tools_config, run }));
  return { status, result, error };
}

function exampleOf(schema: Record<string, unknown>): unknown {
  switch (schema.type) {
    case "object":
      return Object.fromEntries(
        Object.entries((schema.properties ?? {}) as Record<string, Record<string, unknown>>).map(([name, property]) => [
          name,
          exampleOf(property),
        ]),
      );
    case "array":
      return [];
    case "number":
    case "integer":
      return 2;
    case "boolean":
      return true;
    default:
      return "text";
  }
}
