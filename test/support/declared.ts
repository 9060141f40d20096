import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";

/** openapi.json as the tests read it. */
export interface ApiDocument {
  paths: Record<string, Record<string, Operation>>;
  tags: { name: string; description: string }[];
  webhooks: Record<string, { post: Operation }>;
  components: { schemas: Record<string, unknown>; securitySchemes: Record<string, unknown> };
}
export interface Operation {
  operationId: string;
  summary?: string;
  parameters?: Parameter[];
  tags: string[];
  requestBody?: { required?: boolean; content: Record<string, { schema: Schema; example?: unknown }> };
  responses: Record<
    string,
    { content?: Record<string, { schema: Schema; example?: unknown }>; headers?: Record<string, object> }
  >;
  security?: Record<string, string[]>[];
}
export interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  required?: boolean;
  schema?: Schema;
}
/** A JSON schema. */
export type Schema = Record<string, unknown>;

export async function readDocument(url: string): Promise<ApiDocument> {
  return (await (await fetch(`${url}/openapi.json`)).json()) as ApiDocument;
}

/** Compares answers with what the document declares for them. */
export function createDeclared(document: ApiDocument) {
  const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema(document, "api");
  const part = (...keys: string[]) => keys.map((key) => key.replaceAll("~", "~0").replaceAll("/", "~1")).join("/");
  const schemaOf = (answer: AnswerPlace, type: string): ValidateFunction | undefined => {
    const { method, path, status } = answer;
    const pointer = part("paths", path, method, "responses", String(status), "content", type, "schema");
    return ajv.getSchema(encodeURI(`api#/${pointer}`));
  };
  return {
    /** The fault of a value in the place of the document that `keys` lead to, null if it has the schema there. */
    faultIn(keys: string[], value: unknown): string | null {
      const validate = ajv.getSchema(encodeURI(`api#/${part(...keys)}`));
      return validate === undefined || validate(value) ? null : ajv.errorsText(validate.errors);
    },
    /** The fault of an answer, null if it is declared. `text`: the body. */
    faultOf(answer: AnswerPlace, type: string, text: string): string | null {
      const declared = document.paths[answer.path]?.[answer.method]?.responses[String(answer.status)];
      if (declared === undefined) return `status ${answer.status} is not declared`;
      const [media = ""] = type.split(";");
      if (declared.content === undefined) return text === "" ? null : "a body, and none is declared";
      if (declared.content[media] === undefined) return `the type ${media} is not declared`;
      const validate = schemaOf(answer, media);
      if (validate === undefined) return null;
      for (const value of media === "text/event-stream"
        ? dataOf(text)
        : [media === "application/json" ? parsed(text) : text]) {
        if (!validate(value)) return `${ajv.errorsText(validate.errors)} in ${JSON.stringify(value).slice(0, 300)}`;
      }
      return null;
    },
  };
}

interface AnswerPlace {
  method: string;
  path: string;
  status: number;
}

/** The data of each event, without the end marker of chat completions. */
export function dataOf(text: string): unknown[] {
  const lines = text.split("\n").filter((line) => line.startsWith("data: "));
  return lines.map((line) => line.slice(6)).flatMap((data) => (data === "[DONE]" ? [] : [parsed(data)]));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
