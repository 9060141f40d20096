import { setImmediate } from "node:timers/promises";
import { expect, it, vi } from "vitest";
import type { Ledger, SettleRequest } from "../../../src/account/ledger/ledger.types.ts";
import { newThoughts, type Thoughts } from "../../../src/gateway/completions/after-hang-up.ts";
import { createCompletionStream } from "../../../src/gateway/completions/completion-stream.ts";
import type { AnswerPart } from "../../../src/gateway/models/answer-events.ts";
import { READ_ON } from "../../../src/kernel/constants.ts";
import { monotonicMs } from "../../../src/platform/lib/clock.ts";
import { modelOf, requestOf } from "../models/model-fixture.ts";

const NO_PARTS = { cached_input_tokens: 0, cache_write_tokens: 0, cache_write_1h_tokens: 0, reasoning_tokens: 0 };
const COUNTS = { ...NO_PARTS, input_tokens: 8, output_tokens: 4, estimated: true };
const ALWAYS = () => COUNTS;
const PART: AnswerPart = { events: [] };

interface Opening {
  counts?: () => typeof COUNTS;
  thoughts?: Partial<Thoughts>;
  /** The provider's next events. Absent: endless ones, or an end if `counts` fails. */
  next?: () => Promise<IteratorResult<AnswerPart>>;
}

/** A stream `left_ms` before its deadline. */
function opened(left_ms: number, { counts = ALWAYS, thoughts = {}, next }: Opening = {}) {
  const model = modelOf();
  const request = {
    model,
    request: requestOf(),
    max_output_tokens: 50,
    stream: true,
    input_tokens: 8,
    media_tokens: 0,
    likely_tokens: 8,
  };
  const settles: SettleRequest[] = [];
  const released: unknown[] = [];
  const ends = counts !== ALWAYS;
  const stopping = new AbortController();
  const leaving = new AbortController();
  let cancelled = false;
  const outcome = { cost_tokens: 7, charged_tokens: 7, overage_tokens: 0, absorbed_tokens: 0, replayed: false };
  const ledger = {
    settle: async (settle: SettleRequest) => {
      settles.push(settle);
      return { status: "settled", ...outcome };
    },
    release: async ({ hold_id }: { hold_id: string }) => void released.push(hold_id),
  } as unknown as Ledger;
  const call = {
    request: requestOf(),
    caller: { user_id: "u", api_key_id: null, key_budget_tokens: null },
    agent_id: null,
    run_id: null,
    hold_id: "h",
    request_id: "r",
    signal: leaving.signal,
  };
  const stream = createCompletionStream(ledger, call, {
    reservation: { model, request, drops_reasoning: false },
    stream: {
      parts: {
        next: next ?? (() => setImmediate(ends ? { done: true, value: undefined } : { done: false, value: PART })),
      },
      counts,
      cancel: () => {
        cancelled = true;
      },
    },
    first: { done: false, value: PART },
    routing: undefined,
    deadline_ms: monotonicMs() + left_ms,
    thoughts: { ...newThoughts(), sent_ms: monotonicMs(), ...thoughts },
    noteCounts: () => {},
    stopping: stopping.signal,
    onLeaving: () => {},
  });
  return {
    stream,
    settles,
    released,
    isCancelled: () => cancelled,
    hangUp: () => leaving.abort(),
    stop: () => stopping.abort(),
  };
}

it("a reader that stalls until its hold would expire is charged at the call's deadline", async () => {
  const { stream, settles, isCancelled } = opened(20);
  await stream.next();
  await expect.poll(() => settles).toMatchObject([{ hold_id: "h", output_tokens: 4 }]);
  expect(isCancelled()).toBe(true);
  // A reader that continues gets one error, and no further charge.
  expect((await stream.next()).value?.events).toMatchObject([{ type: "error" }]);
  expect((await stream.next()).done).toBe(true);
  expect(settles).toHaveLength(1);
});

