import { words } from "../format.ts";
import { objectOf, objectText, wrongJson } from "../json.ts";
import { AreaField, TextField, Toggle } from "../ui/fields.tsx";
import { JsonField } from "../ui/json-field.tsx";
import { SelectField } from "../ui/select.tsx";

/** The input of a run: fields drawn from the agent's input_schema, or one field for JSON. */

/** What is typed: a text for each field of the schema, or the whole input as JSON. */
export interface InputDraft {
  fields: Record<string, string>;
  json: string;
  as_json: boolean;
}

type Schema = Record<string, unknown>;
type Kind = "text" | "number" | "boolean" | "choice" | "json";
interface InputField {
  name: string;
  label: string;
  hint: string | undefined;
  kind: Kind;
  is_required: boolean;
  schema: Schema;
}

function kindOf({ type, enum: choices }: Schema): Kind {
  if (Array.isArray(choices)) return choices.every((choice) => typeof choice === "string") ? "choice" : "json";
  const types = [type].flat().filter((each) => each !== "null");
  if (types.length !== 1) return "json";
  if (types[0] === "number" || types[0] === "integer") return "number";
  return types[0] === "string" ? "text" : types[0] === "boolean" ? "boolean" : "json";
}

const textOr = (value: unknown, other: string) => (typeof value === "string" && value !== "" ? value : other);

/** The fields of a schema; empty: its input is typed as JSON. */
export function inputFields(schema: Schema | null): InputField[] {
  const { properties, required } = schema ?? {};
  if (typeof properties !== "object" || properties === null) return [];
  const names = Array.isArray(required) ? required : [];
  return Object.entries(properties).map(([name, of]) => {
    const field = (typeof of === "object" && of !== null ? of : {}) as Schema;
    return {
      name,
      label: textOr(field.title, words(name)),
      hint: textOr(field.description, "") || undefined,
      kind: kindOf(field),
      is_required: names.includes(name),
      schema: field,
    };
  });
}

const fieldText = (value: unknown, kind: Kind): string =>
  value === undefined ? "" : kind === "json" ? JSON.stringify(value, null, 2) : String(value ?? "");

/** The form of an input; null: what the schema proposes. An input that its fields cannot show is typed as JSON. */
export function inputDraft(schema: Schema | null, input: Record<string, unknown> | null): InputDraft {
  const fields = inputFields(schema);
  const other = Object.keys(input ?? {}).some((name) => fields.every((field) => field.name !== name));
  const texts = fields.map(({ name, kind, schema: { default: usual } }) => {
    return [name, fieldText(input === null ? usual : input[name], kind)] as const;
  });
  return { fields: Object.fromEntries(texts), json: objectText(input), as_json: fields.length === 0 || other };
}

/** The typed input; null: none. */
export function inputOf(schema: Schema | null, { fields: typed, json, as_json }: InputDraft) {
  if (as_json) return objectOf(json);
  const entries = inputFields(schema).flatMap(({ name, kind, is_required, schema: { type } }) => {
    const text = typed[name] ?? "";
    if (text !== "") return [[name, typedValue(text, kind)] as const];
    if (!is_required) return [];
    if (kind === "boolean") return [[name, false] as const];
    return [[name, [type].flat().includes("null") ? null : text] as const];
  });
  return entries.length === 0 && schema === null ? null : Object.fromEntries<unknown>(entries);
}

function typedValue(text: string, kind: Kind): unknown {
  if (kind === "number") return Number(text);
  if (kind === "boolean") return text === "true";
  return kind === "json" ? JSON.parse(text) : text;
}

interface Props {
  schema: Schema | null;
  draft: InputDraft;
  onDraft: (draft: InputDraft) => void;
}

export function InputFields({ schema, draft, onDraft }: Props) {
  const fields = inputFields(schema);
  if (draft.as_json) {
    return (
      <JsonField
        label="Input as JSON"
        param="input"
        rows={5}
        value={draft.json}
        onValue={(json) => onDraft({ ...draft, json })}
        placeholder={'{"city": "Oslo"}'}
        hint="The prompts use it as {{input}} or {{input.city}}. Without such a placeholder it is added to the task."
      />
    );
  }
  const toJson = () => onDraft({ ...draft, as_json: true, json: objectText(inputOf(schema, draft)) });
  const is_json = fields.every(({ name, kind }) => kind !== "json" || wrongJson(draft.fields[name] ?? "") === null);
  return (
    <>
      {fields.map((field) => (
        <OneField
          key={field.name}
          field={field}
          value={draft.fields[field.name] ?? ""}
          onValue={(value) => onDraft({ ...draft, fields: { ...draft.fields, [field.name]: value } })}
        />
      ))}
      {is_json && (
        <button type="button" className="link text-sm" onClick={toJson}>
          Write the input as JSON
        </button>
      )}
    </>
  );
}

/** A required field has a star, which screen readers skip: they hear that the field is required. */
const STAR = "[&>label]:after:text-bad [&>label]:after:content-['_*'_/_'']";
const YES_NO = [
  ["true", "yes"],
  ["false", "no"],
] as const;

function OneField({ field, value, onValue }: { field: InputField; value: string; onValue: (value: string) => void }) {
  const { name, label, hint, kind, is_required, schema } = field;
  const placeholder = Array.isArray(schema.examples) ? fieldText(schema.examples[0], kind) : undefined;
  const has_null = [schema.type].flat().includes("null");
  const common = {
    label,
    param: `input.${name}`,
    value,
    onValue,
    className: is_required ? STAR : "",
    required: is_required && !has_null,
    ...(hint !== undefined && { hint }),
    ...(placeholder !== undefined && { placeholder }),
  };
  switch (kind) {
    case "boolean":
      if (is_required && !has_null) {
        const set = (checked: boolean) => onValue(String(checked));
        return (
          <Toggle label={label} checked={value === "true"} onChecked={set} {...(hint !== undefined && { hint })} />
        );
      }
      return <SelectField {...common} options={[["", "Not given"], ...YES_NO]} />;
    case "choice": {
      const choices = (schema.enum as string[]).map((choice) => [choice, choice] as const);
      return <SelectField {...common} options={[["", is_required ? "Choose" : "Not given"], ...choices]} />;
    }
    case "number": {
      const { minimum, maximum, type } = schema;
      const bounds = { min: minimum as number | undefined, max: maximum as number | undefined };
      const step = [type].flat().includes("integer") ? 1 : "any";
      return <TextField {...common} {...bounds} type="number" step={step} inputMode="decimal" />;
    }
    case "json":
      return <AreaField {...common} mono wrong={wrongJson(value)} hint={hint ?? "As JSON."} />;
    case "text":
      return <TextField {...common} {...(schema.format === "date" && { type: "date" })} />;
  }
}
