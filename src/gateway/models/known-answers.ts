import { isTooDeep } from "../../platform/lib/json.ts";
import type { Body, Dialect } from "./language-model-dialect.ts";
import type { Model } from "./models.types.ts";
import { parsedOrNull } from "./openai-compatible.adapter.ts";
import { brokenProvider } from "./provider-errors.ts";

/** Removes from a provider's answers what the AI SDK does not know and would reject, before the SDK reads them. */

/**
 * `ask` whose answers have only what the SDK knows. Throws a PurserError for a whole answer that nests too deeply for
 * the SDK and the journal.
 */
export function knownOnly(
  ask: typeof fetch,
  { dialect, model, stream }: { dialect: Dialect; model: Model; stream: boolean },
): typeof fetch {
  if (stream && dialect.knownEvent === undefined) return ask;
  return async (input, init) => {
    const response = await ask(input, init);
    if (response.status !== 200 || response.body === null) return response;
    const { headers } = response;
    if (stream)
      return new Response(response.body.pipeThrough(linesThrough((line) => knownLine(line, dialect))), response);
    const text = await response.text();
    if (isTooDeep(text)) throw brokenProvider(model, "an answer that nests too deeply");
    const answer = dialect.known === undefined ? null : parsedOrNull(text);
    return new Response(answer === null ? text : JSON.stringify(dialect.known?.(answer as Body)), { headers });
  };
}

/** The line of an event without what the SDK does not know. Without its data an event has no effect. */
function knownLine(line: string, { knownEvent }: Dialect): string {
  if (knownEvent === undefined || !line.startsWith("data:") || !knownEvent.concerns.test(line)) return line;
  const event = parsedOrNull(line.slice("data:".length));
  if (event === null || typeof event !== "object") return line;
  const known = knownEvent.of(event as Body);
  return known === null ? "" : `data: ${JSON.stringify(known)}`;
}

/** Changes each line of a stream. A line is passed on when its end has arrived. */
function linesThrough(change: (line: string) => string): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let begun: string[] = [];
  const changed = (text: string) => encoder.encode(text.split("\n").map(change).join("\n"));
  return new TransformStream({
    transform(chunk, controller) {
      const text = decoder.decode(chunk, { stream: true });
      const end = text.lastIndexOf("\n") + 1;
      if (end > 0) {
        controller.enqueue(changed(begun.join("") + text.slice(0, end)));
        begun = [];
      }
      begun.push(text.slice(end));
    },
    flush: (controller) => controller.enqueue(changed(begun.join("") + decoder.decode())),
  });
}
