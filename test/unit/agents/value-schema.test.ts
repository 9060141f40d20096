import { describe, expect, it, test } from "vitest";
import { checkInput, checkSchema } from "../../../src/agents/definitions/agent-config.ts";
import { PurserError } from "../../../src/kernel/errors.ts";
import { findSchemaFault, type Schema, toStrictSchema } from "../../../src/platform/lib/value-schema.ts";
import { threadMs } from "../../support/held.ts";

// contract 6.14: schemas of users

const object = (properties: object, more: object = {}): Schema => ({ type: "object", properties, ...more });
const times = <T>(count: number, make: (nth: number) => T): T[] => Array.from({ length: count }, (_, nth) => make(nth));
const doubling = Object.fromEntries(
  times(30, (nth) => [`d${nth}`, { allOf: times(2, () => ({ $ref: `#/$defs/d${nth + 1}` })) }]),
);
const nested = (levels: number): object =>
  levels === 0 ? {} : { type: "object", properties: { a: nested(levels - 1) } };

function faultOf(work: () => void): unknown {
  try {
    work();
    return null;
  } catch (error) {
    if (!(error instanceof PurserError)) throw error;
    return [error.shape.status, error.shape.code, error.shape.param];
  }
}

describe("a schema is accepted", () => {
  test.each<[string, Schema]>([
    [
      "of everyday fields",
      object({ city: { type: "string", description: "where" }, days: { type: "integer", default: 3 } }),
    ],
    ["with $schema, as zod writes it", { $schema: "https://json-schema.org/draft/2020-12/schema", ...object({}) }],
    ["with draft 7's name in $schema", { $schema: "http://json-schema.org/draft-07/schema#", ...object({}) }],
    [
      "with parts that are used twice",
      { ...object({ a: { $ref: "#/$defs/p" }, b: { $ref: "#/$defs/p" } }), $defs: { p: { type: "string" } } },
    ],
    [
      "with patterns and formats",
      object({ id: { type: "string", pattern: "^[A-Z]{2}-\\d{4}$" }, on: { type: "string", format: "date" } }),
    ],
    ["with alternatives", object({ a: { anyOf: [{ type: "string" }, { type: "null" }] }, b: { enum: ["x", "y"] } })],
    [
      "with the notes of other tools",
      object({
        a: { oneOf: [{ type: "string" }], discriminator: { propertyName: "kind" }, "x-order": 1 },
        b: { type: "string", examples: ["x"], readOnly: true, example: "x" },
      }),
    ],
    ["of 200 fields", object(Object.fromEntries(times(200, (nth) => [`f${nth}`, { type: "string" }])))],
  ])("%s", (_what, schema) => {
    expect(findSchemaFault(schema)).toBeNull();
  });
});

describe("a schema is rejected in less than a second", () => {
  test.each<[string, Schema, string]>([
    ["of a text", { type: "string" }, "type"],
    ["of no type", { properties: {} }, "type"],
    ["with an unknown type", object({ a: { type: "strin" } }), "properties.a.type"],
    ["that refers to itself", object({ child: { $ref: "#" } }), "properties.child.$ref"],
    [
      "whose part refers to itself",
      { ...object({ a: { $ref: "#/$defs/n" } }), $defs: { n: { items: { $ref: "#/$defs/n" } } } },
      "properties.a.$ref.items.$ref",
    ],
    ["that refers to the network", object({ a: { $ref: "http://127.0.0.1:9/schema.json" } }), "properties.a.$ref"],
    ["that refers to a file", object({ a: { $ref: "file:///etc/passwd" } }), "properties.a.$ref"],
    ["that refers to nothing", object({ a: { $ref: "#/$defs/none" } }), "properties.a.$ref"],
    ["with a broken reference", object({ a: { $ref: "#/%E0%A4%A" } }), "properties.a.$ref"],
    ["with an address of its own", object({ a: { $id: "http://a.example/b" } }), "properties.a.$id"],
    ["with a dynamic reference", object({ a: { $dynamicRef: "#a" } }), "properties.a.$dynamicRef"],
    ["of 1 MB", object({ a: { description: "x".repeat(1_000_000) } }), ""],
    ["of 1,000 fields", object(Object.fromEntries(times(1_000, (nth) => [`f${nth}`, {}]))), ""],
    ["of 30 levels", object({ a: nested(30) }), expect.stringMatching(/^properties\.a\./) as unknown as string],
    [
      "whose references double 30 times",
      { ...object({ a: { $ref: "#/$defs/d0" } }), $defs: { ...doubling, d30: {} } },
      expect.any(String) as unknown as string,
    ],
    ["with a pattern that looks ahead", object({ a: { pattern: "^(?=.*x).*$" } }), "properties.a.pattern"],
    ["with a pattern that refers to a group", object({ a: { pattern: "^(.)\\1$" } }), "properties.a.pattern"],
    [
      "with a pattern of many steps",
      object({ a: { pattern: "(?:(?:a{1,100}){1,10}b){1,100}" } }),
      "properties.a.pattern",
    ],
    [
      "with patterns of many steps together",
      object(Object.fromEntries(times(20, (nth) => [`f${nth}`, { pattern: "a{500}" }]))),
      "",
    ],
    ["with a broken pattern", object({ a: { pattern: "(" } }), "properties.a.pattern"],
    ["with a broken pattern of names", object({}, { patternProperties: { "(": {} } }), "patternProperties.("],
    [
      "with many lists of different items",
      object(Object.fromEntries(times(60, (nth) => [`f${nth}`, { type: "array", uniqueItems: true }]))),
      "",
    ],
  ])("%s", (_what, schema, at) => {
    const began_ms = threadMs();
    const found = faultOf(() => checkSchema(schema, "input_schema"));
    expect(threadMs() - began_ms).toBeLessThan(1_000);
    const param =
      typeof at === "string"
        ? at === ""
          ? "input_schema"
          : `input_schema.${at}`
        : expect.stringMatching(/^input_schema/);
    expect(found).toEqual([400, "invalid_value", param]);
  });
});

