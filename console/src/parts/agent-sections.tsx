import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { AGENT_LIMITS, APPROVAL_HOURS, REASONING_EFFORTS } from "../../../src/kernel/constants.ts";
import { capital, count } from "../format.ts";
import { wrongObject } from "../json.ts";
import { fieldsOf, TextField, Toggle } from "../ui/fields.tsx";
import { JsonField } from "../ui/json-field.tsx";
import { SelectField } from "../ui/select.tsx";
import { DeliveryFields } from "./delivery-fields.tsx";
import type { Draft, LimitName, ModelSettingName } from "./draft.ts";
import { inputFields } from "./input-fields.tsx";
import { ToolFields } from "./tool-fields.tsx";

/** The settings of an agent that unfold. Each says folded what is set in it. */

interface Props {
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
}

export function AgentSections({ agent_id, draft, change }: Props & { agent_id: string | null }) {
  return (
    <>
      <Section
        title="Tools"
        note="The agent can use only these tools. No web page can add one."
        summary={toolsInWords(draft)}
      >
        <ToolFields agent_id={agent_id} draft={draft} change={change} />
      </Section>
      <AskingFields draft={draft} change={change} />
      <Section
        title="Deliveries"
        note="Each run's result is sent to these addresses. The answers of chats and tests are not."
        summary={draft.deliveries.length === 0 ? "none" : draft.deliveries.map(({ to }) => to || "…").join(", ")}
      >
        <DeliveryFields deliveries={draft.deliveries} onDeliveries={(deliveries) => change({ deliveries })} />
      </Section>
      <SchemaFields draft={draft} change={change} />
      <ModelSettingFields draft={draft} change={change} />
      <LimitFields draft={draft} change={change} />
      <OtherFields draft={draft} change={change} />
    </>
  );
}

interface SectionProps {
  title: string;
  /** What is set in it. */
  summary: string;
  note?: ReactNode;
  children: ReactNode;
}
function Section({ title, summary, note, children }: SectionProps) {
  return (
    <details className="min-w-0 rounded-xl border border-line bg-panel">
      <summary className="rounded-xl px-4 py-3 hover:bg-sunken/60">
        <h2 className="inline font-semibold">{title}</h2>
        <span className="ml-2 inline-block text-sm wrap-anywhere text-muted first-letter:uppercase">{summary}</span>
      </summary>
      <div className="px-4 pt-0.5 pb-4">
        {note !== undefined && <p className="mb-3 text-sm text-muted">{note}</p>}
        {children}
      </div>
    </details>
  );
}

/** "2: read the web, send webhooks; one asks before acting" */
function toolsInWords(draft: Draft): string {
  const server_policies = draft.mcp_servers.flatMap(({ policy, tool_policies }) => [
    policy,
    ...tool_policies.map((each) => each.policy),
  ]);
  const tools = [
    { name: "read the web", is_on: draft.fetch_enabled, policies: [draft.fetch_policy] },
    { name: "send webhooks", is_on: draft.webhook_enabled, policies: [draft.webhook_policy] },
    { name: "MCP servers", is_on: draft.mcp_enabled, policies: server_policies },
  ].filter(({ is_on }) => is_on);
  if (tools.length === 0) return "None";
  const asking = tools.filter(({ policies }) => policies.some((policy) => policy !== "always_allow")).length;
  const asks = asking === 0 ? "none asks" : asking === 1 ? "one asks" : `${asking} ask`;
  return `${tools.length}: ${tools.map(({ name }) => name).join(", ")}; ${asks} before acting`;
}

function SchemaFields({ draft, change }: Props) {
  const field = fieldsOf(draft, change);
  return (
    <Section
      title="Input and output"
      summary={schemasInWords(draft)}
      note="For agents that a program or a form calls with values. Both can stay empty."
    >
      <div className="space-y-4">
        <JsonField
          label="Input schema"
          {...field("input_schema")}
          placeholder={'{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'}
          hint="JSON Schema of an object. “Run now” then asks for its fields, and a wrong input starts no run."
        />
        <JsonField
          label="Output schema"
          {...field("output_schema")}
          placeholder={'{"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}'}
          hint="JSON Schema of an object. The agent's answer is then JSON that conforms to it, or the run fails."
        />
      </div>
    </Section>
  );
}

const MODEL_NUMBERS: [Exclude<ModelSettingName, "reasoning_effort">, string, string][] = [
  ["temperature", "Temperature", "From 0 (always alike) to 2 (varied). Many models that reason take none."],
  ["top_p", "Top p", "From 0 to 1. Change this or the temperature, not both."],
  ["max_output_tokens", "Most output tokens per call", "Reasoning counts. A longer answer is cut off."],
];

