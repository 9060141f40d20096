import { expect, test } from "vitest";
import { newConfig } from "../../src/agents/agent-config.ts";
import { errors } from "../../src/errors.ts";
import { createLog } from "../../src/platform/log.ts";
import { createEngine } from "../../src/runs/engine.ts";
import type { EngineDeps } from "../../src/runs/run-work.ts";
import { DatabaseUnavailableError } from "../../src/runs/run-writer.ts";
import { toolsWith } from "../support/tools.ts";
import { useQueue } from "./run-queue-fixture.ts";

const queue = useQueue();
const config = newConfig({ name: "Scout", model_id: "lab/small", run_prompt: "Go." });
const { tools } = toolsWith({ allow: [] });

/** Carries a run out whose model calls fail so, one after the other. */
async function execute(failures: Error[], { trigger = "manual", startStep = queue.scheduling.startStep } = {}) {
  await queue.enqueue(queue.agent, trigger as "manual" | "chat");
  const fail = async () => {
    throw failures.shift();
  };
  const engine = createEngine({
    clock: { now: () => queue.now },
    completions: { complete: fail, stream: fail },
    tools,
    runs: { ...queue.scheduling, startStep },
    ledger: { release: async () => {} },
    models: { find: () => undefined },
    log: createLog("silent"),
    onStepStarted: () => {},
    newMark: () => "mark",
  } as unknown as EngineDeps);
  const control = { signal: new AbortController().signal, isDraining: () => false, onText: null };
  return engine.execute(await queue.claimOne(), config, control);
}

const away = () => errors.databaseAway(new Error("Connection terminated unexpectedly"));
const staysAway = () => Promise.reject(new DatabaseUnavailableError("Connection terminated unexpectedly"));

test("a model call for which nothing can be held, since the database is away, is made when it is back", async () => {
  const failures = [away(), errors.modelNotFound("lab/small")];
  expect((await execute(failures))?.finish).toMatchObject({ status: "failed", error: { code: "model_unavailable" } });
  expect(failures).toEqual([]);
});

test("a run whose database stays away is left to whoever takes it up again, and not failed", async () => {
  await expect(execute([away()], { startStep: staysAway })).rejects.toThrow(DatabaseUnavailableError);
});

test("a chat fails then: nobody else could answer its caller", async () => {
  const result = await execute([away()], { trigger: "chat", startStep: staysAway });
  expect(result?.finish).toMatchObject({ status: "failed", error: { code: "internal" } });
});
