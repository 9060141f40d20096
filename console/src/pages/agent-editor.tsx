import { useMutation, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useBlocker, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useRef, useState } from "react";
import { call } from "../api/client.ts";
import { type Agent, agentQuery, modelsQuery, queryClient, stale } from "../api/queries.ts";
import { keepOpenWhile } from "../api/session.ts";
import { changedFields } from "../format.ts";
import { AgentSections } from "../parts/agent-sections.tsx";
import { bodyOf, changesOf, type Draft, draftOf, EMPTY_DRAFT } from "../parts/draft.ts";
import { TemplateChoice } from "../parts/template-choice.tsx";
import { startTest, type TestInput, TestPanel } from "../parts/test-panel.tsx";
import { versionLink } from "../parts/versions.tsx";
import { AgentWhen, NewAgentWhen } from "../parts/when-field.tsx";
import { Button, buttonClass, Callout, Card, PageHeader } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { AreaField, FormErrorProvider, fieldsOf, sending, TextField, unfoldAround } from "../ui/fields.tsx";
import { ModelPicker } from "../ui/picker.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { confirmSaved } from "../ui/saved.tsx";

export function NewAgentPage() {
  return <Editor agent={null} test_id={undefined} />;
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
  unfoldAround(field);
  const control = field?.querySelector<HTMLElement>("input, textarea, button");
  control?.scrollIntoView({ block: "center" });
  control?.focus({ preventScroll: true });
}

/** The editor of the version that was opened. Another tab or program may save a newer one meanwhile. */
function SavedAgent({ id }: { id: string }) {
  const { data: newest } = useSuspenseQuery(agentQuery(id));
  const { field, test } = useSearch({ from: "/signed-in/agents/$id/edit" });
  const [opened, setOpened] = useState(newest);
  useEffect(() => showField(field), [field]);
  const is_old = newest.version > opened.version;
  return (
    <Editor
      key={opened.version}
      agent={opened}
      test_id={test}
      {...(is_old && { openNewest: () => setOpened(newest) })}
    />
  );
}

/** Changes fields of the draft. */
type Change = (changes: Partial<Draft>) => void;

interface EditorProps {
  /** null: a new agent. */
  agent: Agent | null;
  /** The test that is shown. */
  test_id: string | undefined;
  /** Replaces the form by a newer version of the agent; absent: there is none. */
  openNewest?: () => void;
}
function Editor({ agent, test_id, openNewest }: EditorProps) {
  const [draft, setDraft] = useState<Draft>(agent === null ? EMPTY_DRAFT : draftOf(agent));
  const navigate = useNavigate();
  const [template, setTemplate] = useState<string | null>(null);
  const form = useRef<HTMLFormElement>(null);
  const saved_as = useRef(draft);
  const changed = useCallback(() => JSON.stringify(saved_as.current) !== JSON.stringify(draft), [draft]);
  const change: Change = (changes) => setDraft((old) => ({ ...old, ...changes }));
  const noteSaved = (saved: Agent) => {
    saved_as.current = draft;
    queryClient.setQueryData(agentQuery(saved.id).queryKey, saved);
  };
  const save = useMutation({
    mutationFn: async () => {
      test.reset();
      if (agent === null) return call("POST /api/v1/agents", { body: bodyOf(draft) });
      if (openNewest === undefined) await checkNewest(agent, bodyOf(draft));
      return call("PUT /api/v1/agents/{id}", { params: { id: agent.id }, body: changesOf(agent, draft) });
    },
    onSuccess: async (saved) => {
      noteSaved(saved);
      const { id, version } = saved;
      if (agent === null) confirmSaved("Agent created");
      else confirmSaved("Agent saved", version === agent.version ? null : <VersionLink id={id} version={version} />);
      await navigate({ to: "/agents/$id", params: { id } });
      await stale("agents");
    },
  });
  const test = useMutation({
    mutationFn: async (asked: TestInput) => {
      save.reset();
      if (agent !== null) return startTest(agent.id, changesOf(agent, draft), asked);
      const saved = await call("POST /api/v1/agents", { body: bodyOf(draft) });
      noteSaved(saved);
      // The agent exists, so its page says why a test does not start, when the person tests again.
      const run = await startTest(saved.id, {}, asked).catch(() => null);
      confirmSaved(run === null ? "Agent created, but the test did not start" : "Agent created");
      await navigate({
        to: "/agents/$id/edit",
        params: { id: saved.id },
        search: run === null ? {} : { test: run.id },
        replace: true,
      });
      await stale("agents");
      return run;
    },
    onSuccess: (run) =>
      agent !== null && run !== null
        ? navigate({ to: ".", search: { test: run.id }, replace: true, resetScroll: false })
        : undefined,
  });
  return (
    <FormErrorProvider value={save.error ?? test.error}>
      <PageHeader
        title={agent === null ? "New agent" : `Edit ${agent.name}`}
        note={
          template === null
            ? undefined
            : `From the template “${template}”. Change what you like, then create the agent.`
        }
      >
        <a href="#test" className={buttonClass("plain", "lg:hidden")}>
          Go to test
        </a>
      </PageHeader>
      {agent === null && template === null && (
        <TemplateChoice
          onChosen={({ name }, filled) => {
            // What the person has typed stays.
            setDraft((old) => ({ ...filled, ...changedFields(EMPTY_DRAFT, old) }));
            setTemplate(name);
          }}
        />
      )}
      <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <form ref={form} {...sending(save)} className="min-w-0 space-y-4">
          <FirstFields agent={agent} draft={draft} change={change} />
          <AgentSections agent_id={agent?.id ?? null} draft={draft} change={change} />
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
        <TestPanel
          agent_id={agent?.id ?? null}
          draft={draft}
          test={test}
          isReady={() => form.current?.reportValidity() === true}
          run_id={test_id}
        />
      </div>
      <LeaveGuard changed={changed} />
    </FormErrorProvider>
  );
}

