import { parentPort } from "node:worker_threads";
import { stableDigest } from "../../platform/lib/json.ts";
import { piecesOf } from "./json-pieces.ts";
import { JsonError, parsedJson, utf8Text } from "./json-text.ts";

export interface ParseRequest {
  /** The body's bytes, in order. */
  blocks: Uint8Array<ArrayBuffer>[];
  /** True if the digest of the body is needed too. */
  digest: boolean;
}
export type ParseAnswer = { pieces: Uint8Array[]; digest: string | undefined } | { fault: string };

const port = parentPort;
if (port === null) throw new Error("json-parser.worker.ts runs as a worker thread only");
port.on("message", ({ blocks, digest }: ParseRequest) => {
  try {
    const value = parsedJson(utf8Text(Buffer.concat(blocks)));
    const pieces = piecesOf(value);
    const answer: ParseAnswer = { pieces, digest: digest ? stableDigest(value) : undefined };
    port.postMessage(
      answer,
      pieces.map(({ buffer }) => buffer),
    );
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    port.postMessage({ fault: error.message } satisfies ParseAnswer);
  }
});
