import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createRunFollowers, type RunFollowers } from "../../src/agents/runs/following.ts";
import type { ClaimedRun } from "../../src/agents/runs/runs.types.ts";
import type { EventFeed } from "../../src/platform/net/event-stream.ts";
import { createLog } from "../../src/platform/telemetry/log.ts";
import { MODEL_CALL, USAGE, useQueue } from "../properties/run-queue-fixture.ts";
import { parsedEvent, type SentEvent } from "../support/run-events.ts";

// Followers on another node: the worker of the run does not notify them directly.

const queue = useQueue();
const feeds: EventFeed[] = [];
let queries = { follow: 0, fingerprints: 0 };
let node: RunFollowers;

const newNode = () => {
  const { scheduling } = queue;
  const counting = {
    ...scheduling,
    follow: (...which: Parameters<typeof scheduling.follow>) => {
      queries.follow += 1;
      return scheduling.follow(...which);
    },
    fingerprints: (...which: Parameters<typeof scheduling.fingerprints>) => {
      queries.fingerprints += 1;
      return scheduling.fingerprints(...which);
    },
  };
  return createRunFollowers({ runs: counting, log: createLog("silent") });
};
beforeEach(() => {
  queries = { follow: 0, fingerprints: 0 };
  node = newNode();
});
afterEach(() => {
  for (const feed of feeds.splice(0)) feed.leave();
});

async function follow(run_id: string, after = 0, on = node): Promise<EventFeed> {
  const feed = await on.follow(queue.agent.user_id, run_id, after);
  if (feed === null) throw new Error("the run has ended");
  feeds.push(feed);
  return feed;
}
/** Reads the events up to the one of this name. */
async function read(feed: EventFeed, name: string): Promise<SentEvent[]> {
  const events: SentEvent[] = [];
  while (events.at(-1)?.event !== name) {
    const { done, value } = await feed.next();
    if (done === true) throw new Error(`the stream ended before ${name}`);
    for (const block of value.split("\n\n")) events.push(...(block === "" ? [] : [parsedEvent(block) ?? []].flat()));
  }
  return events;
}
async function work({ lease }: ClaimedRun) {
  await queue.scheduling.startStep(lease, MODEL_CALL);
  await queue.scheduling.finishStep(lease, { index: 0, status: "succeeded", result: "x", usage: USAGE });
  await queue.scheduling.finishRun(lease, { status: "succeeded", output: "done" });
}
const WHOLE = ["run.queued", "run.started", "step.started", "step.finished", "run.finished"];

test("a run of another node is followed to its end, and every node sends the same events with the same ids", async () => {
  const { id } = await queue.enqueue();
  const feed = await follow(id);
  await read(feed, "run.queued");
  await work(await queue.claimOne());
  const rest = await read(feed, "run.finished");
  expect(await feed.next()).toEqual({ done: true, value: undefined });
  const whole = await read(await follow(id, 0, newNode()), "run.finished");
  expect(whole.map(({ event }) => event)).toEqual(WHOLE);
  expect(whole.slice(1)).toEqual(rest);
  expect(await node.follow(queue.agent.user_id, id, WHOLE.length)).toBeNull();
});

test("the cancelling event comes after the step in progress, on every node and at every time", async () => {
  const { id } = await queue.enqueue();
  const { lease } = await queue.claimOne();
  await queue.scheduling.startStep(lease, MODEL_CALL);
  const feed = await follow(id);
  await read(feed, "step.started");
  await queue.scheduling.requestCancel(queue.agent, id);
  await queue.scheduling.finishStep(lease, { index: 0, status: "cancelled" });
  const live = await read(feed, "run.cancelling");
  await queue.scheduling.finishRun(lease, { status: "cancelled" });
  live.push(...(await read(feed, "run.finished")));
  const replayed = await read(await follow(id, 0, newNode()), "run.finished");
  expect(live).toEqual(replayed.slice(3));
  expect(live.map(({ id, event }) => [id, event])).toEqual([
    [4, "step.finished"],
    [5, "run.cancelling"],
    [6, "run.finished"],
  ]);
});

test("a resumed run continues its sequence of events", async () => {
  const { id } = await queue.enqueue();
  const lost = await queue.claimOne();
  await queue.scheduling.startStep(lost.lease, MODEL_CALL);
  const feed = await follow(id);
  const before = await read(feed, "step.started");
  await queue.expireLeases();
  await queue.scheduling.reap();
  await work(await queue.claimOne("worker-2"));
  const events = [...before, ...(await read(feed, "run.finished"))];
  expect(events.map(({ id, event }) => [id, event])).toEqual(WHOLE.map((event, index) => [index + 1, event]));
});

