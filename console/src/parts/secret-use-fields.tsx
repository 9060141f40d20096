import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { secretNamesQuery } from "../api/queries.ts";
import { Button } from "../ui/basics.tsx";
import { SelectField, TextField } from "../ui/fields.tsx";
import type { Inject, SecretUse } from "./draft.ts";

const INJECTS: readonly (readonly [Inject, string])[] = [
  ["bearer", "as a bearer token"],
  ["basic", "as a password (basic)"],
  ["header", "in a header"],
  ["query", "in a query parameter"],
  ["hmac", "to sign the body (HMAC)"],
];
/** What has to be named besides the secret. */
const NAME_OF: Record<Inject, { label: string; placeholder: string; required: boolean } | null> = {
  bearer: null,
  basic: { label: "User name", placeholder: "may be empty", required: false },
  header: { label: "Header", placeholder: "X-Api-Key", required: true },
  query: { label: "Parameter", placeholder: "api_key", required: true },
  hmac: { label: "Header of the signature", placeholder: "X-Signature", required: true },
};

interface SecretUseProps {
  param: string;
  use: SecretUse;
  /** What is meant where no host is given; else one has to be. */
  own_host?: string;
  /** What is meant where no method is given. */
  methods: string;
  onChange: (use: SecretUse) => void;
  onRemove: () => void;
}

/** Which secret a tool uses, how it is sent, and where to. */
export function SecretUseFields({ param, use, own_host, methods, onChange, onRemove }: SecretUseProps) {
  const name = NAME_OF[use.inject];
  return (
    <fieldset className="grid items-start gap-3 rounded-lg border border-line p-3 sm:grid-cols-2">
      <legend className="px-1 text-sm text-muted">A secret, and where it is sent</legend>
      <SecretChoice
        label="Secret"
        none="Choose one"
        required
        param={`${param}.secret`}
        value={use.secret}
        onValue={(secret) => onChange({ ...use, secret })}
      />
      <SelectField
        label="Sent"
        value={use.inject}
        options={INJECTS}
        onValue={(inject) => onChange({ ...use, inject, name: "" })}
      />
      {name !== null && (
        <TextField
          label={name.label}
          param={`${param}.inject`}
          required={name.required}
          placeholder={name.placeholder}
          value={use.name}
          onValue={(text) => onChange({ ...use, name: text })}
        />
      )}
      <TextField
        label="To these hosts only"
        param={`${param}.hosts`}
        required={own_host === undefined}
        value={use.hosts}
        onValue={(hosts) => onChange({ ...use, hosts })}
        placeholder={own_host ?? "api.example.com"}
      />
      <TextField
        label="Paths"
        param={`${param}.paths`}
        value={use.paths}
        onValue={(paths) => onChange({ ...use, paths })}
        placeholder="all, or such as /v1/*"
      />
      <TextField
        label="With these methods"
        param={`${param}.methods`}
        value={use.methods}
        onValue={(text) => onChange({ ...use, methods: text.toUpperCase() })}
        placeholder={methods}
      />
      <div className="flex items-end self-end">
        <Button kind="quiet" icon="trash" onClick={onRemove}>
          Do not use it
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

/** One of the user's secrets, by name. One that is chosen and no longer exists is marked as such. */
export function SecretChoice({ label, none, required = false, param, value, onValue }: SecretChoiceProps) {
  const { data: secrets } = useQuery(secretNamesQuery);
  const names = (secrets ?? []).map((secret) => secret.name);
  const gone = value !== "" && secrets !== undefined && !names.includes(value);
  const options = [...(value === "" || names.includes(value) ? [] : [value]), ...names];
  const hint =
    secrets?.length === 0 || gone ? (
      <>
        {gone ? "There is no secret of this name any more: " : "There is none yet: "}
        <Link to="/secrets" target="_blank" className="link">
          store one
        </Link>
        .
      </>
    ) : undefined;
  return (
    <SelectField
      label={label}
      param={param}
      required={required}
      value={value}
      options={[["", none], ...options.map((name) => [name, name] as const)]}
      onValue={onValue}
      {...(hint === undefined ? {} : { hint })}
    />
  );
}