function VersionLink({ id, version }: { id: string; version: number }) {
  return (
    <Link {...versionLink(id, version)} className="link">
      See what changed
    </Link>
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
          This agent was changed after you opened it. If you save, only the fields that you changed replace those
          changes.
        </p>
        <Button onClick={openNewest}>Discard my changes</Button>
      </div>
    </Callout>
  );
}

/** Asks before unsaved changes are lost. */
function LeaveGuard({ changed }: { changed: () => boolean }) {
  useEffect(() => keepOpenWhile(changed), [changed]);
  const leaving = useBlocker({
    // A test changes only the search part of the address.
    shouldBlockFn: ({ current, next }) => current.pathname !== next.pathname && changed(),
    enableBeforeUnload: changed,
    withResolver: true,
  });
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

/** What every agent needs. */
function FirstFields({ agent, draft, change }: { agent: Agent | null; draft: Draft; change: Change }) {
  const field = fieldsOf(draft, change);
  return (
    <Card>
      <div className="space-y-4">
        <TextField label="Name" {...field("name")} required maxLength={200} placeholder="Morning reader" />
        <AreaField
          label="Instructions"
          {...field("system_prompt")}
          placeholder="You read pages for a busy person. Be brief."
          hint="The system prompt. The model reads it first in every run and chat."
        />
        <AreaField
          label="Task of each run"
          {...field("run_prompt")}
          placeholder="Read https://example.com/news and tell me what matters."
          hint="“Run now” and a schedule need it. A chat does not."
        />
        <Placeholders />
        <ModelField draft={draft} change={change} />
        {agent === null ? (
          <NewAgentWhen when={draft.when} onWhen={(when) => change({ when })} />
        ) : (
          <AgentWhen agent={agent} />
        )}
      </div>
    </Card>
  );
}

function ModelField({ draft, change }: { draft: Draft; change: Change }) {
  const { data: models, error, refetch } = useQuery(modelsQuery);
  const value = draft.auto_route ? "" : draft.model_id;
  const is_gone = value !== "" && models !== undefined && !models.some(({ id }) => id === value);
  return (
    <>
      <ModelPicker
        label="Model"
        param="model_id"
        none="Purser chooses for each run"
        value={value}
        onValue={(model_id) => change(model_id === "" ? { auto_route: true } : { auto_route: false, model_id })}
        hint={
          is_gone
            ? "This model is no longer on offer. Choose another one."
            : value === ""
              ? "The cheapest model that suits the task. The run shows the choice and its reason."
              : undefined
        }
      />
      {error !== null && <ProblemNotice error={error} onRetry={() => void refetch()} />}
    </>
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
      <summary className="w-fit text-muted hover:text-ink">Placeholders for the instructions and the task</summary>
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
