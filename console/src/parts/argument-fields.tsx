import { wrongJson } from "../json.ts";
import { AreaField, TextField, Toggle } from "../ui/fields.tsx";
import { JsonField } from "../ui/json-field.tsx";

/** The arguments of a call, shown and changed: a field for each, or all of them as JSON. */

type Arguments = Record<string, unknown>;
type Kind = "text" | "number" | "boolean" | "json";

/** The typed text of each argument, or of all of them as JSON. */
export interface ArgumentDraft {
  fields: Record<string, string>;
  json: string;
  as_json: boolean;
}

function kindOf(value: unknown): Kind {
  if (typeof value === "string") return "text";
  return typeof value === "number" || typeof value === "boolean" ? (typeof value as Kind) : "json";
}

const typed = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

export function argumentDraft(given: Arguments): ArgumentDraft {
  const fields = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, typed(value)]));
  return { fields, json: JSON.stringify(given, null, 2), as_json: Object.keys(given).length === 0 };
}

/** The typed arguments. Each keeps the type that it had. */
export function argumentsOf(given: Arguments, { fields, json, as_json }: ArgumentDraft): Arguments {
  if (as_json) return JSON.parse(json) as Arguments;
  const entries = Object.entries(given).map(([name, value]) => {
    const text = fields[name] ?? "";
    return [name, kindOf(value) === "text" ? text : JSON.parse(text)] as const;
  });
  return Object.fromEntries(entries);
}

interface Props {
  given: Arguments;
  draft: ArgumentDraft;
  onDraft: (draft: ArgumentDraft) => void;
}

export function ArgumentFields({ given, draft, onDraft }: Props) {
  if (draft.as_json) {
    return (
      <JsonField
        label="Arguments as JSON"
        param="arguments"
        required
        rows={8}
        value={draft.json}
        onValue={(json) => onDraft({ ...draft, json })}
      />
    );
  }
  const set = (name: string, text: string) => onDraft({ ...draft, fields: { ...draft.fields, [name]: text } });
  const is_json = Object.entries(given).every(
    ([name, value]) => kindOf(value) === "text" || wrongJson(draft.fields[name] ?? "") === null,
  );
  const toJson = () => onDraft({ ...draft, as_json: true, json: JSON.stringify(argumentsOf(given, draft), null, 2) });
  return (
    <>
      {Object.entries(given).map(([name, value]) => (
        <OneField
          key={name}
          name={name}
          kind={kindOf(value)}
          text={draft.fields[name] ?? ""}
          onText={(text) => set(name, text)}
        />
      ))}
      {is_json && (
        <button type="button" className="link text-sm" onClick={toJson}>
          Write the arguments as JSON
        </button>
      )}
    </>
  );
}

interface FieldProps {
  name: string;
  kind: Kind;
  text: string;
  onText: (text: string) => void;
}
function OneField({ name, kind, text, onText }: FieldProps) {
  const common = { label: name, param: `arguments.${name}`, value: text, onValue: onText };
  switch (kind) {
    case "text":
      return <AreaField {...common} rows={1} />;
    case "number":
      return <TextField {...common} type="number" step="any" inputMode="decimal" required />;
    case "boolean":
      return <Toggle label={common.label} checked={text === "true"} onChecked={(checked) => onText(String(checked))} />;
    case "json":
      return <AreaField {...common} mono required wrong={wrongJson(text)} hint="As JSON." />;
  }
}
