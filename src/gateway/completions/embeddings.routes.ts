import {
  createEmbeddingsRoute,
  type EmbeddingRequest,
  inputsOf,
  MAX_KEPT_INPUTS,
} from "../../api/contract/embeddings.ts";
import { payerOf } from "../../api/contract/key-terms.ts";
import { createRouter, type HttpRouter } from "../../api/contract/router.ts";
import { errors } from "../../kernel/errors.ts";
import { newId } from "../../platform/lib/ids.ts";
import type { Completions, EmbeddingsAnswer } from "./completions.types.ts";
import { labelsOf } from "./labels.ts";

/** The part of an answer that is written at one time. */
const WRITTEN_CHARS = 262_144;

/** POST /api/v1/embeddings. An answer is completed and charged also if its caller hangs up, as completions are. */
export function embeddingRoutes(completions: Pick<Completions, "embed">): HttpRouter {
  const router = createRouter();
  router.openapi(createEmbeddingsRoute, async (c) => {
    const request = c.req.valid("json") as EmbeddingRequest;
    if (c.req.header("Idempotency-Key") !== undefined && inputsOf(request).length > MAX_KEPT_INPUTS) {
      throw errors.invalidValue(
        "input",
        `With an Idempotency-Key, whose answer is kept, input has at most ${MAX_KEPT_INPUTS} entries. Send them in several requests.`,
      );
    }
    const answer = await completions.embed({
      request,
      caller: payerOf({ ...c.get("caller"), labels: labelsOf(request) }),
      hold_id: newId(),
      request_id: c.get("request_id"),
      signal: c.get("cut_off"),
    });
    return new Response(written(answer), { headers: { "Content-Type": "application/json" } }) as never;
  });
  return router;
}

/** The answer as JSON, in parts: a large one has over 100 MB. */
function written(answer: EmbeddingsAnswer): ReadableStream<Uint8Array> {
  const pieces = piecesOf(answer);
  const encoder = new TextEncoder();
  return new ReadableStream({
    pull(controller) {
      let text = "";
      for (const piece of pieces) {
        text += piece;
        if (text.length >= WRITTEN_CHARS) break;
      }
      if (text === "") controller.close();
      else controller.enqueue(encoder.encode(text));
    },
  });
}

function* piecesOf({ vectors, model_id, usage }: EmbeddingsAnswer): Generator<string, undefined> {
  yield '{"object":"list","data":[';
  for (const [index, vector] of vectors.entries()) {
    yield `${index === 0 ? "" : ","}{"object":"embedding","index":${index},"embedding":${vector}}`;
  }
  yield `],"model":${JSON.stringify(model_id)},"usage":${JSON.stringify(usage)}}`;
}
