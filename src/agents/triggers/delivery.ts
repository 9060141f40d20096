import type { RunData } from "../../api/contract/runs.ts";
import type { TriggerRecord } from "../../api/contract/triggers.ts";
import { isJsonObject, jsonOrUndefined } from "../../platform/lib/json.ts";

/** What a trigger makes of a delivery. Pure. */

/** A delivery's body as a value, and its headers. Stored, so that it can be sent again. */
export interface Content {
  value: RunData;
  headers: Readonly<Record<string, string>>;
}

const FORM = /^application\/x-www-form-urlencoded\s*(;|$)/i;
/** Headers that prove the sender, describe the connection or may be long. A filter and an input_map see the others. */
const LEFT_OUT =
  /^(authorization|cookie|proxy-.*|.*signature.*|.*hmac.*|.*token.*|host|connection|content-length|content-encoding|transfer-encoding|accept.*|x-forwarded-.*|forwarded|x-real-ip|traceparent|tracestate)$/;
const MAX_HEADERS = 50;
const MAX_HEADER_CHARACTERS = 500;

/** The headers that are kept, by their names in lower case. */
export function keptHeaders(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const kept = Object.entries(headers).flatMap(([name, value]) =>
    typeof value !== "string" || LEFT_OUT.test(name) ? [] : [[name, value.slice(0, MAX_HEADER_CHARACTERS)] as const],
  );
  return Object.fromEntries(kept.slice(0, MAX_HEADERS));
}

/**
 * The body as an object. JSON that is no object becomes the field `body` of one. A form becomes its fields, or the JSON object
 * of its field `payload`, as GitHub and Slack send it. Undefined: it is neither JSON nor a form.
 */
export function parseBody(text: string, content_type: string): RunData | undefined {
  if (FORM.test(content_type)) return parseForm(text);
  const json = text.replace(/^\ufeff/, "");
  if (json.trim() === "") return {};
  const value = jsonOrUndefined(json);
  if (value === undefined) return undefined;
  return isJsonObject(value) ? value : { body: value };
}

function parseForm(text: string): RunData {
  const form = new URLSearchParams(text);
  const payload = jsonOrUndefined(form.get("payload") ?? "");
  if (isJsonObject(payload)) return payload;
  const fields = Map.groupBy(form, ([name]) => name);
  return Object.fromEntries(
    [...fields].map(([name, pairs]) => {
      const values = pairs.map(([, value]) => value);
      return [name, values.length === 1 ? values[0] : values];
    }),
  );
}

/** The value at a path of the contract; undefined: there is none. */
function valueAt({ value, headers }: Content, path: string): unknown {
  const header = /^headers\.(.+)$/.exec(path)?.[1];
  if (header !== undefined) return headers[header.toLowerCase()];
  const keys = path.startsWith("/")
    ? path
        .slice(1)
        .split("/")
        .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"))
    : path.split(".");
  const found = keys.reduce<unknown>(
    (at, key) =>
      typeof at === "object" && at !== null && Object.hasOwn(at, key)
        ? (at as Record<string, unknown>)[key]
        : undefined,
    value,
  );
  // GitHub's body does not name its event.
  return found === undefined && path === "event" ? headers["x-github-event"] : found;
}

/** Whether the delivery has every value that the filter asks for. */
export function passesFilter(filter: TriggerRecord["filter"], content: Content): boolean {
  return Object.entries(filter ?? {}).every(([path, wanted]) => {
    const found = valueAt(content, path);
    return [wanted].flat().some((value) => value === found || (value === null && found === undefined));
  });
}

/** The input of the delivery's run: the whole body, or the mapped fields that the delivery has. */
export function mapInput(input_map: TriggerRecord["input_map"], content: Content): RunData {
  if (input_map === null) return content.value;
  return Object.fromEntries(
    Object.entries(input_map).flatMap(([name, path]) => {
      const value = valueAt(content, path);
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
}
