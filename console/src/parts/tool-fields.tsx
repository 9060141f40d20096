import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { secretNamesQuery } from "../api/queries.ts";
import { Button, Card } from "../ui/basics.tsx";
import { AreaField, SelectField, TextField, Toggle } from "../ui/fields.tsx";
import { type Draft, type Inject, type McpServer, NO_SECRET_USE, type SecretUse } from "./draft.ts";

interface Props {
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
}

/** What the agent may do, and with which secrets. Only what stands here is ever allowed: no page can add to it. */
export function ToolFields({ draft, change }: Props) {
  return (
    <Card title="Tools" note="Only what you allow here is possible; nothing that a page says adds to it.">
      <div className="divide-y divide-line">
        <div className="space-y-4 pb-4">
          <Toggle
            label="Read the web"
            checked={draft.fetch_enabled}
            onChecked={(fetch_enabled) => change({ fetch_enabled })}
            hint="Fetches pages. What they say passes the safety layer before the model sees it."
          />
          {draft.fetch_enabled && <FetchFields draft={draft} change={change} />}
        </div>
        <div className="space-y-4 py-4">
          <Toggle
            label="Send webhooks"
            checked={draft.webhook_enabled}
            onChecked={(webhook_enabled) => change({ webhook_enabled })}
            hint="Posts signed JSON to addresses that you name."
          />
          {draft.webhook_enabled && (
            <div className="space-y-4 md:pl-12">
              <AreaField
                label="Addresses"
                param="tools_config.send_webhook.urls"
                rows={2}
                value={draft.webhook_urls}
                onValue={(webhook_urls) => change({ webhook_urls })}
                placeholder="https://example.com/hook"
                hint="Exact ones, one a line."
              />
              <SecretChoice
                label="Signed with"
                none="a key of this agent"
                param="tools_config.send_webhook.secret"
                value={draft.webhook_secret}
                onValue={(webhook_secret) => change({ webhook_secret })}
              />
            </div>
          )}
        </div>
        <div className="space-y-4 pt-4">
          <Toggle
            label="Use MCP servers"
            checked={draft.mcp_enabled}
            onChecked={(mcp_enabled) => change({ mcp_enabled })}
            hint="Tools that a server of your choice offers."
          />
          {draft.mcp_enabled && <McpFields draft={draft} change={change} />}
        </div>
      </div>
    </Card>
  );
}

function FetchFields({ draft, change }: Props) {
  return (
    <div className="space-y-4 md:pl-12">
      <TextField
        label="Only these hosts"
        param="tools_config.web_fetch.hosts"
        value={draft.fetch_hosts}
        onValue={(fetch_hosts) => change({ fetch_hosts })}
        placeholder="any public host"
        hint="Such as example.com, *.example.org. Parted by commas."
      />
      <TextField
        label="Methods"
        param="tools_config.web_fetch.methods"
        value={draft.fetch_methods}
        onValue={(fetch_methods) => change({ fetch_methods: fetch_methods.toUpperCase() })}
        placeholder="GET"
      />
      <Toggle
        label="Strict safety"
        checked={draft.fetch_strict}
        onChecked={(fetch_strict) => change({ fetch_strict })}
        hint="Takes out more of what might be an order, at the price of some harmless text."
      />
      {draft.fetch_auth.map((use, place) => (
        <SecretUseFields
          // biome-ignore lint/suspicious/noArrayIndexKey: the entries have no other identity
          key={place}
          param={`tools_config.web_fetch.auth[${place}]`}
          use={use}
          onChange={(changed) => change({ fetch_auth: draft.fetch_auth.with(place, changed) })}
          onRemove={() => change({ fetch_auth: draft.fetch_auth.toSpliced(place, 1) })}
        />
      ))}
      <Button icon="plus" onClick={() => change({ fetch_auth: [...draft.fetch_auth, NO_SECRET_USE] })}>
        Use a secret
      </Button>
    </div>
  );
}

const INJECTS: readonly (readonly [Inject, string])[] = [
  ["bearer", "as a bearer token"],
  ["basic", "as a password (basic)"],
  ["header", "in a header"],
  ["query", "in a query parameter"],
  ["hmac", "to sign the body (HMAC)"],
];
const NAME_OF: Record<Inject, string | null> = {
  bearer: null,
  basic: "User name",
  header: "Header",
  query: "Parameter",
  hmac: "Header",
};

