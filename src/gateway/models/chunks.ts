import { realNowMs } from "../../platform/lib/clock.ts";
import { newId } from "../../platform/lib/ids.ts";

/** Chat completions that the service writes itself, because their provider has another API or none. */

/** The id and the second of a new completion. */
export function newIdentity(): { id: string; created: number } {
  return { id: `chatcmpl-${newId()}`, created: Math.floor(realNowMs() / 1000) };
}

/** A chunk of a streamed completion as a server-sent event. */
export function chunkEvent(identity: { id: string; created: number }, model: string, choices: unknown[]): string {
  return `data: ${JSON.stringify({ ...identity, object: "chat.completion.chunk", model, choices })}\n\n`;
}
