import type { ReactNode } from "react";
import { Button } from "../ui/basics.tsx";
import { AreaField, fieldsOf, TextField, Toggle } from "../ui/fields.tsx";
import { SelectField } from "../ui/select.tsx";
import { type Draft, NO_SECRET_USE, NO_SERVER, type OnFailure } from "./draft.ts";
import { McpFields } from "./mcp-fields.tsx";
import { PolicyField } from "./policy-field.tsx";
import { SecretChoice, SecretUseFields } from "./secret-use-fields.tsx";

interface Props {
  /** null: a new agent. */
  agent_id: string | null;
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
}

/** The tools of an agent and their secrets. The agent can use no others. A web page cannot add one. */
export function ToolFields({ agent_id, draft, change }: Props) {
  const field = fieldsOf(draft, change);
  return (
    <div className="divide-y divide-line">
      <Tool
        name="Read the web"
        hint="Fetches web pages. The safety layer checks each page before the model sees it."
        enabled={draft.fetch_enabled}
        onEnabled={(fetch_enabled) => change({ fetch_enabled })}
      >
        <FetchFields draft={draft} change={change} />
      </Tool>
      <Tool
        name="Send webhooks"
        hint="Sends signed JSON to the addresses that you enter."
        enabled={draft.webhook_enabled}
        onEnabled={(webhook_enabled) => change({ webhook_enabled })}
      >
        <WebhookFields draft={draft} change={change} />
      </Tool>
      <Tool
        name="Use MCP servers"
        hint="Uses the tools of your MCP servers. The safety layer checks their answers too."
        enabled={draft.mcp_enabled}
        onEnabled={(mcp_enabled) =>
          change({ mcp_enabled, mcp_servers: draft.mcp_servers.length === 0 ? [NO_SERVER] : draft.mcp_servers })
        }
      >
        <McpFields
          agent_id={agent_id}
          servers={draft.mcp_servers}
          onServers={(mcp_servers) => change({ mcp_servers })}
        />
        <div className="grid gap-4 sm:grid-cols-2">
          <CallsField {...field("mcp_calls", "tools_config.mcp.max_calls")} usual={20} />
          <FailureField {...field("mcp_failure", "tools_config.mcp.on_tool_failure")} />
        </div>
      </Tool>
    </div>
  );
}

interface ToolProps {
  name: string;
  hint: string;
  enabled: boolean;
  onEnabled: (enabled: boolean) => void;
  children: ReactNode;
}
function Tool({ name, hint, enabled, onEnabled, children }: ToolProps) {
  return (
    <div className="space-y-4 py-4 first:pt-0 last:pb-0">
      <Toggle label={name} checked={enabled} onChecked={onEnabled} hint={hint} />
      {enabled && (
        <section aria-label={name} className="space-y-4 md:pl-12">
          {children}
        </section>
      )}
    </div>
  );
}

interface FieldProps<Value> {
  param: string;
  value: Value;
  onValue: (value: Value) => void;
}

/** `usual`: the default. */
function CallsField({ usual, param, value, onValue }: FieldProps<string> & { usual: number }) {
  return (
    <TextField
      label="Most calls per run"
      param={param}
      type="number"
      min={1}
      max={1000}
      inputMode="numeric"
      className="sm:max-w-60"
      placeholder={String(usual)}
      value={value}
      onValue={onValue}
    />
  );
}

const ON_FAILURE = [
  ["continue", "The run goes on"],
  ["fail", "The run fails"],
] as const;

function FailureField({ param, value, onValue }: FieldProps<OnFailure>) {
  return (
    <SelectField
      label="If a call fails"
      param={param}
      value={value}
      options={ON_FAILURE}
      onValue={onValue}
      hint="A run that goes on can end as succeeded with errors."
    />
  );
}

function FetchFields({ draft, change }: Omit<Props, "agent_id">) {
  const field = fieldsOf(draft, change);
  return (
    <>
      <TextField
        label="Only these hosts"
        {...field("fetch_hosts", "tools_config.web_fetch.hosts")}
        placeholder="any public host"
        hint="Such as example.com, *.example.org. Separate hosts by commas."
      />
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField
          label="Methods"
          param="tools_config.web_fetch.methods"
          value={draft.fetch_methods}
          onValue={(fetch_methods) => change({ fetch_methods: fetch_methods.toUpperCase() })}
          placeholder="GET"
        />
        <CallsField {...field("fetch_calls", "tools_config.web_fetch.max_calls")} usual={20} />
        <FailureField {...field("fetch_failure", "tools_config.web_fetch.on_tool_failure")} />
        <PolicyField {...field("fetch_policy", "tools_config.web_fetch.permission_policy")} />
      </div>
      <Toggle
        label="Strict safety"
        checked={draft.fetch_strict}
        onChecked={(fetch_strict) => change({ fetch_strict })}
        hint="A page with instructions for the model ends the run. Otherwise the run continues without the instructions."
      />
      {draft.fetch_auth.map((use, place) => (
        <SecretUseFields
          // biome-ignore lint/suspicious/noArrayIndexKey: the entries have no id
          key={place}
          param={`tools_config.web_fetch.auth[${place}]`}
          use={use}
          methods="GET"
          onChange={(changed) => change({ fetch_auth: draft.fetch_auth.with(place, changed) })}
          onRemove={() => change({ fetch_auth: draft.fetch_auth.toSpliced(place, 1) })}
        />
      ))}
      <Button icon="plus" onClick={() => change({ fetch_auth: [...draft.fetch_auth, NO_SECRET_USE] })}>
        Add secret
      </Button>
    </>
  );
}

function WebhookFields({ draft, change }: Omit<Props, "agent_id">) {
  const field = fieldsOf(draft, change);
  return (
    <>
      <AreaField
        label="Addresses"
        {...field("webhook_urls", "tools_config.send_webhook.urls")}
        rows={2}
        placeholder="https://example.com/hook"
        hint="Exact addresses, one per line. Without any, each webhook fails."
      />
      <div className="grid gap-4 sm:grid-cols-2">
        <SecretChoice
          label="Signed with"
          none="the agent's own key"
          {...field("webhook_secret", "tools_config.send_webhook.secret")}
        />
        <CallsField {...field("webhook_calls", "tools_config.send_webhook.max_calls")} usual={5} />
        <FailureField {...field("webhook_failure", "tools_config.send_webhook.on_tool_failure")} />
        <PolicyField {...field("webhook_policy", "tools_config.send_webhook.permission_policy")} />
      </div>
      <Toggle
        label="Strict safety for answers"
        checked={draft.webhook_strict}
        onChecked={(webhook_strict) => change({ webhook_strict })}
        hint="An answer with instructions for the model ends the run."
      />
    </>
  );
}
