import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { drained, EVENT_STREAM_HEADERS, writeEvents } from "../../platform/net/event-stream.ts";
import type { Answer } from "../contract/endpoint.ts";
import type { Exchange } from "./exchange.ts";

/** The status that proxies use after a caller has hung up; the caller does not receive it. */
const CLIENT_CLOSED_REQUEST = 499;
/** Smaller answers fit into one packet. */
const LEAST_COMPRESSED_BYTES = 1024;
/** Costs as little time as gzip and compresses JSON better. */
const BROTLI_QUALITY = 4;
const NO_BODY = new Set([204, 304]);

/** They work on zlib's threads. */
export const compressors = {
  br: (body: Uint8Array) =>
    promisify(brotliCompress)(body, { params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY } }),
  gzip: (body: Uint8Array) => promisify(gzip)(body),
};

/**
 * Writes the answer, or begins to write its events. Returns its status. An answer whose caller has disconnected is
 * not written.
 */
export async function writeAnswer(exchange: Exchange, answer: Answer): Promise<number> {
  const { outgoing, head, method } = exchange;
  if (answer.kind === "hung_up") {
    outgoing.destroy();
    return CLIENT_CLOSED_REQUEST;
  }
  if (answer.kind === "events") {
    if (!outgoing.destroyed) outgoing.writeHead(200, { ...head, ...EVENT_STREAM_HEADERS });
    if (method !== "HEAD") void writeEvents(outgoing, answer.feed, answer.listener);
    else {
      answer.listener.live.leave();
      await answer.feed.leave();
      outgoing.end();
    }
    return 200;
  }
  if (answer.kind === "parts") {
    await writeParts(exchange, answer);
    return answer.status;
  }
  await writeWhole(exchange, answer);
  return answer.status;
}

async function writeWhole(
  { outgoing, head, method, header }: Exchange,
  answer: Answer & { kind: "json" | "bytes" | "empty" },
): Promise<void> {
  const own: Record<string, string> = answer.kind === "json" ? { "Content-Type": "application/json" } : {};
  let body: string | Uint8Array = "";
  if (answer.kind === "json") body = JSON.stringify(answer.body);
  if (answer.kind === "bytes") body = answer.body;
  if (answer.kind === "json" && (method === "GET" || method === "HEAD")) {
    own.Vary = "Accept-Encoding";
    const encoding = acceptedEncoding(header("accept-encoding"));
    if (encoding !== null && body.length >= LEAST_COMPRESSED_BYTES) {
      body = await compressors[encoding](Buffer.from(body));
      own["Content-Encoding"] = encoding;
    }
  }
  if (!NO_BODY.has(answer.status)) own["Content-Length"] = String(Buffer.byteLength(body));
  if (outgoing.destroyed) return;
  outgoing.writeHead(answer.status, { ...head, ...own, ...answer.headers });
  outgoing.end(body);
}

/** Writes parts as fast as the caller reads. A body that cannot be finished cuts the connection. */
async function writeParts({ outgoing, head, method }: Exchange, answer: Answer & { kind: "parts" }): Promise<void> {
  if (!outgoing.destroyed) outgoing.writeHead(answer.status, { ...head, ...answer.headers });
  try {
    for await (const part of answer.parts) {
      if (method === "HEAD" || outgoing.destroyed) break;
      if (!outgoing.write(part)) await drained(outgoing);
    }
    outgoing.end();
  } catch {
    outgoing.destroy();
  }
}

/** Prefers brotli to gzip. Null when the client accepts neither, or forbids both with `q=0`. */
export function acceptedEncoding(header: string | undefined): keyof typeof compressors | null {
  const accepted = (header ?? "").split(",", 20).flatMap((part) => {
    const [name = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2) ?? "1";
    return Number(weight) > 0 ? name : [];
  });
  return (["br", "gzip"] as const).find((name) => accepted.includes(name)) ?? null;
}
