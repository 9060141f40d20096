import type { RunError } from "../../api/contract/runs.ts";
import { errors } from "../../kernel/errors.ts";
import { usesServers } from "../tools/registry.ts";
import { type EngineDeps, nextIndex, type StopReason, stopReason, type Work } from "./run-work.ts";
import { setUpOf } from "./transcript.ts";

/**
 * Before a run's first model call, records each MCP server with unusable tools as a failed step under its name, and each
 * one of whose tools some are left out as a step with the reasons. The owner and the model then see why tools are missing.
 *
 * Resolves to the reason why the worker must leave the run, or to null.
 */
export function createServerNotes({ runs, tools }: Pick<EngineDeps, "runs" | "tools">) {
  return async function noteUnusableServers(work: Work): Promise<StopReason | null> {
    const { run, config, steps } = work;
    if (!usesServers(config.tools_config) || setUpOf(steps).length < steps.length) return null;
    const { user_id, run_id } = run.lease;
    const run_ref = { user_id, agent_id: run.agent_id, run_id };
    const unlessStopped = (thrown: unknown) => {
      if (stopReason(work) === null) throw thrown;
      return [];
    };
    const unusable = await tools.unusableServers(config.tools_config, run_ref, work.signal).catch(unlessStopped);
    const left_out = await tools.leftOutTools(config.tools_config, run_ref, work.signal).catch(unlessStopped);
    const resultOf = (name: string) => left_out.find((each) => each.name === name)?.text ?? null;
    const stop = stopReason(work);
    if (stop !== null) return stop;
    // A lost process may have left an open step here. Its server may answer now.
    const begun = steps
      .filter(({ status }) => status === "running")
      .map(({ name }) => ({ name, error: null, fails_run: undefined }));
    const noted = new Set(steps.filter(({ status }) => status !== "running").map(({ name }) => name));
    const taken_up = begun.map((each) => unusable.find(({ name }) => name === each.name) ?? each);
    const [ending = [], others = []] = [true, false].map((ends) =>
      unusable.filter(({ error }) => (error.code === "secret_reflected") === ends),
    );
    const partial = left_out.map(({ name }) => ({ name, error: null, fails_run: undefined }));
    for (const { name, error, fails_run } of [...taken_up, ...others, ...partial, ...ending]) {
      if (noted.has(name)) continue;
      noted.add(name);
      const result = error === null ? resultOf(name) : null;
      const stop = await note(work, name, { error, result, internal: fails_run === true ? { fails_run } : null });
      if (stop !== null) return stop;
      if (error?.code === "secret_reflected") {
        // This last step ends the run.
        work.result.thrown = errors.secretReflected(error.message);
        return null;
      }
    }
    return null;
  };

  async function note(
    { run, steps }: Work,
    name: string,
    {
      error,
      result,
      internal,
    }: { error: RunError | null; result: string | null; internal: { fails_run: true } | null },
  ): Promise<StopReason | null> {
    const step = { index: nextIndex(steps), type: "tool" as const, name, arguments: {} };
    const state = await runs.startStep(run.lease, step);
    if (state !== "running") return state;
    const status = error === null ? ("succeeded" as const) : ("failed" as const);
    if (!(await runs.finishStep(run.lease, { index: step.index, status, result, error, internal }))) return "lost";
    steps[step.index] = { ...step, status, result, error, safety: null, internal };
    return null;
  }
}
