import { expect, test } from "vitest";
import { adaptedSchema, isObjectSchema } from "../../../src/platform/lib/tool-schema.ts";
import { threadMs } from "../../support/held.ts";

const CLAUDE = /^[a-zA-Z0-9_.-]{1,64}$/;

function many<T>(count: number, each: (nth: number) => T): T[] {
  return Array.from({ length: count }, (_, nth) => each(nth));
}

function object(names: readonly string[]): Record<string, unknown> {
  return { type: "object", properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])) };
}

test("each argument has its own new name, and gets its name back", () => {
  const names = ["a b", "a:b", "a b 2", "a_b_3", "日付", "月", "$filter"];
  const { parameters, renaming } = adaptedSchema(object(names), { allowed: CLAUDE });
  const others = Object.keys(parameters.properties as object);
  expect(others).toEqual(["a_b", "a_b_2", "a_b_2_2", "a_b_3", "argument", "argument_2", "_filter"]);
  const call = Object.fromEntries(names.map((name) => [name, { [name]: name }]));
  expect(renaming?.forTool(renaming.forProvider(call))).toEqual(call);
});

const ITSELF = { allOf: many(3, () => ({ $ref: "#/$defs/a" })) };
const HOSTILE: [string, Record<string, unknown>][] = [
  ["refers to itself", { $ref: "#" }],
  ["refers to itself at many places", { $ref: "#/$defs/a", $defs: { a: ITSELF } }],
  [
    "refers to a large one at many places",
    { $defs: { a: object(many(2000, String)) }, allOf: many(2000, () => ({ $ref: "#/$defs/a" })) },
  ],
  ["has very many arguments", object(many(20_000, (nth) => `日付${nth}`))],
  ["has very many alternatives", { anyOf: many(20_000, (nth) => object([`p${nth}`])) }],
];

test.each(HOSTILE)("a schema that %s takes no long time", (_name, schema) => {
  const began_ms = threadMs();
  isObjectSchema(schema);
  const { parameters } = adaptedSchema(schema, { allowed: CLAUDE });
  expect(parameters).toBeTypeOf("object");
  expect(threadMs() - began_ms).toBeLessThan(5_000);
});
