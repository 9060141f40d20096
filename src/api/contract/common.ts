import { LIST_LIMIT } from "../../kernel/constants.ts";
import { instantOf } from "../../platform/lib/instant.ts";
import { contractErrors } from "./errors.ts";
import { z } from "./zod.ts";

/** Pieces that every resource's contract is made of. */

export const instantSchema = z.string().openapi({ format: "date-time", example: "2026-11-20T09:30:00.000Z" });
/** An instant that a caller gives, in any offset; handed on as UTC with milliseconds. Four-digit years sort as text. */
export const instantInput = z.iso
  .datetime({ offset: true })
  .transform((text) => instantOf(Temporal.Instant.from(text)))
  .refine((instant) => instant >= "1970", "an instant from 1970 to 9999, such as 2026-11-20T09:30:00Z")
  .openapi({ type: "string", format: "date-time" });
/** Where a list is to begin or end: an instant, or a day, which stands for its start in UTC. */
export const boundInput = z.union([
  z.iso
    .date()
    .transform((day) => `${day}T00:00:00.000Z`)
    .refine((instant) => instant >= "1970", "a day from 1970 to 9999, such as 2026-11-20")
    .openapi({ type: "string", format: "date", description: "a day: its start in UTC" }),
  instantInput,
]);
/** The parameters `from` and `to` of a list. `happened`: what its entries did at their instant, such as "queued". */
export const windowQuery = (happened: string) => ({
  from: boundInput
    .optional()
    .openapi({ description: `${happened} then or later: an instant, or a day, which is its start in UTC` }),
  to: boundInput.optional().openapi({ description: `${happened} before: as \`from\`` }),
});
/** Text that can be stored: PostgreSQL has no U+0000, and JSON no half of a surrogate pair. */
export const textSchema = (max: number) =>
  z
    .string()
    .max(max)
    .refine((text) => !text.includes("\0") && text.isWellFormed(), "text without U+0000 and halves of surrogate pairs");
/** The parameter `q` of a list. `what`: the texts that have the words, such as "the title". */
export const wordsQuery = (what: string) =>
  textSchema(200)
    .refine((text) => /[\p{L}\p{N}]/u.test(text), "text of at most 200 characters with at least one word")
    .optional()
    .openapi({ description: `words, all of which ${what} has, in upper or lower case` });
/** A name of something: text that is not blank. */
export const nameSchema = (max: number) =>
  textSchema(max).min(1).regex(/\S/, `text of 1 to ${max} characters that is not blank`);
export const uuidSchema = z.string().openapi({ format: "uuid" });
export const tokensSchema = z.number().int().openapi({ description: "billed tokens" });

export const errorSchema = z
  .object({
    error: z.object({
      type: z.string(),
      code: z.string(),
      message: z.string().openapi({ description: "what went wrong and what to do next" }),
      param: z.string().nullable(),
      request_id: z.string(),
      metadata: z.record(z.string(), z.unknown()).optional(),
    }),
  })
  .openapi("Error");

/** A response with a JSON body. */
export function json<S extends z.ZodType>(schema: S, description: string) {
  return { description, content: { "application/json": { schema } } };
}

/** A response that is server-sent events with `stream: true`. `events` is the data of one event. */
export function jsonOrEvents<S extends z.ZodType>(schema: S, events: z.ZodType, description: string) {
  const { content } = json(schema, description);
  return {
    description: `${description}; with \`stream: true\`, its events`,
    content: { ...content, "text/event-stream": { schema: events } },
  };
}

/**
 * Whether `name` is an IANA time zone or one of its links, spelled as the database spells it. Offsets such as +05:30 are
 * not: they know no daylight saving.
 */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Z]/.test(name)) return false;
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name).timeZoneId === name;
  } catch {
    return false;
  }
}

export const timeZoneSchema = z
  .string()
  .refine(isTimeZone, "an IANA time zone such as Europe/Berlin, spelled as the database of zones spells it")
  .openapi({ description: "IANA name", example: "Asia/Kolkata" });

/** The error of an event stream that broke off, or whose caller lost access. */
export const streamErrorSchema = z
  .looseObject({
    error: z.looseObject({
      type: z.string(),
      code: z.string(),
      message: z.string(),
      param: z.string().nullable(),
      request_id: z.string(),
    }),
  })
  .openapi("StreamError");

