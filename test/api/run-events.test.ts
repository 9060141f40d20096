import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { selectFollowed } from "../../src/agents/runs/history.store.ts";
import { expectCleanAudit, type Lab, startLab } from "../support/lab.ts";
import { followRun, type SentEvent } from "../support/run-events.ts";
import type { Client } from "../support/service.ts";
import { type Site, startSite } from "../support/sites.ts";
import { completion, delta, event, fetching, hanging } from "../support/upstream.ts";

let lab: Lab;
let site: Site;
let user: Client;
let agent: string;

beforeAll(async () => {
  site = await startSite({ "/": { body: "<p>The door is green.</p>" } });
  lab = await startLab(undefined, { env: { PURSER_EGRESS_ALLOW: site.host } });
});
beforeEach(async () => {
  lab.upstream.answer(completion());
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  const fields = {
    name: "Scout",
    model_id: "lab/plain",
    run_prompt: "Look.",
    tools_config: { web_fetch: { enabled: true } },
  };
  agent = `/api/v1/agents/${(await user.post("/api/v1/agents", fields)).body.id}`;
});
afterAll(async () => {
  await expectCleanAudit(lab.service);
  await lab.stop();
  await site.close();
});

const runNow = async (wait = 0) => {
  const { body } = await user.post(`${agent}/runs`, undefined, wait === 0 ? {} : { Prefer: `wait=${wait}` });
  return `${agent}/runs/${body.id}`;
};
const numbered = (events: SentEvent[]) => events.filter(({ id }) => id !== null);
const names = (events: SentEvent[]) => numbered(events).map((each) => each.event);
const ONE_STEP = ["run.queued", "run.started", "step.started", "step.finished"];

test("a finished run is replayed with each step as in its record, the record at the end, and ids from 1 without a gap", async () => {
  lab.upstream.answer(fetching(`${site.url}/`), completion("Green."));
  const path = await runNow(30);
  const { status, until } = await followRun(lab.service, user, path);
  expect(status).toBe(200);
  const events = await until();
  const steps = ["step.started", "step.finished"];
  expect(names(events)).toEqual(["run.queued", "run.started", ...steps, ...steps, ...steps, "run.finished"]);
  expect(events.map(({ id }) => id)).toEqual(events.map((_, index) => index + 1));
  const { steps: recorded, deliveries: _, decisions: _decisions, ...record } = (await user.get(path)).body;
  const finished = events.filter((each) => each.event === "step.finished").map(({ data }) => data);
  expect(finished).toEqual(recorded.map((step: object) => ({ run_id: record.id, ...step })));
  expect(events.at(-1)?.data).toEqual({ run_id: record.id, ...record });
  expect(events[2]?.data).toMatchObject({ run_id: record.id, index: 0, type: "model", name: "lab/plain" });
});

test("pictures and links that a run stores for later steps are not read for its followers", async () => {
  const path = await runNow(30);
  const run_id = path.split("/").at(-1) ?? "";
  const db = await lab.service.database.open();
  const text = `update run_step set internal = '{"pictures": []}' where run_id = $1`;
  await db.query({ text, values: [run_id] });
  const found = await selectFollowed(db, { user_id: user.user_id, run_id, from_step: 0 });
  await db.close();
  expect(found?.steps.map(({ internal }) => internal)).toEqual([null]);
});

test("a follower that reconnects with Last-Event-ID gets each remaining event exactly once", async () => {
  const path = await runNow(30);
  const all = await (await followRun(lab.service, user, path)).until();
  for (let seen = 0; seen < all.length; seen++) {
    const resumed = await followRun(lab.service, user, path, { "Last-Event-ID": String(seen) });
    expect(await resumed.until()).toEqual(all.slice(seen));
  }
  const at_the_end = await followRun(lab.service, user, path, { "Last-Event-ID": String(all.length) });
  expect(at_the_end.status).toBe(204);
  for (const wrong of ["yesterday", String(all.length + 1)]) {
    const refused = await user.get(`${path}/events`, { "Last-Event-ID": wrong });
    expect([refused.status, refused.body.error.param]).toEqual([400, "Last-Event-ID"]);
  }
});