test("the events of a run that lost its worker during a step and was cancelled in the queue are complete", async () => {
  const { id } = await queue.enqueue();
  const lost = await queue.claimOne();
  await queue.scheduling.startStep(lost.lease, MODEL_CALL);
  await queue.expireLeases();
  await queue.scheduling.reap();
  await queue.scheduling.requestCancel(queue.agent, id);
  const events = await read(await follow(id), "run.finished");
  expect(events.map(({ id }) => id)).toEqual(events.map((_, index) => index + 1));
});

test("an id that the run does not have yet is rejected, and one that another node has already sent is accepted", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  try {
    const { id } = await queue.enqueue();
    await read(await follow(id), "run.queued");
    for (const after of [2, 99]) {
      await expect(follow(id, after)).rejects.toMatchObject({ shape: { status: 400, param: "Last-Event-ID" } });
    }
    const { lease } = await queue.claimOne();
    await queue.scheduling.startStep(lease, MODEL_CALL);
    // This node reads only when its timer fires, and has not read the step yet.
    const resumed = await follow(id, 3);
    await queue.scheduling.finishStep(lease, { index: 0, status: "succeeded", result: "x", usage: USAGE });
    node.noteChange(id);
    expect(await read(resumed, "step.finished")).toMatchObject([{ id: 4 }]);
    await queue.scheduling.finishRun(lease, { status: "succeeded", output: "done" });
    await expect(follow(id, WHOLE.length + 1)).rejects.toMatchObject({ shape: { status: 400 } });
  } finally {
    vi.useRealTimers();
  }
});

test("200 followers cost the database as much as one, and a run without followers costs nothing", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  try {
    const { id } = await queue.enqueue();
    const follower_feeds = await Promise.all(Array.from({ length: 200 }, () => follow(id)));
    const event_lists = follower_feeds.map((feed) => read(feed, "run.finished"));
    expect(queries).toMatchObject({ fingerprints: 0 });
    expect(queries.follow).toBeLessThanOrEqual(2);
    await vi.advanceTimersToNextTimerAsync();
    await expect.poll(() => queries.fingerprints).toBe(1);
    await work(await queue.claimOne());
    await vi.advanceTimersToNextTimerAsync();
    await Promise.all(event_lists);
    expect(queries.fingerprints).toBe(2);
    expect(queries.follow).toBeLessThanOrEqual(4);
    for (const feed of follower_feeds) feed.leave();
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test("a silent stream gets a comment every 15 seconds, and ends with the process", async () => {
  const { id } = await queue.enqueue();
  const feed = await follow(id);
  await read(feed, "run.queued");
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const silent = feed.next();
  await vi.advanceTimersByTimeAsync(15_000).finally(() => vi.useRealTimers());
  expect(await silent).toEqual({ done: false, value: ": keep-alive\n\n" });
  const last = feed.next();
  node.end();
  expect(await last).toEqual({ done: true, value: undefined });
});

test("of a longer answer a preview is the beginning: no later piece follows one that was left out", async () => {
  const { id } = await queue.enqueue();
  const { lease } = await queue.claimOne();
  await queue.scheduling.startStep(lease, MODEL_CALL);
  const feed = await follow(id);
  await read(feed, "step.started");
  for (const text of ["a".repeat(999_990), "b".repeat(20), "c".repeat(5)]) node.addText(id, text);
  const [preview] = await read(feed, "text");
  expect(preview?.data.text.replace(/^a+/, "")).toBe("b".repeat(10));
  const whole = await queue.enqueue();
  const claimed = await queue.claimOne();
  await queue.scheduling.startStep(claimed.lease, MODEL_CALL);
  const late = await follow(whole.id);
  node.addText(whole.id, "a".repeat(1_000_001));
  expect((await read(late, "text")).at(-1)?.data.text).toHaveLength(1_000_000);
});

test("a preview has at most a million characters of an answer, and no event is missing after it", async () => {
  const { id } = await queue.enqueue();
  const claimed = await queue.claimOne();
  await queue.scheduling.startStep(claimed.lease, MODEL_CALL);
  const feed = await follow(id);
  await read(feed, "step.started");
  for (let index = 0; index < 120; index++) node.addText(id, "x".repeat(10_000));
  const [preview] = await read(feed, "text");
  expect(preview?.data.text).toHaveLength(1_000_000);
  await queue.scheduling.finishStep(claimed.lease, { index: 0, status: "succeeded", result: "x", usage: USAGE });
  await queue.scheduling.finishRun(claimed.lease, { status: "succeeded", output: "done" });
  expect((await read(feed, "run.finished")).map(({ event }) => event)).toEqual(WHOLE.slice(3));
});
