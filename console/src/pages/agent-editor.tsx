import { useMutation, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useBlocker, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useRef, useState } from "react";
import { AGENT_LIMITS, APPROVAL_HOURS, REASONING_EFFORTS } from "../../../src/kernel/constants.ts";
import { call } from "../api/client.ts";
import { type Agent, agentQuery, modelsQuery, queryClient, stale } from "../api/queries.ts";
import { keepOpenWhile } from "../api/session.ts";
import { DeliveryFields } from "../parts/delivery-fields.tsx";
import {
  bodyOf,
  changesOf,
  type Draft,
  draftOf,
  EMPTY_DRAFT,
  type LimitName,
  type ModelSettingName,
} from "../parts/draft.ts";
import { TemplateChoice } from "../parts/template-choice.tsx";
import { ToolFields } from "../parts/tool-fields.tsx";
import { Button, buttonClass, Callout, Card, PageHeader } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { AreaField, FormErrorProvider, sending, TextField, Toggle } from "../ui/fields.tsx";
import { JsonField } from "../ui/json-field.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { SelectField } from "../ui/select.tsx";

export function NewAgentPage() {
  return <Editor agent={null} />;
}

export function EditAgentPage() {
  const { id } = useParams({ from: "/signed-in/agents/$id/edit" });
  return <SavedAgent key={id} id={id} />;
}

/** Shows the field with this name in the API, or the first of its parts, and gives it the focus. */
function showField(param: string | undefined): void {
  if (param === undefined) return;
  const name = CSS.escape(param);
  const field = document.querySelector(`[data-param="${name}"], [data-param^="${name}."], [data-param^="${name}["]`);
  for (let around = field?.closest("details"); around != null; around = around.parentElement?.closest("details"))
    around.open = true;
  const control = field?.querySelector<HTMLElement>("input, textarea, button");
  control?.scrollIntoView({ block: "center" });
  control?.focus({ preventScroll: true });
}

/** The editor of the version that was opened. Another tab or program may save a newer one meanwhile. */
function SavedAgent({ id }: { id: string }) {
  const { data: newest } = useSuspenseQuery(agentQuery(id));
  const { field } = useSearch({ from: "/signed-in/agents/$id/edit" });
  const [opened, setOpened] = useState(newest);
  useEffect(() => showField(field), [field]);
  const is_old = newest.version > opened.version;
  return <Editor key={opened.version} agent={opened} {...(is_old && { openNewest: () => setOpened(newest) })} />;
}

/** Changes fields of the draft. */
export type Change = (changes: Partial<Draft>) => void;

