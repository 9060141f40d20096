import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";
import { event } from "../../test/support/upstream.ts";
import { countsOf } from "../crash/upstream.ts";

/** The CRM's tool as models call it. */
export const CRM_TOOL = "crm__create_contact";
/** A longer answer takes longer. */
const MS_PER_WORD = 15;

/** A call as the model saw it. All times in this harness use `performance.now()` of this process. */
export interface ModelCall {
  /** The id of this answer. It appears in every later call of the run that continues from it. */
  answer: string;
  /** The calling process, identified by the address that it was given. */
  process: string;
  /** Of the agent, from its prompt. */
  label: string;
  /** The answer that the call continues from; null for the first call of a run. */
  previous: string | null;
  arrived_ms: number;
  /** When the answer was complete or its connection closed; null before that. */
  ended_ms: number | null;
  delivered: boolean;
}

export interface ScriptedModel {
  url: string;
  calls: ModelCall[];
  close(): Promise<void>;
}

/** The answer in a model's `message`; null when it is not part of the script. */
export function answerOf(message: { content?: unknown; tool_calls?: { id: string }[] } | null): string | null {
  return message?.tool_calls?.[0]?.id ?? /answer_\d+/.exec(String(message?.content))?.[0] ?? null;
}

/**
 * A model that makes every run read a page, send a webhook, or save a contact if it has a CRM, and end. The answer's id alone determines the reported
 * usage, and so the cost (`costOf`).
 */
export async function startScriptedModel(site_url: () => string): Promise<ScriptedModel> {
  const calls: ModelCall[] = [];
  const server = createServer(async (request, response) => {
    const arrived_ms = performance.now();
    const process = request.url?.split("/")[1] ?? "";
    const { messages, tools = [] } = JSON.parse(await text(request)) as { messages: Message[]; tools?: Tool[] };
    const has_crm = tools.some((tool) => tool.function.name === CRM_TOOL);
    const label = /[a-z]+-\d+(-b)?/.exec(messages.find(({ role }) => role === "user")?.content ?? "")?.[0] ?? "";
    const previous = answerOf(messages.findLast(({ role }) => role === "assistant") ?? null);
    const call: ModelCall = {
      answer: `answer_${calls.length}`,
      process,
      label,
      previous: messages.some(({ role }) => role === "assistant") ? previous : null,
      arrived_ms,
      ended_ms: null,
      delivered: false,
    };
    calls.push(call);
    response.on("close", () => {
      call.ended_ms = performance.now();
      call.delivered = response.writableFinished;
    });
    response.writeHead(200, { "content-type": "text/event-stream" });
    const step = messages.filter(({ role }) => role === "tool").length;
    const { input_tokens, output_tokens } = countsOf(call.answer);
    for (const delta of deltasOf(step, call, { site_url: site_url(), has_crm })) {
      await setTimeout((output_tokens * MS_PER_WORD) / 2);
      response.write(event({ choices: [{ index: 0, delta, finish_reason: null }] }));
    }
    response.write(event({ choices: [{ index: 0, delta: {}, finish_reason: step < 2 ? "tool_calls" : "stop" }] }));
    response.write(event({ choices: [], usage: { prompt_tokens: input_tokens, completion_tokens: output_tokens } }));
    response.end("data: [DONE]\n\n");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, calls, close: () => close(server) };
}

interface Tool {
  function: { name: string };
}

interface Message {
  role: string;
  content?: string;
  tool_calls?: { id: string }[];
}

/** An answer in two parts, so that a kill interrupts some of them. */
function deltasOf(
  step: number,
  { answer, label }: ModelCall,
  { site_url, has_crm }: { site_url: string; has_crm: boolean },
): object[] {
  if (step >= 2) return [{ role: "assistant", content: "Done: " }, { content: answer }];
  const acting = has_crm
    ? [CRM_TOOL, { answer }]
    : ["send_webhook", { url: `${site_url}/hook/${label}`, payload: { answer } }];
  const [name, given] = step === 0 ? ["web_fetch", { url: `${site_url}/page` }] : acting;
  const json = JSON.stringify(given);
  const part = (fields: object) => ({ tool_calls: [{ index: 0, ...fields }] });
  return [
    { role: "assistant", ...part({ id: answer, type: "function", function: { name, arguments: json.slice(0, 9) } }) },
    part({ function: { arguments: json.slice(9) } }),
  ];
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
