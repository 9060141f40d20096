import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { secretNamesQuery } from "../api/queries.ts";
import { Button } from "../ui/basics.tsx";
import { fieldsOf, TextField } from "../ui/fields.tsx";
import { SelectField } from "../ui/select.tsx";
import type { Inject, SecretUse } from "./draft.ts";
import { SecretForm } from "./secret-form.tsx";

const INJECTS: readonly (readonly [Inject, string])[] = [
  ["bearer", "Bearer token"],
  ["basic", "Password (basic)"],
  ["header", "Header"],
  ["query", "Query parameter"],
  ["hmac", "Signature of the body (HMAC)"],
];
/** The field beside the secret. */
const NAME_OF: Record<Inject, { label: string; placeholder: string; required: boolean } | null> = {
  bearer: null,
  basic: { label: "User name", placeholder: "May be empty", required: false },
  header: { label: "Header", placeholder: "X-Api-Key", required: true },
  query: { label: "Parameter", placeholder: "api_key", required: true },
  hmac: { label: "Header of the signature", placeholder: "X-Signature", required: true },
};

interface SecretUseProps {
  param: string;
  use: SecretUse;
  /** The default host. Without it, the person must enter hosts. */
  own_host?: string;
  /** The default methods. */
  methods: string;
  onChange: (use: SecretUse) => void;
  onRemove: () => void;
}

/** The secret of a tool, how the tool sends it, and to which hosts. */
export function SecretUseFields({ param, use, own_host, methods, onChange, onRemove }: SecretUseProps) {
  const name = NAME_OF[use.inject];
  const field = fieldsOf(use, (changes) => onChange({ ...use, ...changes }));
  return (
    <fieldset className="grid items-start gap-3 rounded-lg border border-line p-3 sm:grid-cols-2">
      <legend className="px-1 text-sm text-muted">Secret</legend>
      <SecretChoice label="Secret" none="Choose a secret" required {...field("secret", `${param}.secret`)} />
      <SelectField
        label="Sent as"
        value={use.inject}
        options={INJECTS}
        onValue={(inject) => onChange({ ...use, inject, name: "" })}
      />
      {name !== null && (
        <TextField
          label={name.label}
          {...field("name", `${param}.inject`)}
          required={name.required}
          placeholder={name.placeholder}
        />
      )}
      <TextField
        label="Only to these hosts"
        {...field("hosts", `${param}.hosts`)}
        required={own_host === undefined}
        placeholder={own_host ?? "api.example.com"}
      />
      <TextField label="Paths" {...field("paths", `${param}.paths`)} placeholder="all, or a pattern such as /v1/*" />
      <TextField
        label="Only with these methods"
        param={`${param}.methods`}
        value={use.methods}
        onValue={(text) => onChange({ ...use, methods: text.toUpperCase() })}
        placeholder={methods}
      />
      <div className="flex items-end self-end">
        <Button kind="quiet" icon="trash" onClick={onRemove}>
          Remove secret
        </Button>
      </div>
    </fieldset>
  );
}

interface SecretChoiceProps {
  label: string;
  none: string;
  required?: boolean;
  param: string;
  value: string;
  onValue: (value: string) => void;
}

/** One of the user's secrets, by name, or a new one. A hint says if the chosen secret does not exist. */
export function SecretChoice({ label, none, required = false, param, value, onValue }: SecretChoiceProps) {
  const [making, setMaking] = useState(false);
  const { data: secrets } = useQuery(secretNamesQuery);
  const names = secrets?.names ?? [];
  const missing = value !== "" && secrets?.complete === true && !names.includes(value);
  const options = [...(value === "" || names.includes(value) ? [] : [value]), ...names];
  const hint = (
    <>
      {missing && "This secret does not exist. "}
      <button type="button" className="link" onClick={() => setMaking(true)}>
        New secret
      </button>
    </>
  );
  return (
    <>
      <SelectField
        label={label}
        param={param}
        required={required}
        value={value}
        options={[["", none], ...options.map((name) => [name, name] as const)]}
        onValue={onValue}
        hint={hint}
      />
      {making && <SecretForm secret={null} onSaved={onValue} onClose={() => setMaking(false)} />}
    </>
  );
}