interface EditorProps {
  /** null: a new agent. */
  agent: Agent | null;
  /** Replaces the form by a newer version of the agent; absent: there is none. */
  openNewest?: () => void;
}
function Editor({ agent, openNewest }: EditorProps) {
  const [draft, setDraft] = useState<Draft>(agent === null ? EMPTY_DRAFT : draftOf(agent));
  const navigate = useNavigate();
  const saved_as = useRef(draft);
  const changed = useCallback(() => JSON.stringify(saved_as.current) !== JSON.stringify(draft), [draft]);
  const change: Change = (changes) => setDraft((old) => ({ ...old, ...changes }));
  const save = useMutation({
    mutationFn: async () => {
      if (agent === null) return call("POST /api/v1/agents", { body: bodyOf(draft) });
      if (openNewest === undefined) await checkNewest(agent, bodyOf(draft));
      return call("PUT /api/v1/agents/{id}", { params: { id: agent.id }, body: changesOf(agent, draft) });
    },
    onSuccess: async (saved) => {
      saved_as.current = draft;
      queryClient.setQueryData(agentQuery(saved.id).queryKey, saved);
      confirmSaved(agent === null ? "Agent created" : "Agent saved");
      await navigate({ to: "/agents/$id", params: { id: saved.id } });
      await stale("agents");
    },
  });
  return (
    <FormErrorProvider value={save.error}>
      <PageHeader title={agent === null ? "New agent" : `Edit ${agent.name}`} />
      {agent === null && <TemplateChoice />}
      <form {...sending(save)} className="max-w-3xl space-y-4">
        <NameFields draft={draft} change={change} />
        <InstructionFields draft={draft} change={change} />
        <ModelFields draft={draft} change={change} />
        <ModelSettingFields draft={draft} change={change} />
        <ToolFields agent_id={agent?.id ?? null} draft={draft} change={change} />
        <AskingFields draft={draft} change={change} />
        <Card title="Deliveries" note="Each run's result is sent to these addresses. The answers of chats are not.">
          <DeliveryFields deliveries={draft.deliveries} onDeliveries={(deliveries) => change({ deliveries })} />
        </Card>
        <SchemaFields draft={draft} change={change} />
        <div id="limits" className="scroll-mt-16">
          <LimitFields draft={draft} change={change} />
        </div>
        <div className="sticky bottom-0 -mx-2 space-y-3 bg-page/90 px-2 py-3 backdrop-blur">
          {openNewest !== undefined && <ChangedElsewhere changed={changed} openNewest={openNewest} />}
          {save.error !== null && <ProblemNotice error={save.error} />}
          <div className="flex justify-end gap-2">
            <Link
              to={agent === null ? "/agents" : "/agents/$id"}
              params={agent === null ? {} : { id: agent.id }}
              className={buttonClass()}
            >
              Cancel
            </Link>
            <Button type="submit" kind="primary" busy={save.isPending}>
              {agent === null ? "Create agent" : "Save agent"}
            </Button>
          </div>
        </div>
      </form>
      <LeaveGuard changed={changed} />
    </FormErrorProvider>
  );
}

/**
 * Rejects if the agent was changed after it was opened, because a save would replace changes that the person has not seen.
 * The same fields are the person's own: the answer to an earlier save was lost.
 */
async function checkNewest({ id, version }: Agent, body: ReturnType<typeof bodyOf>): Promise<void> {
  const newest = await queryClient.fetchQuery({ ...agentQuery(id), staleTime: 0, retry: false });
  if (newest.version <= version || JSON.stringify(bodyOf(draftOf(newest))) === JSON.stringify(body)) return;
  throw new Error("Nothing was saved yet. To replace the other changes, save again.");
}

/** Says that somebody else saved the agent meanwhile. Without changes here, the newer version is opened at once. */
function ChangedElsewhere({ changed, openNewest }: { changed: () => boolean; openNewest: () => void }) {
  const has_changes = changed();
  useEffect(() => {
    if (!has_changes) openNewest();
  });
  if (!has_changes) return null;
  return (
    <Callout tone="warn" icon="warning">
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <p className="min-w-60 flex-1">
          This agent was changed elsewhere after you opened it. If you save, only the fields that you changed replace
          those changes.
        </p>
        <Button onClick={openNewest}>Discard my changes</Button>
      </div>
    </Callout>
  );
}

/** Asks before unsaved changes are lost. */
function LeaveGuard({ changed }: { changed: () => boolean }) {
  useEffect(() => keepOpenWhile(changed), [changed]);
  const leaving = useBlocker({ shouldBlockFn: changed, enableBeforeUnload: changed, withResolver: true });
  if (leaving.status !== "blocked") return null;
  return (
    <Confirm
      title="Leave without saving?"
      action="Discard changes"
      keep="Keep editing"
      onConfirm={async () => leaving.proceed()}
      onClose={() => leaving.reset()}
    >
      You would lose your changes.
    </Confirm>
  );
}

function NameFields({ draft, change }: { draft: Draft; change: Change }) {
  return (
    <Card title="Name and state">
      <div className="space-y-4">
        <TextField
          label="Name"
          param="name"
          required
          maxLength={200}
          value={draft.name}
          onValue={(name) => change({ name })}
          placeholder="Morning reader"
        />
        <TextField
          label="Description"
          param="description"
          maxLength={2000}
          value={draft.description}
          onValue={(description) => change({ description })}
          hint="Shown in lists. The model does not see it."
        />
        <Toggle
          label="Enabled"
          checked={draft.is_active}
          onChecked={(is_active) => change({ is_active })}
          hint="A disabled agent does not run and does not chat."
        />
      </div>
    </Card>
  );
}

