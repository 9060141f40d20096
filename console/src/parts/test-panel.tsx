import { type UseMutationResult, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Body, call } from "../api/client.ts";
import { useLiveRun } from "../api/live-run.ts";
import { ApiError, asProblem } from "../api/problem.ts";
import { type Run, type RunDetail, runQuery, stale } from "../api/queries.ts";
import { count, dollars } from "../format.ts";
import { objectOf, wrongObject } from "../json.ts";
import { hasEnded } from "../run-words.ts";
import { Button, Card, Skeleton, Status } from "../ui/basics.tsx";
import { AreaField, sending } from "../ui/fields.tsx";
import { Icon } from "../ui/icons.tsx";
import { ProblemNotice } from "../ui/problem.tsx";
import { DecideProblem, RequiredActions, useDecide } from "./approvals.tsx";
import type { Draft } from "./draft.ts";
import { InputFields, inputDraft, inputOf } from "./input-fields.tsx";
import { cancelRun } from "./run-actions.tsx";
import { Outcome, Steps } from "./run-view.tsx";

type RunNow = NonNullable<Body<"POST /api/v1/agents/{id}/runs">>;
/** What a test gives the draft. */
export type TestInput = Pick<RunNow, "input" | "run_prompt">;

/** Starts a test. An error about the draft names the field of the agent. */
export async function startTest(id: string, draft: RunNow["draft"], asked: TestInput): Promise<Run> {
  try {
    const run = await call("POST /api/v1/agents/{id}/runs", { params: { id }, body: { ...asked, draft: draft ?? {} } });
    await stale("runs");
    return run;
  } catch (error) {
    const { param, ...problem } = asProblem(error);
    throw new ApiError({ ...problem, param: param?.replace(/^draft\./, "") ?? null });
  }
}

interface Props {
  /** null: a new agent, which a test creates first. */
  agent_id: string | null;
  draft: Draft;
  test: UseMutationResult<unknown, Error, TestInput>;
  /** Whether the browser finds no fault in the draft. It shows a fault at its field. */
  isReady: () => boolean;
  /** The test that is shown. */
  run_id: string | undefined;
}

/** Runs the draft as it is typed, and shows what comes of it. */
export function TestPanel({ agent_id, draft, test, isReady, run_id }: Props) {
  const schema = wrongObject(draft.input_schema) === null ? objectOf(draft.input_schema) : null;
  const [typed, setTyped] = useState({ of: draft.input_schema, input: inputDraft(schema, null) });
  const input = typed.of === draft.input_schema ? typed.input : inputDraft(schema, null);
  const [message, setMessage] = useState("");
  const has_task = draft.run_prompt.trim() !== "";
  const run = () =>
    isReady() && test.mutate({ input: inputOf(schema, input), run_prompt: message.trim() === "" ? null : message });
  const fields = (
    <InputFields
      schema={schema}
      draft={input}
      onDraft={(changed) => setTyped({ of: draft.input_schema, input: changed })}
    />
  );
  const more = (
    <div className="space-y-4">
      <AreaField
        label="Message"
        rows={2}
        required={!has_task}
        value={message}
        onValue={setMessage}
        placeholder={has_task ? draft.run_prompt : "What should the agent do?"}
        hint={has_task ? "Replaces the task in this test." : "The agent has no task yet. The test does this instead."}
      />
      {schema === null && fields}
    </div>
  );
  return (
    <section
      id="test"
      aria-label="Test"
      // Beside the form it stays in view, and scrolls by itself.
      className="min-w-0 scroll-mt-16 space-y-4 lg:sticky lg:top-5 lg:-m-1 lg:max-h-[calc(100dvh-2.5rem)] lg:overflow-y-auto lg:p-1"
    >
      <Card
        title="Test"
        note="Runs what you see here, saved or not. It is billed and its tools act, but its result is not delivered."
      >
        <form className="space-y-4" {...sending({ mutate: run, reset: test.reset })}>
          {schema !== null && fields}
          {has_task ? (
            <details>
              <summary className="w-fit text-muted hover:text-ink">
                {schema === null ? "Message and input" : "Message"}
              </summary>
              <div className="mt-3">{more}</div>
            </details>
          ) : (
            more
          )}
          {agent_id === null && (
            <p className="text-sm text-muted">
              This creates the agent{draft.when !== null && ", with its schedule"}, then tests it.
            </p>
          )}
          {test.error !== null && <ProblemNotice error={test.error} />}
          <Button type="submit" icon="play" busy={test.isPending}>
            {agent_id === null ? "Create and test" : "Run test"}
          </Button>
        </form>
      </Card>
      {agent_id !== null && run_id !== undefined && <TestRun key={run_id} id={agent_id} run_id={run_id} />}
    </section>
  );
}

function TestRun({ id, run_id }: { id: string; run_id: string }) {
  const { data: run, error, refetch } = useQuery(runQuery(id, run_id));
  if (error !== null) return <ProblemNotice error={error} onRetry={() => void refetch()} />;
  return run === undefined ? <Skeleton lines={4} /> : <Followed run={run} />;
}

function Followed({ run }: { run: RunDetail }) {
  const { agent_id, id, status, usage } = run;
  const ended = hasEnded(status);
  const { preview } = useLiveRun(agent_id, id, ended);
  const decide = useDecide();
  return (
    <div className="space-y-4">
      <div className="flex min-h-9 flex-wrap items-center gap-x-3 gap-y-1" aria-live="polite">
        <Status status={status} has_errors={run.has_errors} />
        <span className="text-muted">
          {dollars(usage.cost_tokens)} ({count(usage.cost_tokens, "token")})
        </span>
        <Link to="/agents/$id/runs/$run_id" params={{ id: agent_id, run_id: id }} className="link">
          Open run <Icon name="arrow" className="inline size-3.5" />
        </Link>
        {!ended && (
          <Button
            icon="stop"
            kind="danger"
            className="ml-auto"
            disabled={status === "cancelling"}
            onClick={() => void cancelRun(run).finally(() => stale("runs"))}
          >
            Cancel test
          </Button>
        )}
      </div>
      <DecideProblem decide={decide} />
      {run.required_actions.length > 0 && <RequiredActions run={run} decide={decide} />}
      <Outcome run={run} preview={preview} />
      <Steps run={run} />
    </div>
  );
}
