import type { Content, GenerateContentParameters, GenerateContentResponse, Part } from "@google/genai";
import { events, json, type Reply } from "../upstream.ts";
import {
  createSeals,
  LEAST_CACHED,
  Rejected,
  reject,
  type Script,
  type Tokens,
  type Turn,
  textOfTurn,
  tokensOf,
} from "./turn.ts";

/** The signature that Google documents for calls of other models. */
const UNSIGNED = "skip_thought_signature_validator";

/** The body of a request: the SDK's parameters under their names on the wire. */
interface Body {
  contents: Content[];
  systemInstruction?: Content;
  tools?: unknown[];
  generationConfig?: GenerateContentParameters["config"];
}

/**
 * Google's generateContent as its published schema has it. It rejects what the real API rejects: a call without its
 * signature or with that of another model, another role than user and model.
 */
export function createGeminiApi(script: Script): { reply: Reply; tokens: Tokens[] } {
  const seals = createSeals();
  const prompts: string[] = [];
  const tokens: Tokens[] = [];
  let n = 0;
  const reply: Reply = (response, request) => {
    const body = request.body as Body;
    const [, model = "", is_streamed] = /models\/([^:]+):(stream)?[gG]enerateContent/.exec(request.path) ?? [];
    try {
      if (model === "") reject(`no such path: ${request.path}`);
      checkRequest(body, model, seals);
    } catch (error) {
      if (!(error instanceof Rejected)) throw error;
      const fault = { code: 400, message: error.message, status: "INVALID_ARGUMENT" };
      return json({ error: fault }, 400)(response, request);
    }
    const turn = script(n, request);
    n += 1;
    const counted = countOf(body, turn, prompts);
    tokens.push(counted);
    const parts = partsOf(turn, { id: n, model, seals, shows: body.generationConfig?.thinkingConfig?.includeThoughts });
    const whole = responseOf(parts, turn, counted);
    if (is_streamed === undefined) return json(whole)(response, request);
    const chunks = parts.map((part, at) =>
      at === parts.length - 1 ? responseOf([part], turn, counted) : chunkOf(part),
    );
    return events(...chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`))(response, request);
  };
  return { reply, tokens };
}

type Seals = ReturnType<typeof createSeals>;
/** The class has getters that the wire format does not have. */
type OnTheWire = Pick<GenerateContentResponse, "candidates" | "usageMetadata" | "modelVersion" | "responseId">;

function checkRequest({ contents }: Body, model: string, seals: Seals): void {
  for (const { role, parts = [] } of contents) {
    if (role !== "user" && role !== "model") reject(`Please use a valid role: user, model. ${role}`);
    if (parts.length === 0) reject("contents.parts must not be empty.");
    const first_call = parts.find(({ functionCall }) => functionCall !== undefined);
    if (role === "model" && first_call !== undefined && first_call.thoughtSignature === undefined) {
      reject(`Function call is missing a thought_signature in functionCall parts: ${first_call.functionCall?.name}.`);
    }
    for (const { thoughtSignature } of parts) {
      if (thoughtSignature !== undefined && thoughtSignature !== UNSIGNED) seals.check(thoughtSignature, model);
    }
  }
}

function partsOf(
  turn: Turn,
  { id, model, seals, shows }: { id: number; model: string; seals: Seals; shows: boolean | undefined },
): Part[] {
  const parts: Part[] = [];
  const { reasoning, text, calls = [] } = turn;
  if (reasoning !== undefined && shows === true && turn.hidden !== true) parts.push({ text: reasoning, thought: true });
  const signature = reasoning === undefined ? {} : { thoughtSignature: seals.seal(model, reasoning) };
  if (text !== undefined) parts.push({ text, ...(calls.length === 0 ? signature : {}) });
  for (const [at, { name, arguments: args }] of calls.entries()) {
    const functionCall = { id: `call_${id}_${at}`, name, args: args as Record<string, unknown> };
    parts.push({ functionCall, ...(at === 0 ? { thoughtSignature: seals.seal(model, reasoning ?? "") } : {}) });
  }
  return parts;
}

function countOf(body: Body, turn: Turn, prompts: string[]): Tokens {
  const prompt = JSON.stringify([body.systemInstruction ?? null, body.tools ?? [], body.contents]);
  const input = tokensOf(prompt);
  let cached = 0;
  for (const earlier of prompts) {
    let at = 0;
    while (at < prompt.length && prompt[at] === earlier[at]) at += 1;
    const common = Math.floor(at / 4);
    if (common >= LEAST_CACHED) cached = Math.max(cached, Math.min(common, input));
  }
  prompts.push(prompt);
  return { input, cached, written: 0, output: tokensOf(textOfTurn(turn)) };
}

function chunkOf(part: Part): OnTheWire {
  return { candidates: [{ content: { role: "model", parts: [part] }, index: 0 }] };
}

function responseOf(parts: Part[], turn: Turn, counted: Tokens): OnTheWire {
  const thoughts = tokensOf(turn.reasoning ?? "");
  return {
    candidates: [
      {
        content: { role: "model", parts },
        index: 0,
        finishReason: (turn.end === "length" ? "MAX_TOKENS" : "STOP") as NonNullable<
          NonNullable<OnTheWire["candidates"]>[number]["finishReason"]
        >,
      },
    ],
    usageMetadata: {
      promptTokenCount: counted.input,
      cachedContentTokenCount: counted.cached,
      candidatesTokenCount: counted.output - thoughts,
      thoughtsTokenCount: thoughts,
      totalTokenCount: counted.input + counted.output,
    },
  };
}