function InstructionFields({ draft, change }: { draft: Draft; change: Change }) {
  return (
    <Card title="Instructions">
      <div className="space-y-4">
        <AreaField
          label="Role"
          param="system_prompt"
          value={draft.system_prompt}
          onValue={(system_prompt) => change({ system_prompt })}
          placeholder="You read pages for a busy person. Be brief."
          hint="The system prompt. The model reads it first in every run and chat."
        />
        <AreaField
          label="Task of each run"
          param="run_prompt"
          value={draft.run_prompt}
          onValue={(run_prompt) => change({ run_prompt })}
          placeholder="Read https://example.com/news and tell me what matters."
          hint="“Run now” and a schedule need it. A chat does not."
        />
        <Placeholders />
      </div>
    </Card>
  );
}

const PLACEHOLDERS: [string, string][] = [
  ["{{input.city}}", "the value “city” of the run's input; {{input}} is all of it"],
  ["{{date}}", "the day of the run, such as 2026-03-30, in the schedule's time zone"],
  ["{{weekday}}", "Monday to Sunday"],
  ["{{now}}", "date and time, such as 2026-03-30T08:30+02:00"],
  ["{{last_output}}", "what the run before this one answered; “none” in the first run"],
  ["{{last_run_at}}", "when that run ended; “never” in the first run"],
  ["{{schedule.name}}", "the name of the schedule"],
];

