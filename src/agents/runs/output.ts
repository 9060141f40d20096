import type { ResponseFormat } from "../../api/contract/completions.ts";
import { paramOf } from "../../api/contract/validation.ts";
import { jsonText } from "../../gateway/models/structured-output.ts";
import { jsonOrUndefined } from "../../platform/lib/json.ts";
import { findValueFault, type Schema, toStrictSchema } from "../../platform/lib/value-schema.ts";
import type { EngineInput, RunConfig } from "./transcript.ts";

/** What a run's answer must be: JSON by the agent's output_schema, or by the response_format of a call of the agent as a model. Pure. */
export interface OutputRule {
  /** For the model's provider. */
  response_format: ResponseFormat;
  /** The first fault of a JSON value; null: it conforms. */
  findFault(value: unknown): string | null;
}

/** The final answer as JSON, or why it is none that conforms. */
export type OutputReading = { json: unknown; fault: null } | { fault: string };

const ANY_OBJECT: Schema = { type: "object" };

/** Null: the answer is text. */
export function findOutputRule(config: Pick<RunConfig, "output_schema">, input: EngineInput): OutputRule | null {
  const { output_schema: own } = config;
  if (own !== null) return { response_format: toResponseFormat(own), findFault: (value) => faultOf(own, value) };
  const asked = input.response_format;
  if (asked === undefined || asked.type === "text") return null;
  const schema = (asked.type === "json_schema" ? asked.json_schema.schema : null) ?? ANY_OBJECT;
  return { response_format: asked, findFault: (value) => faultOf(schema, value) };
}

/** The final answer of a run, by its rule. */
export function readOutput(rule: OutputRule, text: string): OutputReading {
  const json = jsonOrUndefined(jsonText(text));
  if (json === undefined) return { fault: "it is not JSON" };
  const fault = rule.findFault(json);
  return fault === null ? { json, fault } : { fault };
}

/** With strict mode, if providers have one for the schema. Otherwise the gateway checks the answer, and has it repaired once. */
function toResponseFormat(schema: Schema): ResponseFormat {
  const strict = toStrictSchema(schema);
  return {
    type: "json_schema",
    json_schema: { name: "output", schema: { ...(strict ?? schema) }, strict: strict !== null },
  };
}

function faultOf(schema: Schema, value: unknown): string | null {
  const fault = findValueFault(schema, value);
  return fault === null ? null : `${paramOf(["output", ...fault.path])} ${fault.message}`;
}
