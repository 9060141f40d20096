import { expect, it } from "vitest";
import { createCompletionStream } from "../../../src/completions/completion-stream.ts";
import type { Ledger, SettleRequest } from "../../../src/ledger/ledger.types.ts";
import { monotonicMs } from "../../../src/platform/clock.ts";
import { modelOf, requestOf } from "../models/model-fixture.ts";

const NO_PARTS = { cached_input_tokens: 0, cache_write_tokens: 0, cache_write_1h_tokens: 0, reasoning_tokens: 0 };
const COUNTS = { ...NO_PARTS, input_tokens: 8, output_tokens: 4, estimated: true };
const ALWAYS = () => COUNTS;

/** An endless stream, `left_ms` before its deadline. If `counts` fails, it ends. */
function opened(left_ms: number, counts = ALWAYS) {
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
    signal: new AbortController().signal,
  };
  const stream = createCompletionStream(ledger, call, {
    reservation: { model, request, drops_reasoning: false },
    stream: {
      blocks: { next: async () => (ends ? { done: true, value: undefined } : { done: false, value: "data: {}\n\n" }) },
      identity: () => ({ id: "c", created: 0 }),
      counts,
      cancel: () => {
        cancelled = true;
      },
    },
    first: { done: false, value: "data: {}\n\n" },
    routing: undefined,
    deadline_ms: monotonicMs() + left_ms,
  });
  return { stream, settles, released, isCancelled: () => cancelled };
}

it("a reader that stalls until its hold would expire is charged at the call's deadline", async () => {
  const { stream, settles, isCancelled } = opened(20);
  await stream.next();
  await expect.poll(() => settles).toMatchObject([{ hold_id: "h", output_tokens: 4 }]);
  expect(isCancelled()).toBe(true);
  // A reader that continues gets one error, and no further charge.
  expect((await stream.next()).value).toContain('"error"');
  expect((await stream.next()).done).toBe(true);
  expect(settles).toHaveLength(1);
});

it("a cancelled stream is charged once, also when its deadline passes later", async () => {
  const { stream, settles } = opened(20);
  await stream.return();
  const started = monotonicMs();
  await expect.poll(() => monotonicMs() - started, { interval: 10 }).toBeGreaterThan(60);
  expect(settles).toHaveLength(1);
  expect((await stream.next()).done).toBe(true);
});

it("a stream whose charge cannot be computed costs nothing, releases its hold, and ends with an error event", async () => {
  const { stream, settles, released } = opened(60_000, () => {
    throw new TypeError("no counts");
  });
  await stream.next();
  const { value } = await stream.next();
  expect(value).toContain('"code":"internal"');
  expect(value).not.toContain("no counts");
  expect((await stream.next()).done).toBe(true);
  expect([settles, released, stream.outcome()]).toEqual([[], ["h"], null]);
});
