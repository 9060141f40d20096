import { isJsonObject, isTooDeep } from "../../platform/lib/json.ts";

/**
 * What a provider says of its error. Servers put it into `error`, `message`, `detail` or `errors`, as a text, an object or
 * a list of these, or answer a text or a page. Pure.
 */

/** The fields of an error. A text that the provider does not give is empty. */
export interface ErrorFields {
  /** Its code, its status in words (Google) and its type. */
  codes: readonly string[];
  type: string;
  code: string;
  message: string;
  param: string;
  /** The HTTP status that the body names. */
  status: number | undefined;
  /** Google's time to wait, such as `37s`. */
  retry_delay: string;
}

const NONE: Omit<ErrorFields, "codes"> = {
  type: "",
  code: "",
  message: "",
  param: "",
  status: undefined,
  retry_delay: "",
};

/**
 * The fields that hold the error or its text, the best one first, in lower case without `_`. OpenRouter puts its
 * provider's answer into `metadata.raw`. `error` may also be a name for the others.
 */
const PLACES = [
  ...["raw", "metadata", "error", "errors", "detail", "details", "message", "msg", "err"],
  ...["errordescription", "errormessage", "errormsg", "errmsg", "statusmessage", "statusmsg", "baseresp"],
  ...["fault", "faultstring", "response", "body", "title", "reason"],
];
/** Fields of `metadata` other than these are about the call. */
const METADATA_PLACES = ["raw"];
/** Errors are nested in each other: a gateway puts its provider's answer into its own message. */
const MAX_LEVELS = 10;
/** The most errors of a list that are shown. */
const MAX_ERRORS = 3;
const MAX_MESSAGE = 2_000;
/** The beginning of a page has its title and its first sentences. */
const MAX_PAGE = 8_192;
const TITLE = /<title[^>]*>([^<]*)/i;
const UNSEEN = /<(script|style|noscript|svg|head)\b.*?<\/\1\s*>|<[^>]*>/gis;

/** The fields of a provider's error. `body`: its text, or what was read from it. */
export function errorFields(body: unknown): ErrorFields {
  const found = { ...NONE, ...fieldsIn(body, 0) };
  const { code, type, message } = found;
  return { ...found, message: message.trim().slice(0, MAX_MESSAGE), codes: [code, type].filter((text) => text !== "") };
}

type Found = Partial<Omit<ErrorFields, "codes">>;

function fieldsIn(body: unknown, level: number, places = PLACES): Found {
  if (level > MAX_LEVELS) return {};
  if (typeof body === "string") return fieldsOfText(body, level);
  if (Array.isArray(body)) return fieldsOfList(body, level);
  return isJsonObject(body) ? fieldsOfObject(body, level, places) : {};
}

function fieldsOfText(text: string, level: number): Found {
  const trimmed = text.trim();
  if (/^[[{"]/.test(trimmed) && !isTooDeep(trimmed)) {
    try {
      return fieldsIn(JSON.parse(trimmed), level + 1);
    } catch {
      // An ordinary text, or one that was cut off.
    }
  }
  if (/^<(?:!doctype|html|head|body|\?xml|title|h\d|center|p|div)\b/i.test(trimmed))
    return { message: textOfPage(trimmed) };
  return trimmed === "" ? {} : { message: trimmed };
}

/** The first errors of a list, in one message. */
function fieldsOfList(list: readonly unknown[], level: number): Found {
  const all = list.slice(0, MAX_ERRORS).map((each) => fieldsIn(each, level + 1));
  const messages = all.flatMap(({ message }) => message ?? []);
  const [first] = all;
  return messages.length === 0 ? { ...first } : { ...first, message: messages.join("; ") };
}

function fieldsOfObject(fields: Record<string, unknown>, level: number, all_places: readonly string[]): Found {
  const named = new Map(Object.entries(fields).map(([name, value]) => [name.toLowerCase().replaceAll("_", ""), value]));
  const places =
    typeof named.get("error") === "string" ? [...all_places.filter((place) => place !== "error"), "error"] : all_places;
  const inner = places.map((place) => {
    const value = named.get(place);
    if (value == null) return {};
    if (place === "metadata") return fieldsIn(value, level + 1, METADATA_PLACES);
    return place === "errors" ? fieldsOfErrors(value, level) : fieldsIn(value, level + 1);
  });
  const told =
    inner.find(({ message }) => message !== undefined) ?? inner.find((each) => Object.keys(each).length > 0) ?? {};
  const own: Found = {};
  const { loc, type } = fields;
  // Google's code is the status, and its word is in `status`. vLLM's code is the status too.
  const status = [fields.code, fields.status, fields.status_code, fields.statusCode].map(Number).find(isStatus);
  const code = [fields.code, fields.status, fields.err_code, fields.error_code].find(isCode);
  const param = typeof fields.param === "string" ? fields.param : readLocation(loc);
  if (status !== undefined) own.status = status;
  if (code !== undefined) own.code = String(code);
  if (typeof type === "string") own.type = type;
  if (param !== "") own.param = param;
  const delay = delayIn(fields.details);
  if (delay !== "") own.retry_delay = delay;
  // The inner error is the cause, so its own words count.
  const all = { ...own, ...told };
  // FastAPI names the field of a fault beside its text.
  return loc !== undefined && all.message !== undefined && param !== ""
    ? { ...all, message: `${param}: ${all.message}` }
    : all;
}

/** A list of errors, or errors by the names of fields: `{"prompt": ["is too long"]}`. */
function fieldsOfErrors(errors: unknown, level: number): Found {
  const found = fieldsIn(errors, level + 1);
  if (found.message !== undefined || !isJsonObject(errors)) return found;
  const messages = Object.entries(errors)
    .slice(0, MAX_ERRORS)
    .flatMap(([name, each]) => {
      const { message } = fieldsIn(each, level + 1);
      return message === undefined ? [] : `${name}: ${message}`;
    });
  return messages.length === 0 ? found : { ...found, message: messages.join("; ") };
}

function isStatus(value: number): boolean {
  return Number.isInteger(value) && value >= 400 && value < 600;
}

function isCode(value: unknown): boolean {
  return (
    (typeof value === "string" && value !== "" && !isStatus(Number(value))) ||
    (Number.isSafeInteger(value) && !isStatus(Number(value)))
  );
}

/** The place of a fault in the body, such as `messages.0.content`. */
function readLocation(loc: unknown): string {
  if (!Array.isArray(loc)) return "";
  return loc.filter((part) => part !== "body").join(".");
}

function delayIn(details: unknown): string {
  if (!Array.isArray(details)) return "";
  const delay = details
    .map((detail) => (isJsonObject(detail) ? detail.retryDelay : undefined))
    .find((each) => typeof each === "string");
  return typeof delay === "string" ? delay : "";
}

/** The title of a page; without one, its text. */
function textOfPage(page: string): string {
  const start = page.slice(0, MAX_PAGE);
  const title = TITLE.exec(start)?.[1]?.trim() ?? "";
  return (title === "" ? start.replaceAll(UNSEEN, " ") : title).replaceAll(/\s+/g, " ").trim();
}
