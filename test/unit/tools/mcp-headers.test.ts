import { expect, it } from "vitest";
import { argumentHeaders, readHeaders } from "../../../src/agents/tools/mcp-headers.ts";
import { threadMs } from "../../support/held.ts";

const schema = (properties: unknown) => ({ type: "object", properties });
const region = { type: "string", "x-mcp-header": "Region" };

it("arguments that request a header get one, also nested ones; null and missing ones get none", () => {
  const wanted = argumentHeaders(
    schema({ region, at: schema({ berth: { type: "integer", "x-mcp-header": "Berth" } }), note: { type: "string" } }),
  );
  expect(readHeaders(wanted ?? [], { region: "north", at: { berth: 7 }, note: "n" })).toEqual({
    "Mcp-Param-Region": "north",
    "Mcp-Param-Berth": "7",
  });
  expect(readHeaders(wanted ?? [], { region: null })).toEqual({});
});

it.each([
  ["line breaks, so that no header can be added", "a\r\nAuthorization: b"],
  ["other alphabets", "Zürich"],
  ["spaces at an end", " a"],
  ["nothing", ""],
  ["what looks encoded", "=?base64?YQ==?="],
])("a value with %s is sent as base64", (_name, value) => {
  const [sent] = Object.values(readHeaders(argumentHeaders(schema({ region })) ?? [], { region: value }));
  expect(sent).toBe(`=?base64?${Buffer.from(value).toString("base64")}?=`);
});

it.each([
  ["no name", schema({ a: { type: "string", "x-mcp-header": "" } })],
  ["a name with a line break", schema({ a: { type: "string", "x-mcp-header": "A\r\nB" } })],
  ["a name that two arguments have", schema({ a: region, b: { type: "string", "x-mcp-header": "REGION" } })],
  ["an object", schema({ a: { type: "object", "x-mcp-header": "A" } })],
  ["a list's items", schema({ a: { type: "array", items: region } })],
  ["a choice", schema({ a: { anyOf: [region] } })],
  ["the arguments themselves", { ...schema({}), "x-mcp-header": "A" }],
])("a tool that requests a header with %s is omitted", (_name, given) => {
  expect(argumentHeaders(given)).toBeNull();
});

it("10,000 headers of one tool are read within two seconds", () => {
  const many = Object.fromEntries(
    Array.from({ length: 10_000 }, (_, n) => [`a${n}`, { type: "string", "x-mcp-header": `H${n}` }]),
  );
  const began_ms = threadMs();
  expect(argumentHeaders(schema(many))).toHaveLength(10_000);
  const took_ms = Math.round(threadMs() - began_ms);
  console.log(`10,000 headers of a tool: ${took_ms} ms`);
  expect(took_ms).toBeLessThan(2_000);
});
