import type { Context, MiddlewareHandler } from "hono";
import type { HttpEnv } from "../contract/caller.ts";
import { errors } from "../errors.ts";

const JSON_MEDIA = "application/json";
const UTF8 = new TextDecoder("utf-8", { fatal: true });
const JSON_TYPE = /^application\/([a-z0-9.-]+\+)?json\s*(;|$)/i;

/** The body's bytes, refused as soon as they pass `limit`, whatever Content-Length claims. */
async function readBody(request: Request, limit: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  const stream: AsyncIterable<Uint8Array> | null = request.body;
  for await (const chunk of stream ?? []) {
    bytes += chunk.byteLength;
    if (bytes > limit) throw errors.bodyTooLarge(limit);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** A body's text; 400 when its bytes are no UTF-8, which would else be read as other characters than were sent. */
function utf8(bytes: ArrayBuffer | Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw errors.invalidJson("The body is not valid UTF-8");
  }
}

/** The JSON text of a request, read once; the schema's validator and the idempotency hash both use it. */
async function jsonText(c: Context, limit: number): Promise<string> {
  const declared = c.req.header("Content-Length");
  if (declared !== undefined) {
    if (Number(declared) > limit) throw errors.bodyTooLarge(limit);
    return Number(declared) === 0 ? "" : utf8(await c.req.arrayBuffer());
  }
  if (c.req.header("Transfer-Encoding") === undefined) return "";
  return utf8(await readBody(c.req.raw, limit));
}

/**
 * Reads and parses a JSON body before any handler: 413 beyond `limit_bytes`, 415 for another content type, 400 for what
 * does not parse. No body counts as `{}`.
 */
export function jsonBodies(limit_bytes: number): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    if (c.req.method === "GET" || c.req.method === "HEAD") return next();
    const sent = await jsonText(c, limit_bytes);
    const empty = sent.trim() === "";
    const type = c.req.header("Content-Type") ?? "";
    if (!empty && !JSON_TYPE.test(type)) throw errors.unsupportedMediaType();
    // An empty body counts as {}, whatever type its sender gave it. The routes' validators look at the type, and know
    // fewer spellings of it.
    if (type !== JSON_MEDIA) c.req.raw.headers.set("Content-Type", JSON_MEDIA);
    const text = empty ? "{}" : sent;
    const value = parse(text);
    c.req.bodyCache.text = Promise.resolve(text) as never;
    // The validators would parse the text once more.
    c.req.json = async () => value as never;
    return next();
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // The parser's own message quotes the body, which may hold a secret: tell the place only.
    const place = / at position \d+/.exec((error as Error).message)?.[0] ?? ": it ends too early";
    throw errors.invalidJson(`The body is not valid JSON${place}`);
  }
}
