import { expect, test } from "vitest";
import { newConfig } from "../../src/agents/definitions/agent-config.ts";
import { decideNext } from "../../src/agents/runs/next-action.ts";
import type { Work } from "../../src/agents/runs/run-work.ts";
import type { ClaimedRun } from "../../src/agents/runs/runs.types.ts";
import { createServerNotes } from "../../src/agents/runs/tool-step.ts";
import { startSite } from "../support/sites.ts";
import { toolsWith } from "../support/tools.ts";
import { MODEL_CALL, useQueue } from "./run-queue-fixture.ts";

const queue = useQueue();
const { tools } = toolsWith({ allow: [] });
const REFUSED = { type: "tool", status: "failed", error: { code: "egress_refused" } };

const servers = ["first", "second"].map((name) => ({ name, url: `http://127.0.0.1:1/${name}` }));
const config = newConfig({ name: "Scout", model_id: "m", tools_config: { mcp: { enabled: true, servers } } });
/** The state with which a worker that claims the run begins. */
const workOf = async (run: ClaimedRun) =>
  ({
    run,
    config,
    steps: await queue.scheduling.journal(run.lease),
    result: {},
    signal: new AbortController().signal,
  }) as unknown as Work;
const steps = async (id: string) => (await queue.scheduling.getRun(queue.agent, id)).steps;

test("servers that cannot be used are noted once, wherever the process is lost in between", async () => {
  const note = createServerNotes({ runs: queue.scheduling, tools });
  const { id } = await queue.enqueue();
  const first = await queue.claimOne();
  const begun = { index: 0, type: "tool", name: "first", arguments: null } as const;
  expect(await queue.scheduling.startStep(first.lease, begun)).toBe("running");

  for (const worker of ["worker-2", "worker-3"]) {
    await queue.expireLeases();
    await queue.scheduling.reap();
    const work = await workOf(await queue.claimOne(worker));
    expect(await note(work)).toBeNull();
    expect(work.steps).toMatchObject([
      { ...REFUSED, name: "first" },
      { ...REFUSED, name: "second" },
    ]);
    expect(await steps(id)).toMatchObject(work.steps.map(({ name }) => ({ ...REFUSED, name })));
  }
});

test("a server that sends the secret back is noted last, and this step ends the run", async () => {
  const site = await startSite({ "/mcp": (request, response) => response.end(request.headers.authorization) });
  const secrets = { KEY: "sk_live_notes_9fZq77KdwE3x" };
  const auth = { secret: "KEY", inject: { type: "bearer" as const } };
  const note = createServerNotes({ runs: queue.scheduling, ...toolsWith({ allow: [site.host], secrets }) });
  const { id } = await queue.enqueue();
  const work = await workOf(await queue.claimOne());
  const echoing = { name: "echoing", url: `${site.url}/mcp`, auth };
  work.config = { ...config, tools_config: { mcp: { enabled: true, servers: [echoing, ...servers] } } };
  expect(await note(work)).toBeNull();
  await site.close();
  expect((await steps(id)).map(({ name, error }) => [name, error?.code])).toEqual([
    ["first", "egress_refused"],
    ["second", "egress_refused"],
    ["echoing", "secret_reflected"],
  ]);
  expect(work.result.thrown).toMatchObject({ code: "secret_reflected" });
  expect(decideNext({ limits: config.limits, steps: work.steps, elapsed_ms: 0 })).toMatchObject({
    do: "fail",
    error: { code: "secret_reflected" },
  });
});

test("an unfinished note about a server that answers now ends without an error, and after a model call nothing is noted", async () => {
  const note = createServerNotes({ runs: queue.scheduling, tools });
  const { id } = await queue.enqueue();
  const run = await queue.claimOne();
  await queue.scheduling.startStep(run.lease, { index: 0, type: "tool", name: "third", arguments: null });
  expect(await note(await workOf(run))).toBeNull();
  expect(await steps(id)).toMatchObject([
    { name: "third", status: "succeeded", error: null },
    { name: "first", status: "failed" },
    { name: "second", status: "failed" },
  ]);

  const { id: later } = await queue.enqueue();
  const running = await queue.claimOne();
  await queue.scheduling.startStep(running.lease, MODEL_CALL);
  expect(await note(await workOf(running))).toBeNull();
  expect(await steps(later)).toMatchObject([{ type: "model" }]);
});
