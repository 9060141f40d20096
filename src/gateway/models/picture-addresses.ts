import type { ChatRequest } from "../../api/contract/completions.ts";
import { errors } from "../../kernel/errors.ts";
import { fieldsOf } from "../../platform/lib/json.ts";
import { pictureType, toMediaType } from "../../platform/lib/media-type.ts";
import type { Outbound } from "../../platform/net/outbound.ts";
import { OutboundError } from "../../platform/net/outbound-errors.ts";
import type { CallOptions, Provider, ProviderRequest } from "./models.types.ts";

/**
 * Pictures by address. An operator's own server would open any address that a caller names, also of its own network. So
 * it gets the pictures themselves, fetched by the guarded client once the call is held. A vendor at its public address
 * fetches pictures itself, and gets addresses of the public internet only.
 */

/** Of one request. */
const MAX_PICTURES = 20;
/** As base64, all pictures of a request are as large as a body may be. */
const MAX_BYTES = 24_000_000;
const FETCH_MS = 30_000;
const MAX_REDIRECTS = 5;
const HTTP = /^https?:/i;

/** The client that may open what a caller names. */
export type PictureGuard = Pick<Outbound, "request" | "refusal">;
type Replacement = (url: string) => string;

/** `provider`, whose requests have no address that the guard blocks. With `fetches`, they have no address. */
export function withPictures(
  provider: Provider,
  { outbound, fetches }: { outbound: PictureGuard; fetches: boolean },
): Provider {
  async function safeRequest(request: ProviderRequest, { signal }: CallOptions): Promise<ProviderRequest> {
    const addresses = addressesIn(request.request);
    if (addresses.size === 0) return request;
    const pictures = new Map<string, string>();
    let left_bytes = MAX_BYTES;
    for (const [url, param] of addresses) {
      if (!fetches) await refuseBlocked(url, param, { outbound, signal });
      else if (pictures.size === MAX_PICTURES) {
        throw errors.invalidValue(
          param,
          `${param} is one of more than ${MAX_PICTURES} pictures by address. ${AS_DATA}`,
        );
      } else {
        const picture = await fetched({ url, param, left_bytes }, { outbound, signal });
        left_bytes -= picture.bytes;
        pictures.set(url, picture.data_url);
      }
    }
    return fetches ? withData(request, (url) => pictures.get(url) ?? url) : request;
  }
  return {
    ...provider,
    complete: async (request, options) => provider.complete(await safeRequest(request, options), options),
    stream: async (request, options) => provider.stream(await safeRequest(request, options), options),
  };
}

const AS_DATA = "Send the picture as a data: URL in base64.";

/** The http addresses in a request, each with the name of its first field. */
function addressesIn({ messages }: ChatRequest): Map<string, string> {
  const found = new Map<string, string>();
  for (const [index, { content }] of messages.entries()) {
    if (!Array.isArray(content)) continue;
    for (const [at, { image_url }] of content.entries()) {
      if (image_url === undefined || !HTTP.test(image_url.url) || found.has(image_url.url)) continue;
      found.set(image_url.url, `messages[${index}].content[${at}].image_url.url`);
    }
  }
  return found;
}

async function refuseBlocked(
  url: string,
  param: string,
  { outbound, signal }: { outbound: PictureGuard; signal: AbortSignal },
): Promise<void> {
  const parsed = URL.parse(url);
  const blocked = parsed === null ? new Error("it cannot be read") : await outbound.refusal(parsed, signal);
  signal.throwIfAborted();
  if (blocked !== null) throw unreachable(param, blocked.message);
}

function unreachable(param: string, reason: string): Error {
  return errors.invalidValue(param, `${param} cannot be fetched: ${reason}. ${AS_DATA}`);
}

/** The picture at an address as a data: URL. Throws 400 with the reason why there is none. */
async function fetched(
  { url, param, left_bytes }: { url: string; param: string; left_bytes: number },
  { outbound, signal }: { outbound: PictureGuard; signal: AbortSignal },
): Promise<{ data_url: string; bytes: number }> {
  const asked = {
    url,
    method: "GET",
    headers: { accept: "image/*" },
    max_bytes: left_bytes,
    max_redirects: MAX_REDIRECTS,
  };
  const answer = await outbound.request({ ...asked, timeout_ms: FETCH_MS, signal }).catch((error: unknown) => {
    signal.throwIfAborted();
    throw error instanceof OutboundError ? unreachable(param, error.message) : error;
  });
  if (answer.status !== 200) throw unreachable(param, `its server answers ${answer.status}`);
  const data = answer.body.toString("base64");
  const type = pictureType(answer.body) ?? toMediaType(answer.content_type, data);
  if (!type.startsWith("image/")) throw unreachable(param, "it is no picture");
  return { data_url: `data:${type};base64,${data}`, bytes: answer.body.length };
}

/** The request with data in place of addresses. The body that was prepared for the hold has the addresses. */
function withData({ body_start: _, ...request }: ProviderRequest, dataOf: Replacement): ProviderRequest {
  const messages = request.request.messages.map((message) => {
    if (!Array.isArray(message.content)) return message;
    const content = message.content.map((part) =>
      part.image_url === undefined
        ? part
        : { ...part, image_url: { ...part.image_url, url: dataOf(part.image_url.url) } },
    );
    return { ...message, content };
  });
  const { native_fields } = request;
  const own = native_fields === undefined ? {} : { native_fields: nativeWithData(native_fields, dataOf) };
  return { ...request, request: { ...request.request, messages }, ...own };
}

/** The caller's own blocks (`source`) and items (`image_url`), whose pictures may be in results of tools. */
function nativeWithData(fields: Readonly<Record<string, unknown>>, dataOf: Replacement): Record<string, unknown> {
  const listed = (value: unknown) => (Array.isArray(value) ? value.map(partWithData) : value);
  function partWithData(part: unknown): unknown {
    if (typeof part !== "object" || part === null) return part;
    const { source, image_url, content, output } = fieldsOf(part);
    const inner = {
      ...(content === undefined ? {} : { content: listed(content) }),
      ...(output === undefined ? {} : { output: listed(output) }),
    };
    const { type, url } = fieldsOf(source);
    if (type === "url" && typeof url === "string") return { ...part, ...inner, source: toSource(dataOf(url)) };
    if (typeof image_url === "string") return { ...part, ...inner, image_url: dataOf(image_url) };
    return { ...part, ...inner };
  }
  const lists = ["messages", "input"].filter((list) => fields[list] !== undefined);
  return { ...fields, ...Object.fromEntries(lists.map((list) => [list, listed(fields[list])])) };
}

/** Anthropic's source for a data: URL. */
function toSource(data_url: string): object {
  const [head = "", data = ""] = data_url.split(";base64,");
  return { type: "base64", media_type: head.slice("data:".length), data };
}
