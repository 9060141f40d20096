import type { ReactNode } from "react";
import { Button } from "../ui/basics.tsx";
import { AreaField, TextField, Toggle } from "../ui/fields.tsx";
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
          <CallsField tool="mcp" usual={20} value={draft.mcp_calls} onValue={(mcp_calls) => change({ mcp_calls })} />
          <FailureField tool="mcp" value={draft.mcp_failure} onValue={(mcp_failure) => change({ mcp_failure })} />
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

interface CallsProps {
  tool: "web_fetch" | "send_webhook" | "mcp";
  /** The default. */
  usual: number;
  value: string;
  onValue: (value: string) => void;
}
function CallsField({ tool, usual, value, onValue }: CallsProps) {
  return (
    <TextField
      label="Most calls per run"
      param={`tools_config.${tool}.max_calls`}
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

interface FailureProps {
  tool: CallsProps["tool"];
  value: OnFailure;
  onValue: (value: OnFailure) => void;
}
function FailureField({ tool, value, onValue }: FailureProps) {
  return (
    <SelectField
      label="If a call fails"
      param={`tools_config.${tool}.on_tool_failure`}
      value={value}
      options={ON_FAILURE}
      onValue={onValue}
      hint="A run that goes on can end as succeeded with errors."
    />
  );
}

function FetchFields({ draft, change }: Omit<Props, "agent_id">) {
  return (
    <>
      <TextField
        label="Only these hosts"
        param="tools_config.web_fetch.hosts"
        value={draft.fetch_hosts}
        onValue={(fetch_hosts) => change({ fetch_hosts })}
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
        <CallsField
          tool="web_fetch"
          usual={20}
          value={draft.fetch_calls}
          onValue={(fetch_calls) => change({ fetch_calls })}
        />
        <FailureField
          tool="web_fetch"
          value={draft.fetch_failure}
          onValue={(fetch_failure) => change({ fetch_failure })}
        />
        <PolicyField
          param="tools_config.web_fetch.permission_policy"
          value={draft.fetch_policy}
          onValue={(fetch_policy) => change({ fetch_policy })}
        />
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
  return (
    <>
      <AreaField
        label="Addresses"
        param="tools_config.send_webhook.urls"
        rows={2}
        value={draft.webhook_urls}
        onValue={(webhook_urls) => change({ webhook_urls })}
        placeholder="https://example.com/hook"
        hint="Exact addresses, one per line. Without any, each webhook fails."
      />
      <div className="grid gap-4 sm:grid-cols-2">
        <SecretChoice
          label="Signed with"
          none="the agent's own key"
          param="tools_config.send_webhook.secret"
          value={draft.webhook_secret}
          onValue={(webhook_secret) => change({ webhook_secret })}
        />
        <CallsField
          tool="send_webhook"
          usual={5}
          value={draft.webhook_calls}
          onValue={(webhook_calls) => change({ webhook_calls })}
        />
        <FailureField
          tool="send_webhook"
          value={draft.webhook_failure}
          onValue={(webhook_failure) => change({ webhook_failure })}
        />
        <PolicyField
          param="tools_config.send_webhook.permission_policy"
          value={draft.webhook_policy}
          onValue={(webhook_policy) => change({ webhook_policy })}
        />
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
