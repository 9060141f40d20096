import type { ToolContract } from "../../api/contract/tool-fields.ts";
import type { ToolName } from "../../api/contract/tools.ts";
import type { Clock } from "../../platform/lib/clock.ts";
import type { Outbound } from "../../platform/net/outbound.ts";
import type { Log } from "../../platform/telemetry/log.ts";
import type { CredentialsDeps } from "./credentials.ts";
import type { Taint } from "./destinations.ts";
import type { SafetyDeps } from "./safe-answer.ts";
import type {
  CallToCheck,
  LeftOutTools,
  RunRef,
  ServerTools,
  ToolCall,
  ToolDefinition,
  ToolResult,
  UnusableServer,
} from "./tools.types.ts";
import type { AgentRef, WebhookKeys } from "./webhook-keys.service.ts";

/**
 * The effect of one call on other systems. `none`: it changes nothing (it reads or computes), so it is repeated after a
 * crash. `idempotent`: its receiver recognizes a repetition, so it is repeated too. `unknown`: it is not repeated.
 */
export type Effect = "none" | "idempotent" | "unknown";

/** The services that tools need. */
export interface ToolDeps extends CredentialsDeps, SafetyDeps {
  /** The domain's time, which operators and tests can set. */
  clock: Clock;
  outbound: Outbound;
  webhook_keys: Pick<WebhookKeys, "keyOf">;
  log: Pick<Log, "error" | "warn">;
  /** A restored copy: it sends no webhooks. */
  is_drill: boolean;
  /** Called for each failed call, with the tool's name. Names that no tool has are counted as "unknown". */
  onFailure?(tool: string, code: string): void;
}

/** A tool: one file that exports an object of this type, and its line in `registry.ts`. */
export interface Tool<Settings = unknown, Arguments = unknown> {
  /** Name, settings, arguments and secrets, from the tool's file in `contract/tools/`. */
  readonly contract: ToolContract & { readonly name: ToolName };
  /** A run asks its servers before the first model call and records each unusable server as a failed step. */
  readonly has_servers?: true;
  /** Whether this tool handles calls with this name. Absent: only calls with the tool's own name. */
  owns?(call_name: string): boolean;
  /** The effect of a call. `arguments` may be any value; without settings, returns the more careful answer. */
  effect(call: { name: string; arguments: unknown }, settings: Settings | undefined): Effect;
  /** Whether a person must approve a call. Absent: never. */
  needsApproval?(call_name: string, settings: Settings, taint: Taint): boolean;
  /** The failed step of a call that the settings or the run's content forbid, before anything is sent; null: it may be made. */
  findFault?(given: Arguments, call: CallToCheck, settings: Settings): ToolResult | null;
  /** Where a call goes, for the person who decides. */
  describeDestination?(given: Arguments, call_name: string, settings: Settings): string;
  /** The address that a call reads; absent: its answer is known by the name of the tool. */
  findSource?(given: unknown): string | null;
  create(deps: ToolDeps): RunningTool<Settings, Arguments>;
}

/** A tool of a running service. */
export interface RunningTool<Settings = unknown, Arguments = unknown> {
  /** The model's definitions under these settings. Throws 502 `secret_reflected`, and when `signal` is aborted. */
  define(settings: Settings, run: RunRef, signal: AbortSignal): Promise<ToolDefinition[]>;
  /**
   * Executes one call; the service has parsed the arguments and checked `max_calls`. Errors of the model, the page or
   * the network are returned as a failed result; only an abort throws.
   */
  call(given: Arguments, call: ToolCall, settings: Settings): Promise<ToolResult>;
  /** The servers that cannot be used now. Throws when `signal` is aborted. */
  unusableServers?(settings: Settings, run: RunRef, signal: AbortSignal): Promise<UnusableServer[]>;
  /** The servers some of whose tools no model can get. Throws when `signal` is aborted. */
  leftOutTools?(settings: Settings, run: RunRef, signal: AbortSignal): Promise<LeftOutTools[]>;
  /**
   * The tools of the server with this name, asked for now; null: the settings name no such server. Throws 502 when the
   * server cannot be used.
   */
  serverTools?(settings: Settings, name: string, owner: AgentRef): Promise<ServerTools | null>;
  /** Ends what the tool keeps open for a run. Never rejects. */
  endRun?(run_id: RunRef["run_id"]): Promise<void>;
}
