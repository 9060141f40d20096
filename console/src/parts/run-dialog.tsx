import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api/client.ts";
import { type Agent, type Run, stale } from "../api/queries.ts";
import { parseMetadata, wrongMetadata } from "../metadata.ts";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { AreaField } from "../ui/fields.tsx";
import { InputFields, inputDraft, inputOf } from "./input-fields.tsx";

interface Props {
  agent: Agent;
  onRun: (run: Run) => void;
  onClose: () => void;
}

/** Runs an agent with an input, and perhaps with metadata and a task of this run only. */
export function RunDialog({ agent, onRun, onClose }: Props) {
  const [input, setInput] = useState(() => inputDraft(agent.input_schema, null));
  const [pairs, setPairs] = useState("");
  const [task, setTask] = useState("");
  const start = useMutation({
    mutationFn: () =>
      call("POST /api/v1/agents/{id}/runs", {
        params: { id: agent.id },
        body: {
          input: inputOf(agent.input_schema, input),
          metadata: parseMetadata(pairs),
          run_prompt: task.trim() === "" ? null : task,
        },
      }),
    onSuccess: async (run) => {
      await stale("runs", "agents");
      onRun(run);
    },
  });
  return (
    <Dialog title={`Run ${agent.name}`} onClose={onClose} wide>
      <DialogForm save={start} action="Run now" onCancel={onClose}>
        <InputFields schema={agent.input_schema} draft={input} onDraft={setInput} />
        <details>
          <summary className="w-fit text-muted hover:text-ink">More</summary>
          <div className="mt-3 space-y-4">
            <AreaField
              label="Metadata"
              param="metadata"
              rows={2}
              value={pairs}
              wrong={wrongMetadata(pairs)}
              onValue={setPairs}
              placeholder={"order=4711\nbatch=spring"}
              hint="One name=value on each line. You find the run by them."
            />
            <AreaField
              label="Task of this run"
              param="run_prompt"
              value={task}
              onValue={setTask}
              placeholder={agent.run_prompt ?? ""}
              hint="Replaces the agent's task once."
            />
          </div>
        </details>
      </DialogForm>
    </Dialog>
  );
}
