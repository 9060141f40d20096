import { promisify } from "node:util";
import { brotliDecompress, constants, gunzip, inflate, inflateRaw, zstdDecompress } from "node:zlib";
import { OutboundError } from "./outbound-errors.ts";

/** Maximum number of codings per answer. A server that stacks more is suspicious. */
const MAX_CODINGS = 3;
/** Maximum number of pieces. 5 MB in pieces of a few bytes would fill memory with the overhead of each piece. */
export const MAX_PIECES = 100_000;
const FIRST_BYTES = 65_536;
/** RFC 9659: a server must not require a window above 8 MB from a web client. */
const ZSTD_WINDOW_LOG = 23;

/** The codings that requests offer. `decode` handles the same ones. */
export const ACCEPT_ENCODING = "gzip, deflate, br, zstd";

/** The source of a body and its maximum size. The size applies both on the wire and after decompression. */
export interface BodyLimit {
  readonly max_bytes: number;
  readonly host: string;
  readonly status: number;
}

/** Names that servers write for a body that has no coding. */
const IDENTITY =
  /^(identity|none|null|binary|[78]bit|plain|raw|text|utf-?8|unicode|chunked|aws-chunked|amz-1\.0|\*|.*\/.*)$/;

/** The codings of a Content-Encoding header. Some servers write a charset or a word for "not encoded" there. */
export function codingsIn(header: string): string[] {
  return header
    .toLowerCase()
    .split(",")
    .map((name) => name.split(";", 1).join("").replaceAll('"', "").trim())
    .filter((name) => name !== "" && !IDENTITY.test(name) && !isCharset(name));
}

function isCharset(name: string): boolean {
  try {
    new TextDecoder(name);
    return true;
  } catch {
    return false;
  }
}

/**
 * Reads a body to its end and undoes its Content-Encoding. A decompression bomb stops at the limit and does not fill
 * memory.
 * Errors: OutboundError `too_large` and `bad_response` (damaged, or in too many pieces); errors of the stream.
 */
export async function readBody(body: AsyncIterable<Buffer>, encoding: string, limit: BodyLimit): Promise<Buffer> {
  const codings = codingsIn(encoding);
  if (codings.length > MAX_CODINGS) throw badCoding(limit);
  let bytes = await collect(body, limit);
  for (const name of codings.reverse()) bytes = await decode(bytes, name, limit);
  return bytes;
}

async function collect(body: AsyncIterable<Buffer>, limit: BodyLimit): Promise<Buffer> {
  let bytes: Buffer = Buffer.alloc(0);
  let size = 0;
  let pieces = 0;
  for await (const piece of body) {
    pieces += 1;
    if (size + piece.length > limit.max_bytes) throw tooLarge(limit);
    if (pieces > MAX_PIECES) throw inPieces(limit);
    if (size + piece.length > bytes.length) bytes = grown(bytes, size + piece.length);
    size += piece.copy(bytes, size);
  }
  return bytes.subarray(0, size);
}

function grown(bytes: Buffer, min_bytes: number): Buffer {
  const larger = Buffer.allocUnsafeSlow(Math.max(min_bytes, 2 * bytes.length, FIRST_BYTES));
  bytes.copy(larger);
  return larger;
}

async function decode(bytes: Buffer, coding: string, limit: BodyLimit): Promise<Buffer> {
  if (bytes.length === 0) return bytes;
  const maxOutputLength = limit.max_bytes;
  try {
    switch (coding) {
      case "gzip":
      case "x-gzip":
        return await promisify(gunzip)(bytes, { maxOutputLength });
      case "deflate":
        return await (isZlibWrapped(bytes) ? promisify(inflate) : promisify(inflateRaw))(bytes, { maxOutputLength });
      case "br":
        return await promisify(brotliDecompress)(bytes, { maxOutputLength });
      case "zstd":
        return await promisify(zstdDecompress)(bytes, {
          maxOutputLength,
          params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG },
        });
    }
  } catch (error) {
    if (error instanceof RangeError) throw tooLarge(limit);
  }
  throw badCoding(limit);
}

/** Some servers send raw DEFLATE as "deflate". A zlib stream has the value 8 in the low half of its first byte. */
function isZlibWrapped(bytes: Buffer): boolean {
  return ((bytes[0] ?? 0) & 0x0f) === 8;
}

function tooLarge({ max_bytes, host, status }: BodyLimit): OutboundError {
  return new OutboundError("too_large", `the answer is larger than ${max_bytes} bytes`, { host, status });
}

function inPieces({ host, status }: BodyLimit): OutboundError {
  return new OutboundError("bad_response", `the answer comes in more than ${MAX_PIECES} pieces`, { host, status });
}

function badCoding({ host, status }: BodyLimit): OutboundError {
  return new OutboundError("bad_response", "the answer's Content-Encoding is unknown or damaged", { host, status });
}
