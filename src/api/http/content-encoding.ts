import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { constants, createGunzip, createZstdDecompress } from "node:zlib";
import { httpErrors } from "./errors.ts";

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
  if (!Object.hasOwn(DECODERS, name)) throw httpErrors.unsupportedEncoding(ENCODINGS);
  return name as Encoding;
}

/** The decoded body. The reader stops at its limit, so a small body cannot become a large one. */
export function decodeBody(
  incoming: IncomingMessage,
  { encoding, limit }: { encoding: Encoding; limit: number },
): Readable {
  const decoder = DECODERS[encoding]();
  let sent_bytes = 0;
  // Bytes that decode to nothing count too.
  incoming.on("data", (chunk: Buffer) => {
    sent_bytes += chunk.length;
    if (sent_bytes > limit + MAX_OVERHEAD_BYTES) decoder.destroy(httpErrors.bodyTooLarge(limit));
  });
  incoming.once("close", () => {
    if (!incoming.complete) decoder.destroy(new Error("the connection ended"));
  });
  return incoming.pipe(decoder);
}

/** Whether a body was not encoded as its header says. */
export function isDecodingError(error: unknown): boolean {
  return /^(Z_|ZSTD_)/.test(String((error as { code?: unknown }).code));
}
