import { z } from "zod";

/** Parts of the schemas of the configuration file, with messages that its operator reads. */

const MAX_COUNT = 1_000_000_000_000;
const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;

/** A whole number of at least `least`. */
export const count = (least: number, most = MAX_COUNT) =>
  z
    .int(`must be a whole number`)
    .min(least, least === 0 ? "must not be negative" : `must be at least ${least}`)
    .max(most, `must be at most ${most}`);

/** A number that may have a fraction. */
export function number() {
  return z.number("must be a number");
}

/** A text that matches `pattern`; otherwise it has the `problem`. */
export function text(pattern: RegExp, problem: string) {
  return z.string("must be a text").regex(pattern, problem);
}

/** The name of an environment variable. */
export const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** An http or https address. */
export const httpAddress = z
  .string("must be a text")
  .refine(
    (value) => ["http:", "https:"].includes(URL.parse(value)?.protocol ?? ""),
    "must be an http or https address",
  );

/** What people read as a name. */
export const title = text(/^[^\p{Cc}]{1,100}$/u, "must be a text of 1 to 100 characters");
/** What the file refers to by name. */
export const identifier = text(NAME, 'must be a name of lower-case letters, digits, "-" and "_"');

/** An object without unknown keys. */
export function record<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  const keys = Object.keys(shape).join(", ");
  return z.strictObject(shape, {
    error: (issue) => (issue.code === "unrecognized_keys" ? `is an unknown key (known: ${keys})` : "must be a map"),
  });
}

/** Absent: an empty list. */
export function list<Item extends z.ZodType>(item: Item) {
  return z.array(item, "must be a list").default([]);
}
