import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import type { MiddlewareHandler } from "hono";

/** Smaller answers fit into one packet. */
const LEAST_BYTES = 1024;
/** Costs as little time as gzip and compresses JSON better. */
const BROTLI_QUALITY = 4;

/** They work on zlib's threads. */
export const compressors = {
  br: (body: Uint8Array) =>
    promisify(brotliCompress)(body, { params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY } }),
  gzip: (body: Uint8Array) => promisify(gzip)(body),
};

/**
 * Compresses JSON answers to GET. Event streams, CSV and completions (POST) are sent unchanged, without a copy.
 */
export function compressJson(): MiddlewareHandler {
  return async (c, next) => {
    await next();
    if (c.req.method !== "GET" || c.res.body === null || c.res.headers.has("Content-Encoding")) return;
    if (!(c.res.headers.get("Content-Type") ?? "").startsWith("application/json")) return;
    c.res.headers.append("Vary", "Accept-Encoding");
    const encoding = acceptedEncoding(c.req.header("Accept-Encoding"));
    if (encoding === null) return;
    const plain = new Uint8Array(await c.res.arrayBuffer());
    const { status, headers } = c.res;
    const is_small = plain.length < LEAST_BYTES;
    const body = is_small ? plain : new Uint8Array(await compressors[encoding](plain));
    headers.delete("Content-Length");
    if (!is_small) headers.set("Content-Encoding", encoding);
    c.res = undefined;
    c.res = new Response(body, { status, headers });
  };
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
