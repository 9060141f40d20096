import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api/client.ts";
import { type Agent, type Schedule, stale } from "../api/queries.ts";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { AreaField, fieldsOf, TextField, Toggle } from "../ui/fields.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { DeliveryFields } from "./delivery-fields.tsx";
import { type DeliveryDraft, deliveryDraft, deliveryOf } from "./draft.ts";
import { InputFields, inputDraft, inputOf } from "./input-fields.tsx";
import { ScheduleTimesFields } from "./schedule-times.tsx";
import { type TimesDraft, timesDraft, timesOf } from "./times-draft.ts";

interface Draft extends TimesDraft {
  name: string;
  run_prompt: string;
  /** null: the agent's. */
  deliveries: DeliveryDraft[] | null;
  enabled: boolean;
}

function draftOf(schedule: Schedule | null, first: boolean): Draft {
  return {
    ...timesDraft(schedule),
    name: schedule?.name ?? (first ? "default" : ""),
    run_prompt: schedule?.run_prompt ?? "",
    deliveries: schedule?.deliveries?.map(deliveryDraft) ?? null,
    enabled: schedule?.enabled ?? true,
  };
}

interface Props {
  agent: Agent;
  /** null: a new one. */
  schedule: Schedule | null;
  /** The agent has no schedule yet. */
  first: boolean;
  onClose: () => void;
}

/** Creates or changes a schedule, with a preview of its next runs. */
export function ScheduleDialog({ agent, schedule, first, onClose }: Props) {
  const [draft, setDraft] = useState(() => draftOf(schedule, first));
  const [input, setInput] = useState(() => inputDraft(agent.input_schema, schedule?.input ?? null));
  const change = (changes: Partial<Draft>) => setDraft((old) => ({ ...old, ...changes }));
  const field = fieldsOf(draft, change);
  const save = useMutation({
    mutationFn: () => {
      const { name, run_prompt, deliveries, enabled } = draft;
      const body = {
        name,
        ...timesOf(draft),
        input: inputOf(agent.input_schema, input),
        run_prompt: run_prompt.trim() === "" ? null : run_prompt,
        deliveries: deliveries?.map(deliveryOf) ?? null,
        enabled,
      };
      if (schedule === null) return call("POST /api/v1/agents/{id}/schedules", { params: { id: agent.id }, body });
      const params = { id: agent.id, schedule_id: schedule.id };
      return call("PATCH /api/v1/agents/{id}/schedules/{schedule_id}", { params, body });
    },
    onSuccess: async () => {
      await stale("agents");
      confirmSaved(schedule === null ? "Schedule added" : "Schedule saved");
      onClose();
    },
  });
  const fields = <InputFields schema={agent.input_schema} draft={input} onDraft={setInput} />;
  const has_schema = agent.input_schema !== null;
  return (
    <Dialog title={schedule === null ? "Add schedule" : `Edit schedule ${schedule.name}`} onClose={onClose} wide>
      <DialogForm save={save} action={schedule === null ? "Add schedule" : "Save schedule"} onCancel={onClose}>
        {schedule?.name !== "default" && (
          <TextField label="Name" {...field("name")} required maxLength={100} placeholder="weekday mornings" />
        )}
        <ScheduleTimesFields draft={draft} change={change} />
        {has_schema && fields}
        <details open={agent.run_prompt === null || undefined}>
          <summary className="w-fit text-muted hover:text-ink">More</summary>
          <div className="mt-3 space-y-4">
            {!has_schema && fields}
            <AreaField
              label="Task of its runs"
              {...field("run_prompt")}
              placeholder={agent.run_prompt ?? ""}
              hint="Empty: the agent's task."
            />
            <Toggle
              label="Own deliveries"
              checked={draft.deliveries !== null}
              onChecked={(own) => change({ deliveries: own ? [] : null })}
              hint="Results of this schedule go to these addresses instead of the agent's."
            />
            {draft.deliveries !== null && (
              <DeliveryFields deliveries={draft.deliveries} onDeliveries={(deliveries) => change({ deliveries })} />
            )}
            <Toggle label="Enabled" checked={draft.enabled} onChecked={(enabled) => change({ enabled })} />
          </div>
        </details>
      </DialogForm>
    </Dialog>
  );
}