/** The body of a POST without fields: every field is unknown. */
export const noFields = z.strictObject({});

const STATUS_MEANING = {
  400: "the request is not valid; `param` names the field",
  401: "no valid API key",
  402: "not enough tokens; `metadata` tells the shortfall and the remedies",
  403: "not permitted: a scope that the key lacks, a suspended account, or more than the plan includes",
  404: "no such object, or another user's",
  409: "in conflict with the present state",
  429: "too many requests",
  502: "another service that this needs does not answer as it should",
  503: "not available now",
} as const;

/** The error responses of a route, for the reference; 400 (a query parameter), 401 and 429 can come from everywhere. */
export function failures(...statuses: (keyof typeof STATUS_MEANING)[]) {
  const all = [...new Set([...statuses, 400, 401, 429] as const)].sort();
  return Object.fromEntries(all.map((status) => [status, json(errorSchema, STATUS_MEANING[status])]));
}

/** `limit` and `cursor` of a list. Query text comes as strings. */
const listQuery = (default_limit: number) =>
  z.object({
    limit: z.coerce
      .number()
      .int()
      .min(LIST_LIMIT.min)
      .max(LIST_LIMIT.max)
      .default(default_limit)
      .openapi({ description: "entries a page" }),
    cursor: z.string().optional().openapi({ description: "`next_cursor` of the page before" }),
  });
export const listQuerySchema = listQuery(LIST_LIMIT.default);
/** For agents, runs, secrets and buckets: clients that read one page see all of an ordinary account. */
export const longListQuerySchema = listQuery(LIST_LIMIT.max);

export const nextCursorSchema = z.string().nullable().openapi({ description: "null at the end" });

/** An opaque cursor for the position after `key`. */
export function encodeCursor(key: string | number): string {
  return Buffer.from(`1.${key}`).toString("base64url");
}

/** The key in a cursor, null when there is none; 400 when it is not one of ours. `shape` is what the list's keys look like. */
export function decodeCursor(cursor: string | undefined, shape: Pick<RegExp, "test">): string | null {
  if (cursor === undefined) return null;
  const text = Buffer.from(cursor, "base64url").toString();
  const key = text.slice(2);
  if (!text.startsWith("1.") || !shape.test(key) || encodeCursor(key) !== cursor) throw contractErrors.invalidCursor();
  return key;
}

/** Shapes of cursor keys. */
export const UUID_KEY = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
export const NUMBER_KEY = /^\d{1,15}$/;
export const INSTANT_KEY = { test: (key: string) => instantInput.safeParse(key).data === key };
/** An instant and an id, for lists in which several entries have the same instant. */
export const INSTANT_AND_ID_KEY = {
  test(key: string): boolean {
    const [at = "", id = "", ...more] = key.split(" ");
    return more.length === 0 && INSTANT_KEY.test(at) && UUID_KEY.test(id);
  },
};

/**
 * One page of `rows`, which were fetched with `limit + 1`: the surplus row says that there is more.
 */
export function pageOf<Row>(rows: Row[], limit: number, keyOf: (row: Row) => string | number) {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { page, next_cursor: rows.length > limit && last !== undefined ? encodeCursor(keyOf(last)) : null };
}

/** One page of a list whose rows go by their ids. `before_id`: the last row of the page before. */
export async function readPage<Row extends { id: string }>(
  { limit, cursor }: { limit: number; cursor?: string | undefined },
  read: (page: { limit: number; before_id: string | null }) => Promise<Row[]>,
) {
  const before_id = decodeCursor(cursor, UUID_KEY);
  return pageOf(await read({ limit: limit + 1, before_id }), limit, ({ id }) => id);
}

/** The approximate size of a page of large entries: 100 agents or turns of 4 MB would block the node. */
const PAGE_BYTES = 4_194_304;

/** The first of the entries that fit into one page, at least one. */
export function thatFit<Entry>(entries: readonly Entry[], bytesOf: (entry: Entry) => number): readonly Entry[] {
  let left = PAGE_BYTES;
  const first_out = entries.findIndex((entry, at) => {
    left -= bytesOf(entry);
    return at > 0 && left < 0;
  });
  return first_out === -1 ? entries : entries.slice(0, first_out);
}
