import { createCompletionRoute } from "../../api/contract/completions.ts";
import {
  createEmbeddingsRoute,
  type EmbeddingRequest,
  getInputs,
  MAX_KEPT_INPUTS,
} from "../../api/contract/embeddings.ts";
import { createRouter, type Router } from "../../api/contract/endpoint.ts";
import { payerOf } from "../../api/contract/key-terms.ts";
import { labelsOf } from "../../api/contract/labels.ts";
import { errors } from "../../kernel/errors.ts";
import { monotonicMs } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";
import { createChatWriter } from "./chat-writer.ts";
import type { Completions, EmbeddingsAnswer } from "./completions.types.ts";
import { answerCall } from "./endpoint.ts";

/** POST /api/v1/chat/completions. */
export function completionRoutes(completions: Completions): Router {
  const router = createRouter();
  router.on(createCompletionRoute, (http) => {
    const request = http.body;
    const include_usage = request.stream_options?.include_usage === true;
    const writer = createChatWriter({ request_id: http.request_id, include_usage });
    return answerCall(http, completions, { request, writer });
  });
  return router;
}

/** The part of an answer that is written at one time. */
const WRITTEN_CHARS = 262_144;

/** POST /api/v1/embeddings. An answer is completed and charged also if its caller hangs up, as completions are. */
export function embeddingRoutes(completions: Pick<Completions, "embed">): Router {
  const router = createRouter();
  router.on(createEmbeddingsRoute, async (http) => {
    const request = http.body as EmbeddingRequest;
    if (http.header("idempotency-key") !== undefined && getInputs(request).length > MAX_KEPT_INPUTS) {
      throw errors.invalidValue(
        "input",
        `With an Idempotency-Key, whose answer is kept, input has at most ${MAX_KEPT_INPUTS} entries. Send them in several requests.`,
      );
    }
    const hold_id = newId();
    http.facts.hold_id = hold_id;
    const answer = await completions.embed({
      request,
      caller: payerOf({ ...http.caller, labels: labelsOf(request) }),
      hold_id,
      request_id: http.request_id,
      timing: { api: "embeddings", began_ms: monotonicMs() },
      signal: http.cut_off,
    });
    return { kind: "parts", status: 200, headers: { "Content-Type": "application/json" }, parts: written(answer) };
  });
  return router;
}

/** The answer as JSON, in parts: a large one has over 100 MB. */
async function* written(answer: EmbeddingsAnswer): AsyncGenerator<string, undefined> {
  let text = "";
  for (const piece of generatePieces(answer)) {
    text += piece;
    if (text.length < WRITTEN_CHARS) continue;
    yield text;
    text = "";
  }
  yield text;
}

function* generatePieces({ vectors, model_id, usage }: EmbeddingsAnswer): Generator<string, undefined> {
  yield '{"object":"list","data":[';
  for (const [index, vector] of vectors.entries()) {
    yield `${index === 0 ? "" : ","}{"object":"embedding","index":${index},"embedding":${vector}}`;
  }
  yield `],"model":${JSON.stringify(model_id)},"usage":${JSON.stringify(usage)}}`;
}