test("a follower of a running run gets its events, its text and its cancellation at once", async () => {
  const role = event({ choices: [{ index: 0, delta: { role: "assistant" }, finish_reason: null }] });
  let goOn: (text: string) => void = () => {};
  lab.upstream.answer(async (response, request) => {
    goOn = (text) => response.write(delta(text));
    await hanging(role)(response, request);
  });
  const path = await runNow();
  const follower = await followRun(lab.service, user, path);
  const begun = await follower.until((each) => each.event === "step.started");
  await lab.upstream.until(() => lab.upstream.requests.length === 1);
  goOn("Once ");
  expect(await follower.next()).toEqual({ id: null, event: "text", data: { text: "Once ", from_start: true } });
  goOn("upon");
  expect(await follower.next()).toEqual({ id: null, event: "text", data: { text: "upon" } });
  await user.post(`${path}/cancel`);
  const rest = await follower.until();
  expect(names([...begun, ...rest])).toEqual([...ONE_STEP, "run.cancelling", "run.finished"]);
  expect(rest.find((each) => each.event === "step.finished")?.data).toMatchObject({ status: "cancelled" });
  expect(rest.at(-1)?.data).toMatchObject({ status: "cancelled" });
  expect(rest.at(-1)?.data.usage.cost_tokens).toBeGreaterThan(0);
  const replayed = await (await followRun(lab.service, user, path)).until();
  expect(replayed).toEqual(numbered([...begun, ...rest]));
});

test("whoever comes in the middle of an answer, or comes back to it, gets it from its start", async () => {
  let goOn: (text: string) => void = () => {};
  let end: () => void = () => {};
  lab.upstream.answer(fetching(`${site.url}/`), async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    goOn = (text) => response.write(delta(text));
    const ended = Promise.withResolvers<void>();
    end = ended.resolve;
    await ended.promise;
    response.write(event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }));
    response.end("data: [DONE]\n\n");
  });
  const path = await runNow();
  const first = await followRun(lab.service, user, path);
  await first.until((each) => each.event === "step.started" && each.data.index === 2);
  await lab.upstream.until(() => lab.upstream.requests.length === 2);
  goOn("Once ");
  expect((await first.next())?.data).toEqual({ text: "Once ", from_start: true });
  goOn("upon ");
  expect((await first.next())?.data).toEqual({ text: "upon " });
  const late = await followRun(lab.service, user, path);
  const back = await followRun(lab.service, user, path, { "Last-Event-ID": "7" });
  for (const follower of [late, back]) {
    const events = await follower.until((each) => each.event === "text");
    expect(events.at(-1)?.data).toEqual({ text: "Once upon ", from_start: true });
  }
  goOn("a time");
  for (const follower of [first, late, back]) expect((await follower.next())?.data).toEqual({ text: "a time" });
  end();
  for (const follower of [first, late, back]) {
    expect(names(await follower.until())).toEqual(["step.finished", "run.finished"]);
  }
});

test("a run that waits in the queue is told from there, and one that is cancelled there has no other events", async () => {
  lab.upstream.answer(hanging());
  const open = await Promise.all(Array.from({ length: 10 }, () => runNow()));
  await lab.upstream.until(() => lab.upstream.requests.length === 10);
  const waiting = await runNow();
  const follower = await followRun(lab.service, user, waiting);
  expect(await follower.next()).toMatchObject({ id: 1, event: "run.queued", data: { trigger: "manual" } });
  await user.post(`${waiting}/cancel`);
  expect(await follower.until()).toMatchObject([{ id: 2, event: "run.finished", data: { status: "cancelled" } }]);
  await Promise.all(open.map((path) => user.post(`${path}/cancel`)));
  for (const path of open) await (await followRun(lab.service, user, path)).until();
});

test("200 followers of one run all get every event", async () => {
  let answer: () => void = () => {};
  lab.upstream.answer(async (response, request) => {
    const released = Promise.withResolvers<void>();
    answer = released.resolve;
    await released.promise;
    await completion("Done.")(response, request);
  });
  const path = await runNow();
  const followers = await Promise.all(Array.from({ length: 200 }, () => followRun(lab.service, user, path)));
  await lab.upstream.until(() => lab.upstream.requests.length === 1);
  answer();
  expect(followers.map(({ status }) => status)).toEqual(followers.map(() => 200));
  const event_lists = await Promise.all(followers.map((follower) => follower.until()));
  const whole = [...ONE_STEP, "run.finished"];
  for (const events of event_lists) expect(names(events)).toEqual(whole);
});

test("events of another user's run, or of another agent's, are 404", async () => {
  const path = await runNow(30);
  const other = await lab.service.newUser();
  const sibling = (await user.post("/api/v1/agents", { name: "Other", model_id: "lab/plain" })).body.id;
  const run_id = path.split("/").at(-1);
  const answers = await Promise.all([
    other.get(`${path}/events`),
    user.get(`/api/v1/agents/${sibling}/runs/${run_id}/events`),
    user.get(`${agent}/runs/none/events`),
    user.get(`/api/v1/agents/none/runs/${run_id}/events`),
  ]);
  expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404]);
});