it("a cancelled stream is charged once, also when its deadline passes later", async () => {
  const { stream, settles } = opened(20);
  // The reader leaves after the deadline's timer is armed, and the process is busy until that is due, and the end of the
  // reading on too.
  const started = monotonicMs();
  while (monotonicMs() - started < 10) await setImmediate();
  const left = stream.return();
  while (monotonicMs() - started < 60);
  await left;
  expect(settles).toHaveLength(1);
  expect((await stream.next()).done).toBe(true);
});

it("a reader that leaves after the call's deadline is charged once, and gets no error", async () => {
  const { stream, settles } = opened(20);
  await expect.poll(() => settles).toHaveLength(1);
  await stream.return();
  expect((await stream.next()).done).toBe(true);
  expect(settles).toHaveLength(1);
});

it("a stream whose charge cannot be computed costs nothing, releases its hold, and ends with an error event", async () => {
  const { stream, settles, released } = opened(60_000, {
    counts: () => {
      throw new TypeError("no counts");
    },
  });
  await stream.next();
  const { value } = await stream.next();
  expect(value?.events).toMatchObject([{ type: "error", error: { code: "internal" } }]);
  expect(JSON.stringify(value)).not.toContain("no counts");
  expect((await stream.next()).done).toBe(true);
  expect([settles, released, stream.outcome()]).toEqual([[], ["h"], null]);
});

it("a caller that hangs up is charged once the provider has reported, also while its reader waits for an event", async () => {
  const report = Promise.withResolvers<IteratorResult<AnswerPart>>();
  let counts = COUNTS;
  const { stream, settles, hangUp } = opened(60_000, { counts: () => counts, next: () => report.promise });
  await stream.next();
  const waiting = stream.next();
  hangUp();
  counts = { ...COUNTS, output_tokens: 20_004, reasoning_tokens: 20_000, estimated: false };
  report.resolve({ done: true, value: undefined });
  expect((await waiting).done).toBe(true);
  await expect.poll(() => settles).toMatchObject([{ output_tokens: 20_004 }]);
  expect(stream.outcome()).toMatchObject({ complete: false });
});

it.each([
  ["a process that stops", 60_000],
  ["the call's deadline", 30],
])("%s ends the reading for usage: the likely thoughts are charged, up to the output cap", async (what, left_ms) => {
  const silence = () => new Promise<never>(() => {});
  const sent_ms = monotonicMs() - 300;
  const thinking = { are_likely: true, sent_ms };
  const { settles, hangUp, stop, isCancelled } = opened(left_ms, { thoughts: thinking, next: silence });
  hangUp();
  if (what === "a process that stops") stop();
  await expect.poll(() => settles).toHaveLength(1);
  expect(isCancelled()).toBe(true);
  // 0.3 s of thoughts at 100 tokens per second, beside the 4 tokens that came; the cap is 50.
  expect(settles[0]?.output_tokens).toBeGreaterThanOrEqual(30);
  expect(settles[0]?.output_tokens).toBeLessThanOrEqual(50);
});

it("a provider that fails after the hang-up changes nothing: the input and the output until then are charged", async () => {
  const { settles, hangUp } = opened(60_000, { next: () => Promise.reject(new Error("gone")) });
  hangUp();
  await expect.poll(() => settles).toMatchObject([{ output_tokens: 4 }]);
});

it("a reader that takes nothing for 30 s is left while there is time to read on", async () => {
  const usage = { ...COUNTS, output_tokens: 500, estimated: false };
  let counts = COUNTS;
  const next = async () => {
    counts = usage;
    return { done: true, value: undefined } as const;
  };
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const now = vi.spyOn(performance, "now");
  try {
    const began = performance.now();
    now.mockReturnValue(began);
    const { settles } = opened(2 * READ_ON.thinking_ms, { counts: () => counts, next });
    now.mockReturnValue(began + READ_ON.thinking_ms + 1);
    vi.advanceTimersByTime(READ_ON.thinking_ms + 1);
    vi.useRealTimers();
    await expect.poll(() => settles).toMatchObject([{ output_tokens: 500 }]);
  } finally {
    vi.useRealTimers();
    now.mockRestore();
  }
});