interface SecretUseProps {
  param: string;
  use: SecretUse;
  onChange: (use: SecretUse) => void;
  onRemove: () => void;
}
function SecretUseFields({ param, use, onChange, onRemove }: SecretUseProps) {
  const name = NAME_OF[use.inject];
  return (
    <fieldset className="grid gap-3 rounded-lg border border-line p-3 sm:grid-cols-2">
      <legend className="px-1 text-sm text-muted">A secret, and where it is sent</legend>
      <SecretChoice
        label="Secret"
        none="Choose one"
        param={`${param}.secret`}
        value={use.secret}
        onValue={(secret) => onChange({ ...use, secret })}
      />
      <SelectField
        label="Sent"
        value={use.inject}
        options={INJECTS}
        onValue={(inject) => onChange({ ...use, inject })}
      />
      {name !== null && (
        <TextField
          label={name}
          param={`${param}.inject`}
          required
          value={use.name}
          onValue={(text) => onChange({ ...use, name: text })}
        />
      )}
      <TextField
        label="To these hosts only"
        param={`${param}.hosts`}
        required
        value={use.hosts}
        onValue={(hosts) => onChange({ ...use, hosts })}
        placeholder="api.example.com"
      />
      <TextField
        label="Paths"
        param={`${param}.paths`}
        value={use.paths}
        onValue={(paths) => onChange({ ...use, paths })}
        placeholder="all, or such as /v1/*"
      />
      <TextField
        label="Methods"
        param={`${param}.methods`}
        value={use.methods}
        onValue={(methods) => onChange({ ...use, methods: methods.toUpperCase() })}
        placeholder="GET"
      />
      <div className="flex items-end">
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
  param: string;
  value: string;
  onValue: (value: string) => void;
}
function SecretChoice({ label, none, param, value, onValue }: SecretChoiceProps) {
  const { data: secrets } = useQuery(secretNamesQuery);
  const names = [...new Set([...(secrets ?? []).map((secret) => secret.name), ...(value === "" ? [] : [value])])];
  const hint =
    secrets?.length === 0 ? (
      <>
        There is none yet:{" "}
        <Link to="/secrets" className="link">
          store one
        </Link>
        .
      </>
    ) : undefined;
  return (
    <SelectField
      label={label}
      param={param}
      value={value}
      options={[["", none], ...names.map((name) => [name, name] as const)]}
      onValue={onValue}
      {...(hint === undefined ? {} : { hint })}
    />
  );
}

function McpFields({ draft, change }: Props) {
  const set = (place: number, server: McpServer) => change({ mcp_servers: draft.mcp_servers.with(place, server) });
  return (
    <div className="space-y-4 md:pl-12">
      {draft.mcp_servers.map((server, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the entries have no other identity
        <fieldset key={place} className="grid gap-3 rounded-lg border border-line p-3 sm:grid-cols-2">
          <legend className="px-1 text-sm text-muted">Server {place + 1}</legend>
          <TextField
            label="Name"
            param={`tools_config.mcp.servers[${place}].name`}
            required
            value={server.name}
            onValue={(name) => set(place, { ...server, name })}
          />
          <TextField
            label="Address"
            param={`tools_config.mcp.servers[${place}].url`}
            type="url"
            required
            value={server.url}
            onValue={(url) => set(place, { ...server, url })}
          />
          <TextField
            label="Only these tools"
            param={`tools_config.mcp.servers[${place}].tools`}
            value={server.tools}
            onValue={(tools) => set(place, { ...server, tools })}
            placeholder="all"
          />
          <div className="flex items-end gap-2">
            {server.auth === null && (
              <Button icon="plus" onClick={() => set(place, { ...server, auth: NO_SECRET_USE })}>
                Use a secret
              </Button>
            )}
            <Button
              kind="quiet"
              icon="trash"
              onClick={() => change({ mcp_servers: draft.mcp_servers.toSpliced(place, 1) })}
            >
              Remove
            </Button>
          </div>
          {server.auth !== null && (
            <div className="sm:col-span-2">
              <SecretUseFields
                param={`tools_config.mcp.servers[${place}].auth`}
                use={server.auth}
                onChange={(auth) => set(place, { ...server, auth })}
                onRemove={() => set(place, { ...server, auth: null })}
              />
            </div>
          )}
        </fieldset>
      ))}
      <Button
        icon="plus"
        onClick={() => change({ mcp_servers: [...draft.mcp_servers, { name: "", url: "", tools: "", auth: null }] })}
      >
        Add a server
      </Button>
    </div>
  );
}
