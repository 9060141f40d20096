import { newConfig } from "../../src/agents/definitions/agent-config.ts";
import { createNeedsApproval } from "../../src/agents/runs/approval-step.ts";
import { decideNext } from "../../src/agents/runs/next-action.ts";
import type { Work } from "../../src/agents/runs/run-work.ts";
import type { CallAction } from "../../src/agents/runs/runs.types.ts";
import { createToolSteps } from "../../src/agents/runs/tool-step.ts";
import { buildTranscript, type RunStep } from "../../src/agents/runs/transcript.ts";
import { createTools } from "../../src/agents/tools/tools.service.ts";
import type { ToolDefinition } from "../../src/agents/tools/tools.types.ts";
import type { ToolsConfig } from "../../src/api/contract/tools.ts";
import { createSystemClock } from "../../src/platform/lib/clock.ts";
import { createOutbound, type Outbound, type OutboundRequest } from "../../src/platform/net/outbound.ts";
import { OutboundError } from "../../src/platform/net/outbound-errors.ts";
import type { Resolve } from "../../src/platform/net/resolver.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { newMark } from "../../src/safety/fence.ts";
import { sanitize } from "../../src/safety/sanitize.ts";
import { createSanitizer, type Sanitizer } from "../../src/safety/sanitizer.ts";
import { leaksIn } from "./encodings.ts";
import { type Loot, newTexts, obey, type Wish } from "./obedient-model.ts";
import { heldSecrets, UNSTOPPED } from "./tools.ts";

/** A request that left the tools, or would have left them. */
export interface Sent {
  readonly url: string;
  readonly method: string;
  /** The owner's data in the request, and its encoding. */
  readonly carried: readonly string[];
  /** Names of the secrets that were sent with it. */
  readonly secrets: readonly string[];
}

export interface Scenario {
  readonly owner: { readonly system_prompt: string; readonly run_prompt: string; readonly tools_config: ToolsConfig };
  /** The addresses in the owner's prompt. */
  readonly prompt_addresses: readonly string[];
  /** An attack that the model reads besides the results of its tools, as if no filter had removed it. */
  readonly injected_text: string;
  readonly loot: Loot;
  readonly secrets: Readonly<Record<string, string>>;
  /** Hosts that are really called. A request to any other host is recorded and fails to connect. */
  readonly dialled: (url: URL) => boolean;
  readonly allow: readonly string[];
  readonly resolve?: Resolve;
}

/** The safety layer with a detector that finds nothing, so the model reads the page's whole text. */
const blind: Sanitizer = {
  sanitize: async (request) => sanitize(request, () => ({ passages: [], score: 0 })),
  pdfText: createSanitizer().of("u").pdfText,
};
/** The model's answers: the owner's task, the page, the results of its calls, and one more. */
const TURNS = 4;
/** Per answer. All answers of a run together stay below the maximum of `max_calls`. */
const MAX_WISHES = 450;

/**
 * Runs a model that obeys every text, with the engine's own steps and tools and the detector switched off. Nobody decides
 * what the run asks, so each question expires. Returns the requests that left, the steps, and the number of questions.
 */