describe("an input", () => {
  const schema = object(
    {
      city: { type: "string", minLength: 2, pattern: "^[A-Z]" },
      unit: { enum: ["celsius", "kelvin"] },
      stops: { type: "array", items: object({ name: { type: "string" } }, { required: ["name"] }) },
      when: { anyOf: [{ type: "string" }, { type: "integer" }] },
    },
    { required: ["city"], additionalProperties: false },
  );

  test.each<[Record<string, unknown> | null, string | null, string | null]>([
    [{ city: "Oslo" }, null, null],
    [{ city: "Oslo", unit: "kelvin", stops: [{ name: "a" }], when: 3 }, null, null],
    [null, "missing_field", "input.city"],
    [{}, "missing_field", "input.city"],
    [{ city: 5 }, "invalid_value", "input.city"],
    [{ city: "oslo" }, "invalid_value", "input.city"],
    [{ city: "Oslo", unit: "fahrenheit" }, "invalid_value", "input.unit"],
    [{ city: "Oslo", stops: [{ name: "a" }, {}] }, "missing_field", "input.stops[1].name"],
    [{ city: "Oslo", stops: [{ name: 1 }] }, "invalid_value", "input.stops[0].name"],
    [{ city: "Oslo", when: true }, "invalid_value", "input.when"],
    [{ city: "Oslo", town: "Oslo" }, "unknown_field", "input.town"],
  ])("%j is judged by the schema: %s at %s", (input, code, param) => {
    expect(faultOf(() => checkInput(schema, input))).toEqual(code === null ? null : [400, code, param]);
  });

  it("of more values than its schema can be compared with in a second is rejected", () => {
    const items = { anyOf: times(400, (nth) => ({ const: nth })) };
    const schema = object({ list: { type: "array", items } });
    expect(faultOf(() => checkInput(schema, { list: Array(1_000).fill(399) }))).toBeNull();
    expect(faultOf(() => checkInput(schema, { list: Array(13_000).fill(399) }))).toEqual([
      400,
      "invalid_value",
      "input",
    ]);
  });

  it("is matched with a pattern that would take a backtracking engine for ever in less than a second", () => {
    const slow = object({ a: { type: "string", pattern: "^(?:a+)+$" } });
    expect(findSchemaFault(slow)).toBeNull();
    const began_ms = threadMs();
    expect(faultOf(() => checkInput(slow, { a: `${"a".repeat(60_000)}b` }))).toEqual([400, "invalid_value", "input.a"]);
    expect(threadMs() - began_ms).toBeLessThan(1_000);
  });
});

describe("a provider's strict mode gets", () => {
  const text = { type: "string" };
  test.each<[string, Schema, Schema | null]>([
    [
      "a schema whose fields are all required, without further ones",
      object({ a: text, b: object({ c: text }, { required: ["c"] }) }, { required: ["b", "a"] }),
      object(
        { a: text, b: object({ c: text }, { required: ["c"], additionalProperties: false }) },
        { required: ["a", "b"], additionalProperties: false },
      ),
    ],
    [
      "lists, alternatives and references",
      {
        ...object({ a: { type: "array", items: { anyOf: [text, { $ref: "#/$defs/d" }] } } }, { required: ["a"] }),
        $defs: { d: { type: "null" } },
      },
      expect.anything() as unknown as Schema,
    ],
    ["no schema with an optional field", object({ a: text }), null],
    [
      "no schema with an optional field in a part",
      object({ a: { anyOf: [object({ b: text }), text] } }, { required: ["a"] }),
      null,
    ],
    ["no schema with further fields", object({ a: text }, { required: ["a"], additionalProperties: text }), null],
    ["no schema with a keyword that some reject", object({ a: { ...text, minLength: 2 } }, { required: ["a"] }), null],
  ])("%s", (_what, schema, strict) => {
    expect(toStrictSchema(schema)).toEqual(strict);
  });
});
