import { expect, test } from "vitest";
import { newConfig } from "../../src/agents/definitions/agent-config.ts";
import { createEngine } from "../../src/agents/runs/engine.ts";
import type { EngineDeps } from "../../src/agents/runs/run-work.ts";
import { DatabaseUnavailableError } from "../../src/agents/runs/run-writer.ts";
import { gatewayErrors } from "../../src/gateway/models/errors.ts";
import { errors } from "../../src/kernel/errors.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { toolsWith } from "../support/tools.ts";
import { useQueue } from "./run-queue-fixture.ts";

const queue = useQueue();
const config = newConfig({ name: "Scout", model_id: "lab/small", run_prompt: "Go." });
const { tools } = toolsWith({ allow: [] });

/** Executes a run whose model calls fail with these errors, in this order. */
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

test("a model call that found no database for its hold is made once the database is back", async () => {
  const failures = [away(), gatewayErrors.modelNotFound("lab/small")];
  expect((await execute(failures))?.finish).toMatchObject({ status: "failed", error: { code: "model_unavailable" } });
  expect(failures).toEqual([]);
});

test("a run whose database stays away does not fail: another worker can resume it", async () => {
  await expect(execute([away()], { startStep: staysAway })).rejects.toThrow(DatabaseUnavailableError);
});

test("a chat whose database stays away fails, because no other worker can answer its caller", async () => {
  const result = await execute([away()], { trigger: "chat", startStep: staysAway });
  expect(result?.finish).toMatchObject({ status: "failed", error: { code: "internal" } });
});
