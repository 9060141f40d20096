import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { constants, createGunzip, createZstdDecompress } from "node:zlib";
import { errors, PurserError } from "../../kernel/errors.ts";
import { JsonError } from "./json-text.ts";

/** zstd's own recommendation: decoders support windows of 8 MB. A larger one is memory that the sender chooses. */
const ZSTD_WINDOW_LOG = 23;
/** An encoded body may be this much larger than the decoded one. */
const MAX_OVERHEAD_BYTES = 65_536;
const DECODERS = {
  gzip: createGunzip,
  zstd: () => createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG } }),
};
const ENCODINGS = Object.keys(DECODERS);

export type Encoding = keyof typeof DECODERS;

/** The encoding of a body; null when it is plain. Throws 415. */
export function encodingOf(header: string | undefined): Encoding | null {
  const name = (header ?? "").trim().toLowerCase();
  if (name === "" || name === "identity") return null;
  if (!Object.hasOwn(DECODERS, name)) throw errors.unsupportedEncoding(ENCODINGS);
  return name as Encoding;
}

/** The decoded body, piece by piece. The reader stops at its limit, so a small body cannot become a large one. */
export async function* decoded(
  body: ReadableStream<Uint8Array>,
  { encoding, limit }: { encoding: Encoding; limit: number },
): AsyncGenerator<Uint8Array> {
  const sent = Readable.fromWeb(body);
  let sent_bytes = 0;
  // Bytes that decode to nothing count too.
  sent.on("data", (chunk: Uint8Array) => {
    sent_bytes += chunk.byteLength;
    if (sent_bytes > limit + MAX_OVERHEAD_BYTES) decoder.destroy(errors.bodyTooLarge(limit));
  });
  const decoder = DECODERS[encoding]();
  let is_cut = false;
  sent.on("error", () => {
    is_cut = true;
    decoder.destroy(new Error("the connection ended"));
  });
  sent.pipe(decoder);
  try {
    for await (const chunk of decoder) yield chunk as Uint8Array;
  } catch (error) {
    throw is_cut || error instanceof PurserError ? error : new JsonError(`The body is not valid ${encoding}`);
  } finally {
    sent.destroy();
    decoder.destroy();
  }
}
