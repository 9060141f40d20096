import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { constants, createGunzip, createZstdDecompress } from "node:zlib";
import { errors } from "../errors.ts";
import { JsonError } from "./json-text.ts";

/** zstd's own recommendation: decoders support windows of 8 MB. A larger one is memory that the sender chooses. */
const ZSTD_WINDOW_LOG = 23;
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
export async function* decoded(body: ReadableStream<Uint8Array>, encoding: Encoding): AsyncGenerator<Uint8Array> {
  const sent = Readable.fromWeb(body);
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
    throw is_cut ? error : new JsonError(`The body is not valid ${encoding}`);
  } finally {
    sent.destroy();
    decoder.destroy();
  }
}
