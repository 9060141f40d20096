import type { ToolsConfig } from "../contract/tools.ts";
import type { Outbound } from "../platform/outbound.ts";
import type { Sanitizer } from "../safety/sanitizer.ts";
import { failedCall, type ToolCall, type ToolDefinition, type ToolResult } from "./tools.types.ts";
import { webFetch, webFetchDefinition } from "./web-fetch.ts";

/** The tools of an agent's run. Stateless: what a run has seen and done comes with each call. */
export interface Tools {
  /** The enabled tools, as the model is told of them. */
  definitions(tools_config: ToolsConfig): ToolDefinition[];
  /**
   * Carries out one call. What a model, a page or a network can cause comes back as a failed result that tells the
   * model what to do; only an abort of `signal` throws.
   */
  call(call: ToolCall): Promise<ToolResult>;
}

/** Makes the tools of this version: web_fetch. */
export function createTools(deps: { outbound: Outbound; sanitizer: Sanitizer }): Tools {
  return {
    definitions({ web_fetch }) {
      return web_fetch?.enabled ? [webFetchDefinition(web_fetch)] : [];
    },
    async call(call) {
      const { web_fetch } = call.tools_config;
      if (call.name === "web_fetch" && web_fetch?.enabled) return await webFetch(call, web_fetch, deps);
      return failedCall("unknown_tool", `there is no tool ${JSON.stringify(call.name.slice(0, 64))}`);
    },
  };
}