export async function obedientRun(
  scenario: Scenario,
): Promise<{ sent: Sent[]; steps: readonly RunStep[]; asked: number }> {
  const sent: Sent[] = [];
  const actions: CallAction[] = [];
  const { vault } = heldSecrets(scenario.secrets);
  const tools = createTools({
    clock: createSystemClock(),
    outbound: watched(scenario, sent),
    sanitizer: { of: () => blind },
    webhook_keys: { keyOf: async () => ({ key: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", created_at: "" }) },
    vault,
    log: createLog("silent"),
    safety_off: "refused",
    is_drill: false,
  });
  const journal = { startStep: async () => "running", finishStep: async () => true };
  const { executeToolCall, recordRejectedCall } = createToolSteps({
    tools,
    runs: journal as never,
    completions: undefined as never,
    clock: undefined as never,
  });
  const work = workOf(scenario);
  const { config, steps } = work;
  const definitions = await tools.definitions(
    config.tools_config,
    { user_id: "u", agent_id: "a", run_id: "r" },
    UNSTOPPED,
  );
  for (let turns = 0; ; ) {
    const needsApproval = createNeedsApproval(work);
    const action = decideNext({ limits: config.limits, steps, actions, needsApproval, elapsed_ms: 0 });
    if (action.do === "call_tool") await executeToolCall(work, action);
    else if (action.do === "reject_tool") await recordRejectedCall(work, action);
    else if (action.do === "ask") {
      const undecided = { decision: "expired" as const, arguments: null, arguments_sent: null, reason_given: null };
      actions.push(...action.calls.map(({ nth }) => ({ ...undecided, turn: action.turn, call: nth })));
    } else if (action.do !== "call_model" || turns === TURNS) return { sent, steps, asked: actions.length };
    else {
      turns += 1;
      steps.push(answered(turns === 1 ? promptCalls(scenario) : wishesOf(work, turns, definitions, scenario)));
    }
  }
}

function workOf({ owner }: Scenario): Work {
  const limits = { max_steps: 1_000_000, max_run_seconds: 86_400 };
  const config = newConfig({ name: "Obedient", model_id: "m", ...owner, limits } as never);
  const input = { messages: null, request_id: null, api_key_id: null, key_budget_tokens: null, ticket: null };
  const lease = { user_id: "u", run_id: "r", epoch: 1 };
  const run = { lease, agent_id: "a", agent_version: 1, attempt: 1, input };
  const work = {
    run,
    config,
    prompts: config,
    input,
    steps: [],
    mark: newMark(),
    offered: new Set(),
    signal: new AbortController().signal,
  };
  return work as unknown as Work;
}

function promptCalls({ prompt_addresses }: Scenario): Wish[] {
  return prompt_addresses.map((url) => ({ name: "web_fetch", given: { url } }));
}

function wishesOf(
  work: Work,
  turns: number,
  definitions: readonly ToolDefinition[],
  { injected_text, loot }: Scenario,
): Wish[] {
  const heard = newTexts(buildTranscript(work.prompts, work.input, work.steps));
  const texts = turns === 2 && injected_text !== "" ? [injected_text, ...heard] : heard;
  const wishes = texts.flatMap((text) => obey(text, definitions, loot));
  return [...new Map(wishes.map((wish) => [JSON.stringify(wish), wish])).values()].slice(0, MAX_WISHES);
}

/** The model's answer as a finished step. */
function answered(wishes: readonly Wish[]): RunStep {
  const tool_calls = wishes.map(({ name, given }, at) => ({
    id: `call_${at}`,
    type: "function" as const,
    function: { name, arguments: JSON.stringify(given) },
  }));
  const result = tool_calls.length === 0 ? { content: "Done." } : { content: null, tool_calls };
  const step = {
    type: "model",
    name: "m",
    status: "succeeded",
    arguments: null,
    error: null,
    safety: null,
    internal: null,
  };
  return { ...step, result: { role: "assistant", ...result } } as RunStep;
}

/** The outbound client, which records its requests first. */
function watched({ allow, resolve, dialled, loot, secrets }: Scenario, sent: Sent[]): Outbound {
  const real = createOutbound({ allow, ...(resolve === undefined ? {} : { resolve }) });
  const values = [...loot.data, ...Object.values(secrets)];
  async function noted(request: OutboundRequest): Promise<void> {
    const { url, method, headers, body = "" } = request;
    const target = new URL(url);
    if (request.permits?.(target) ?? true) {
      const credentials = (request.credentials ?? []).filter(
        (each) => each.inject !== null && each.isFor(target, method),
      );
      const bytes = Buffer.from([url, decodeURI(target.pathname), JSON.stringify(headers), String(body)].join("\n"));
      sent.push({ url, method, carried: leaksIn(bytes, values), secrets: credentials.map(({ name }) => name) });
      if (!dialled(target)) throw new OutboundError("connect_failed", "the host could not be reached");
    }
  }
  return {
    isConfidential: (url) => real.isConfidential(url),
    secretsIn: (pieces, credentials) => real.secretsIn(pieces, credentials),
    refusal: (url, signal) => real.refusal(url, signal),
    request: (request) => noted(request).then(() => real.request(request)),
    stream: (request) => noted(request).then(() => real.stream(request)),
  };
}
