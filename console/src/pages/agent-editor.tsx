import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useBlocker, useNavigate, useParams } from "@tanstack/react-router";
import { type FormEvent, useCallback, useRef, useState } from "react";
import { call } from "../api/client.ts";
import { type Agent, agentQuery, modelsQuery, queryClient, stale } from "../api/queries.ts";
import { bodyOf, type Draft, draftOf, EMPTY_DRAFT } from "../parts/draft.ts";
import { LimitFields } from "../parts/limit-fields.tsx";
import { ScheduleFields } from "../parts/schedule-fields.tsx";
import { ToolFields } from "../parts/tool-fields.tsx";
import { useAct } from "../ui/act.ts";
import { Button, buttonClass, Card, PageHeader } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { AreaField, FormErrorProvider, SelectField, TextField, Toggle } from "../ui/fields.tsx";
import { ProblemNotice } from "../ui/problem.tsx";

export function NewAgentPage() {
  return <Editor agent={null} />;
}

export function EditAgentPage() {
  const { id } = useParams({ from: "/house/agents/$id/edit" });
  const { data: agent } = useSuspenseQuery(agentQuery(id));
  return <Editor key={agent.version} agent={agent} />;
}

/** Changes the draft; what is not named stays. */
export type Change = (changes: Partial<Draft>) => void;

function Editor({ agent }: { agent: Agent | null }) {
  const [draft, setDraft] = useState<Draft>(agent === null ? EMPTY_DRAFT : draftOf(agent));
  const { act, busy, error } = useAct();
  const navigate = useNavigate();
  const saved_as = useRef(draft);
  const changed = useCallback(() => JSON.stringify(saved_as.current) !== JSON.stringify(draft), [draft]);
  const leaving = useBlocker({ shouldBlockFn: changed, enableBeforeUnload: changed, withResolver: true });
  const change: Change = (changes) => setDraft((old) => ({ ...old, ...changes }));
  const save = (event: FormEvent) => {
    event.preventDefault();
    void act(async () => {
      const body = bodyOf(draft);
      const saved =
        agent === null
          ? await call("POST /api/v1/agents", { body })
          : await call("PUT /api/v1/agents/{id}", { params: { id: agent.id }, body });
      saved_as.current = draft;
      queryClient.setQueryData(agentQuery(saved.id).queryKey, saved);
      await navigate({
        to: "/agents/$id",
        params: { id: saved.id },
        search: saved.schedule_enabled ? { tab: "schedule" } : {},
      });
      await stale("agents");
    });
  };
  return (
    <FormErrorProvider value={error}>
      <PageHeader title={agent === null ? "New agent" : `Edit ${agent.name}`} />
      <form onSubmit={save} className="max-w-3xl space-y-4">
        <Card title="What it is">
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
              hint="For you, in lists. The model does not see it."
            />
            <Toggle
              label="Enabled"
              checked={draft.is_active}
              onChecked={(is_active) => change({ is_active })}
              hint="A disabled agent neither runs nor chats."
            />
          </div>
        </Card>
        <Card title="What it does">
          <div className="space-y-4">
            <AreaField
              label="Who it is"
              param="system_prompt"
              value={draft.system_prompt}
              onValue={(system_prompt) => change({ system_prompt })}
              placeholder="You read pages for a busy person. Be brief."
              hint="The system prompt: it stands before every run and chat."
            />
            <AreaField
              label="What it does on each run"
              param="run_prompt"
              required={draft.schedule_enabled}
              value={draft.run_prompt}
              onValue={(run_prompt) => change({ run_prompt })}
              placeholder="Read https://example.com/news and tell me what matters."
              hint="Needed for “Run now” and for a schedule. A chat does without."
            />
          </div>
        </Card>
        <ModelFields draft={draft} change={change} />
        <ToolFields draft={draft} change={change} />
        <ScheduleFields draft={draft} change={change} />
        <LimitFields draft={draft} change={change} />
        <div className="sticky bottom-0 -mx-2 space-y-3 bg-page/90 px-2 py-3 backdrop-blur">
          {error !== null && <ProblemNotice error={error} />}
          <div className="flex justify-end gap-2">
            <Link
              to={agent === null ? "/agents" : "/agents/$id"}
              params={agent === null ? {} : { id: agent.id }}
              className={buttonClass()}
            >
              Cancel
            </Link>
            <Button type="submit" kind="primary" busy={busy}>
              {agent === null ? "Make the agent" : "Save"}
            </Button>
          </div>
        </div>
      </form>
      {leaving.status === "blocked" && (
        <Confirm
          title="Leave without saving?"
          act="Leave"
          keep="Stay"
          onAct={async () => leaving.proceed()}
          onClose={() => leaving.reset()}
        >
          What you have changed here would be lost.
        </Confirm>
      )}
    </FormErrorProvider>
  );
}

function ModelFields({ draft, change }: { draft: Draft; change: Change }) {
  const { data: models } = useQuery(modelsQuery);
  const options = (models ?? []).map(
    ({ id, name, input_rate, output_rate, trial_eligible }) =>
      [id, `${name} · ${input_rate} in, ${output_rate} out${trial_eligible ? "" : " · not in the trial"}`] as const,
  );
  return (
    <Card title="Model">
      <div className="space-y-4">
        <Toggle
          label="Choose the model for each run"
          checked={draft.auto_route}
          onChecked={(auto_route) => change({ auto_route })}
          hint="The cheapest one that is good enough for the task. The run shows which, and why."
        />
        {!draft.auto_route && (
          <SelectField
            label="Model"
            param="model_id"
            required
            value={draft.model_id}
            onValue={(model_id) => change({ model_id })}
            options={[["", "Choose one"], ...options]}
            hint="The rates are billed tokens for each token in and out."
          />
        )}
      </div>
    </Card>
  );
}
