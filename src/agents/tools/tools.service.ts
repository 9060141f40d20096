import type { CommonSettings, SafetyLevel } from "../../api/contract/tool-fields.ts";
import type { ToolsConfig } from "../../api/contract/tools.ts";
import { errors } from "../../kernel/errors.ts";
import { toolErrors } from "./errors.ts";
import { checkCall, getSettings, mustBeApproved, TOOLS, toTool } from "./registry.ts";
import type { RunningTool, Tool, ToolDeps } from "./tool.ts";
import {
  failedCall,
  type LeftOutTools,
  type RunRef,
  type ServerTools,
  type ToolCall,
  type ToolDefinition,
  type ToolErrorCode,
  type ToolResult,
  type UnusableServer,
  unknownTool,
} from "./tools.types.ts";
import type { AgentRef } from "./webhook-keys.service.ts";

/** The tools of an agent's run. Each call brings the state of its run; only open sessions with servers are kept here. */
export interface Tools {
  /** The model's definitions of the enabled tools. Throws 502 `secret_reflected`, and when `signal` is aborted. */
  definitions(tools_config: ToolsConfig, run: RunRef, signal: AbortSignal): Promise<ToolDefinition[]>;
  /** The servers whose tools cannot be used now, and why. Throws when `signal` is aborted. */
  unusableServers(tools_config: ToolsConfig, run: RunRef, signal: AbortSignal): Promise<UnusableServer[]>;
  /** The servers some of whose tools the model does not get, and why. Throws when `signal` is aborted. */
  leftOutTools(tools_config: ToolsConfig, run: RunRef, signal: AbortSignal): Promise<LeftOutTools[]>;
  /**
   * Executes one call. Errors that a model, a page or a network can cause are returned as a failed result that tells
   * the model what to do; only an abort of `signal` throws.
   */
  call(call: ToolCall): Promise<ToolResult>;
  /**
   * The tools of the server that the settings name so, as the owner sees them. Throws 404 for another name, 409 while
   * the servers are not enabled, and 502 when the server cannot be used.
   */
  serverTools(tools_config: ToolsConfig, server: string, owner: AgentRef): Promise<ServerTools>;
  /** Ends what the tools keep open for a run, such as sessions with MCP servers. Nothing needs to wait for it. */
  endRun(run_id: RunRef["run_id"]): Promise<void>;
}

/** Creates the tools of `registry.ts`. */
export function createTools(deps: ToolDeps): Tools {
  const running = new Map(TOOLS.map((tool) => [tool, tool.create(deps)]));

  /** The results of `ask` for each enabled tool, in the registry's order. */
  async function ofEnabled<T>(
    tools_config: ToolsConfig,
    ask: (tool: RunningTool, settings: CommonSettings, contract: Tool["contract"]) => Promise<T[]> | undefined,
  ): Promise<T[]> {
    const asked = [...running].map(([tool, each]) => {
      const settings = getSettings(tool, tools_config);
      return settings === null ? [] : (ask(each, settings, tool.contract) ?? []);
    });
    return (await Promise.all(asked)).flat();
  }

  async function carriedOut(call: ToolCall): Promise<ToolResult> {
    const checked = checkCall(call);
    if ("failure" in checked) return checked.failure;
    if (!call.is_approved && mustBeApproved(checked, call))
      throw new Error(`${call.name} was called without its approval`);
    const { tool, settings } = checked;
    const called = running.get(tool);
    if (called === undefined) return unknownTool(call.name);
    const result = strictly(settings.safety, await called.call(checked.arguments, call, settings));
    return withOutcome(result, tool.contract, settings);
  }

  return {
    definitions(tools_config, run, signal) {
      return ofEnabled(tools_config, (tool, settings) => tool.define(settings, run, signal));
    },
    async unusableServers(tools_config, run, signal) {
      return await ofEnabled(tools_config, async (tool, settings, contract) => {
        const unusable = (await tool.unusableServers?.(settings, run, signal)) ?? [];
        return unusable.map((server) => withOutcome(server, contract, settings));
      });
    },
    leftOutTools(tools_config, run, signal) {
      return ofEnabled(tools_config, (tool, settings) => tool.leftOutTools?.(settings, run, signal));
    },
    async call(call) {
      const result = await carriedOut(call);
      if (result.error != null) deps.onFailure?.(toTool(call.name)?.contract.name ?? "unknown", result.error.code);
      return result;
    },
    async serverTools(tools_config, server, owner) {
      for (const [tool, each] of running) {
        if (each.serverTools === undefined || tools_config[tool.contract.name] === undefined) continue;
        const settings = getSettings(tool, tools_config);
        // A disabled tool uses no secret: enabling it may need secrets:write.
        if (settings === null) throw toolErrors.toolDisabled(tool.contract.name);
        const found = await each.serverTools(settings, server, owner);
        if (found !== null) return found;
      }
      throw errors.notFound("This server");
    },
    async endRun(run_id) {
      await Promise.all([...running.values()].map((each) => each.endRun?.(run_id)));
    },
  };
}

/**
 * A result, with `fails_run` if the tool's `on_tool_failure` says so. A mistake of the model never fails the run: the
 * model can call again.
 */
function withOutcome<Result extends Pick<ToolResult, "error" | "is_models_mistake" | "fails_run">>(
  result: Result,
  { default_on_tool_failure }: Tool["contract"],
  { on_tool_failure = default_on_tool_failure }: CommonSettings,
): Result {
  const { error, is_models_mistake = false } = result;
  const may_go_on = error === undefined || is_models_mistake || MODELS_MISTAKES.has(error.code);
  return may_go_on || on_tool_failure === "continue" ? result : { ...result, fails_run: true };
}

const MODELS_MISTAKES: ReadonlySet<ToolErrorCode> = new Set(["invalid_arguments", "unknown_tool"]);

/** With `strict`, an answer with an attack is dropped completely, also the text around the attack. */
function strictly(level: SafetyLevel | undefined, result: ToolResult): ToolResult {
  if (level !== "strict" || result.safety?.verdict.injected !== true) return result;
  const message = "what came back gives orders to the model; with safety: strict nothing of it is used";
  return { ...failedCall("unsafe_content", message), safety: result.safety };
}