function Placeholders() {
  return (
    <details className="text-sm">
      <summary className="w-fit text-muted hover:text-ink">Placeholders for the role and the task</summary>
      <dl className="mt-2 grid gap-x-4 gap-y-1 sm:grid-cols-[auto_1fr]">
        {PLACEHOLDERS.map(([name, meaning]) => (
          <div key={name} className="contents">
            <dt className="mt-1 sm:mt-0">
              <code>{name}</code>
            </dt>
            <dd className="text-muted">{meaning}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

function SchemaFields({ draft, change }: { draft: Draft; change: Change }) {
  return (
    <Card title="Input and output" note="For agents that a program or a form calls with values. Both can stay empty.">
      <div className="space-y-4">
        <JsonField
          label="Input schema"
          param="input_schema"
          value={draft.input_schema}
          onValue={(input_schema) => change({ input_schema })}
          placeholder={'{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'}
          hint="JSON Schema of an object. “Run now” then asks for its fields, and a wrong input starts no run."
        />
        <JsonField
          label="Output schema"
          param="output_schema"
          value={draft.output_schema}
          onValue={(output_schema) => change({ output_schema })}
          placeholder={'{"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}'}
          hint="JSON Schema of an object. The agent's answer is then JSON that conforms to it, or the run fails."
        />
      </div>
    </Card>
  );
}

function ModelFields({ draft, change }: { draft: Draft; change: Change }) {
  const { data: models, error, refetch } = useQuery(modelsQuery);
  const offered = (models ?? []).map(({ id, name, input_rate, cached_input_rate, output_rate, trial_eligible }) => {
    const cached = cached_input_rate === input_rate ? "" : `, ${cached_input_rate} cached`;
    const rates = `${input_rate} in${cached}, ${output_rate} out`;
    return [id, `${name} · ${rates}${trial_eligible ? "" : " · not in the trial"}`] as const;
  });
  // The agent's model may be no longer on offer, or the list may not be there.
  const is_other = draft.model_id !== "" && !offered.some(([id]) => id === draft.model_id);
  const options = is_other ? [[draft.model_id, draft.model_id] as const, ...offered] : offered;
  return (
    <Card title="Model">
      <div className="space-y-4">
        <Toggle
          label="Choose the model for each run"
          checked={draft.auto_route}
          onChecked={(auto_route) => change({ auto_route })}
          hint="Purser chooses the cheapest model that suits the task. The run shows the choice and its reason."
        />
        {!draft.auto_route && (
          <SelectField
            label="Model"
            param="model_id"
            required
            value={draft.model_id}
            onValue={(model_id) => change({ model_id })}
            options={[["", "Choose a model"], ...options]}
            hint={
              is_other && models !== undefined
                ? "This model is no longer on offer. Choose another one."
                : "The rates are billed tokens for each input and output token."
            }
          />
        )}
        {error !== null && <ProblemNotice error={error} onRetry={() => void refetch()} />}
        <SelectField
          label="Tools of the calling program"
          param="client_tools"
          value={draft.client_tools}
          onValue={(client_tools) => change({ client_tools: client_tools as Draft["client_tools"] })}
          options={[
            ["ignore", "Ignore them"],
            ["pass", "Offer them to the model"],
          ]}
          hint="For programs that use this agent as a model, such as coding assistants. The program runs its own tools."
        />
      </div>
    </Card>
  );
}

const MODEL_NUMBERS: [Exclude<ModelSettingName, "reasoning_effort">, string, string][] = [
  ["temperature", "Temperature", "From 0 (always alike) to 2 (varied). Many models that reason take none."],
  ["top_p", "Top p", "From 0 to 1. Change this or the temperature, not both."],
  ["max_output_tokens", "Most output tokens per call", "Reasoning counts. A longer answer is cut off."],
];

function ModelSettingFields({ draft, change }: { draft: Draft; change: Change }) {
  const set = (name: ModelSettingName, value: string) =>
    change({ model_settings: { ...draft.model_settings, [name]: value } });
  return (
    <Card title="Model settings" note="An empty field leaves the choice to the model.">
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <SelectField
          label="Reasoning effort"
          param="model_settings.reasoning_effort"
          value={draft.model_settings.reasoning_effort}
          onValue={(value) => set("reasoning_effort", value)}
          options={[["", "The model's default"], ...REASONING_EFFORTS.map((each) => [each, each] as const)]}
          hint="How long the model thinks before it answers."
        />
        {MODEL_NUMBERS.map(([name, label, hint]) => (
          <TextField
            key={name}
            label={label}
            param={`model_settings.${name}`}
            type="number"
            step="any"
            inputMode="decimal"
            placeholder="the model's default"
            hint={hint}
            value={draft.model_settings[name]}
            onValue={(value) => set(name, value)}
          />
        ))}
      </div>
    </Card>
  );
}

/** How the agent asks its owner. Which calls ask is set for each tool. */
function AskingFields({ draft, change }: { draft: Draft; change: Change }) {
  return (
    <Card
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
          param="approval_hours"
          type="number"
          min={1}
          inputMode="numeric"
          placeholder={String(APPROVAL_HOURS)}
          value={draft.approval_hours}
          onValue={(approval_hours) => change({ approval_hours })}
          hint="After that, a call counts as rejected."
        />
        <SelectField
          label="When a run has no tokens left"
          param="on_budget"
          value={draft.on_budget}
          onValue={(on_budget) => change({ on_budget: on_budget as Draft["on_budget"] })}
          options={[
            ["fail", "It fails"],
            ["ask", "It waits and asks you"],
          ]}
          hint="At a limit of tokens below, or without balance. A waiting run goes on when you approve it, raise the limit or top up."
        />
      </div>
    </Card>
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

function LimitFields({ draft, change }: { draft: Draft; change: Change }) {
  return (
    <Card title="Limits" note="The agent makes no call that could exceed a limit.">
      <div className="grid items-end gap-4 sm:grid-cols-2">
        {LIMITS.map(([name, label, usual]) => (
          <TextField
            key={name}
            label={label}
            param={`limits.${name}`}
            type="number"
            min={1}
            inputMode="numeric"
            placeholder={usual}
            value={draft.limits[name]}
            onValue={(value) => change({ limits: { ...draft.limits, [name]: value } })}
          />
        ))}
      </div>
    </Card>
  );
}