function ModelSettingFields({ draft, change }: Props) {
  const { model_settings } = draft;
  const field = fieldsOf(model_settings, (changes) => change({ model_settings: { ...model_settings, ...changes } }));
  return (
    <Section
      title="Model settings"
      summary={modelSettingsInWords(draft)}
      note="An empty field leaves the choice to the model."
    >
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <SelectField
          label="Reasoning effort"
          {...field("reasoning_effort", "model_settings.reasoning_effort")}
          options={[["", "The model's default"], ...REASONING_EFFORTS.map((each) => [each, each] as const)]}
          hint="How long the model thinks before it answers."
        />
        {MODEL_NUMBERS.map(([name, label, hint]) => (
          <TextField
            key={name}
            label={label}
            {...field(name, `model_settings.${name}`)}
            type="number"
            step="any"
            inputMode="decimal"
            placeholder="the model's default"
            hint={hint}
          />
        ))}
      </div>
    </Section>
  );
}

/** How the agent asks its owner. Which calls ask is set for each tool. */
function AskingFields({ draft, change }: Props) {
  const field = fieldsOf(draft, change);
  return (
    <Section
      summary={askingInWords(draft)}
      title="Decisions"
      note={
        <>
          A run that asks waits at no cost.{" "}
          <Link to="/notices" className="link">
            Notices
          </Link>{" "}
          can tell you by mail.
        </>
      }
    >
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <TextField
          label="Hours to decide"
          {...field("approval_hours")}
          type="number"
          min={1}
          inputMode="numeric"
          placeholder={String(APPROVAL_HOURS)}
          hint="After that, a call counts as rejected."
        />
        <SelectField
          label="When a run has no tokens left"
          {...field("on_budget")}
          options={[
            ["fail", "It fails"],
            ["ask", "It waits and asks you"],
          ]}
          hint="At a limit of tokens below, or without balance. A waiting run goes on when you approve it, raise the limit or top up."
        />
      </div>
    </Section>
  );
}

const LIMITS: [LimitName, string, string][] = [
  ["max_cost_tokens_per_run", "Tokens per run", "no limit"],
  ["max_cost_tokens_per_month", "Tokens per month", "no limit"],
  ["max_steps", "Steps per run", String(AGENT_LIMITS.max_steps)],
  ["max_run_seconds", "Seconds per run", String(AGENT_LIMITS.max_run_seconds)],
  [
    "max_consecutive_failures",
    "Failures in a row before the schedule pauses",
    String(AGENT_LIMITS.max_consecutive_failures),
  ],
];

function LimitFields({ draft, change }: Props) {
  const { limits } = draft;
  const field = fieldsOf(limits, (changes) => change({ limits: { ...limits, ...changes } }));
  return (
    <Section title="Limits" summary={limitsInWords(draft)} note="The agent makes no call that could exceed a limit.">
      <div className="grid items-end gap-4 sm:grid-cols-2">
        {LIMITS.map(([name, label, usual]) => (
          <TextField
            key={name}
            label={label}
            {...field(name, `limits.${name}`)}
            type="number"
            min={1}
            inputMode="numeric"
            placeholder={usual}
          />
        ))}
      </div>
    </Section>
  );
}

/** The names of the fields in a typed schema. */
function fieldsIn(schema: string): string {
  if (schema.trim() === "") return "any";
  if (wrongObject(schema) !== null) return "not JSON yet";
  const names = inputFields(JSON.parse(schema)).map(({ name }) => name);
  return names.length === 0 ? "as JSON" : names.join(", ");
}
const schemasInWords = ({ input_schema, output_schema }: Draft) =>
  `Input: ${fieldsIn(input_schema)}; output: ${fieldsIn(output_schema)}`;

function modelSettingsInWords({ model_settings }: Draft): string {
  const { reasoning_effort } = model_settings;
  const numbers = MODEL_NUMBERS.filter(([name]) => model_settings[name] !== "").map(
    ([name, label]) => `${label.toLowerCase()} ${model_settings[name]}`,
  );
  const set = [...(reasoning_effort === "" ? [] : [`${reasoning_effort} reasoning effort`]), ...numbers];
  return set.length === 0 ? "The model's defaults" : capital(set.join(", "));
}

const askingInWords = ({ approval_hours, on_budget }: Draft) =>
  `${count(Number(approval_hours || APPROVAL_HOURS), "hour")} to decide; without tokens a run ${on_budget === "ask" ? "waits" : "fails"}`;

function limitsInWords({ limits }: Draft): string {
  const set = LIMITS.filter(([name, , usual]) => limits[name] !== "" && limits[name] !== usual).map(
    ([name, label]) => `${label.toLowerCase()}: ${limits[name]}`,
  );
  return set.length === 0 ? "As usual" : capital(set.join(", "));
}

function OtherFields({ draft, change }: Props) {
  const field = fieldsOf(draft, change);
  return (
    <Section title="More" summary={draft.is_active ? "Enabled" : "Disabled"}>
      <div className="space-y-4">
        <TextField
          label="Description"
          {...field("description")}
          maxLength={2000}
          hint="Shown in lists. The model does not see it."
        />
        <Toggle
          label="Enabled"
          checked={draft.is_active}
          onChecked={(is_active) => change({ is_active })}
          hint="A disabled agent does not run and does not chat."
        />
        <SelectField
          label="Tools of the calling program"
          {...field("client_tools")}
          options={[
            ["ignore", "Ignore them"],
            ["pass", "Offer them to the model"],
          ]}
          hint="For programs that use this agent as a model, such as coding assistants. The program runs its own tools."
        />
      </div>
    </Section>
  );
}
