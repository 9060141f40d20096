import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Charge, Ledger, Progress } from "../../../src/account/ledger/ledger.types.ts";
import { createHoldKeepAlive } from "../../../src/gateway/completions/hold-keep-alive.ts";

let noted: Progress[][];
let fails: boolean;
let settled: PromiseWithResolvers<unknown>;
let stopping: boolean;
const ledger = {
  hold: async ({ hold_id }: { hold_id: string }) => ({ status: "held", hold_id, held_tokens: 10 }),
  settle: () => settled.promise,
  beginStop: () => {
    stopping = true;
  },
  release: async () => {},
  progress: async (calls: Progress[]) => {
    if (fails) throw new Error("the database is away");
    if (calls.length > 0) noted.push(calls);
  },
} as unknown as Ledger;

beforeEach(() => {
  noted = [];
  fails = false;
  settled = Promise.withResolvers();
  stopping = false;
  vi.useFakeTimers();
});
afterEach(() => vi.useRealTimers());

const hold = (keep_alive: ReturnType<typeof createHoldKeepAlive>, hold_id: string) =>
  keep_alive.charges.hold({ user_id: "u", hold_id } as never);
const charge = (cost_tokens: number) => ({ cost_tokens }) as Charge;

it("stores the progress of all streams every second in one statement, and only changed progress", async () => {
  const keep_alive = createHoldKeepAlive(ledger);
  const costs: Record<string, number> = { one: 5, two: 7 };
  for (const hold_id of ["one", "two"]) {
    await hold(keep_alive, hold_id);
    keep_alive.watch(hold_id, () => charge(costs[hold_id] ?? 0));
  }
  await vi.advanceTimersByTimeAsync(1_000);
  expect(noted.splice(0)).toEqual([
    [
      { user_id: "u", hold_id: "one", charge: charge(5) },
      { user_id: "u", hold_id: "two", charge: charge(7) },
    ],
  ]);
  costs.two = 9;
  await vi.advanceTimersByTimeAsync(3_000);
  expect(noted).toEqual([[{ user_id: "u", hold_id: "two", charge: charge(9) }]]);
});

it("renews the lease of a silent call, and stops when the call has ended", async () => {
  const keep_alive = createHoldKeepAlive(ledger);
  await hold(keep_alive, "quiet");
  await vi.advanceTimersByTimeAsync(29_000);
  expect(noted).toEqual([]);
  await vi.advanceTimersByTimeAsync(40_000);
  expect(noted).toEqual(Array(2).fill([{ user_id: "u", hold_id: "quiet", charge: null }]));
  await keep_alive.charges.release({ user_id: "u", hold_id: "quiet" });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(noted).toHaveLength(2);
  expect(vi.getTimerCount()).toBe(0);
});

it("stores progress again in the next second after a failure", async () => {
  const keep_alive = createHoldKeepAlive(ledger);
  await hold(keep_alive, "one");
  keep_alive.watch("one", () => charge(5));
  fails = true;
  await vi.advanceTimersByTimeAsync(2_000);
  fails = false;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(noted).toEqual([[{ user_id: "u", hold_id: "one", charge: charge(5) }]]);
});

it("sends one statement at a time, also while the database is slow", async () => {
  let sent = 0;
  const progress = () => {
    sent += 1;
    return settled.promise;
  };
  const keep_alive = createHoldKeepAlive({ ...ledger, progress } as unknown as Ledger);
  await hold(keep_alive, "one");
  await vi.advanceTimersByTimeAsync(10_000);
  expect(sent).toBe(1);
});

it("keeps a call's hold while its charge waits for the database, and stores the charge as its progress", async () => {
  const keep_alive = createHoldKeepAlive(ledger);
  for (const hold_id of ["one", "two"]) await hold(keep_alive, hold_id);
  const whole = { ...charge(9), hold_id: "one" };
  const settling = keep_alive.charges.settle(whole);
  void keep_alive.charges.settle({ ...charge(9), hold_id: "two", hook: { kind: "record", argument: 1 } });
  fails = true;
  await vi.advanceTimersByTimeAsync(180_000);
  fails = false;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(noted.splice(0)).toEqual([
    [
      { user_id: "u", hold_id: "one", charge: whole },
      { user_id: "u", hold_id: "two", charge: null }, // a charge needs its hook
    ],
  ]);
  settled.resolve({ status: "settled" });
  await settling;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(noted).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});

it("retries waiting charges a last time when the process stops, and waits for the result", async () => {
  const keep_alive = createHoldKeepAlive(ledger);
  await hold(keep_alive, "one");
  const settling = keep_alive.charges.settle({ ...charge(9), hold_id: "one" });
  let is_idle = false;
  const idle = keep_alive.idle().then(() => {
    is_idle = true;
  });
  await vi.advanceTimersByTimeAsync(1);
  expect([stopping, is_idle]).toEqual([true, false]);
  settled.reject(new Error("still away"));
  await expect(settling).rejects.toThrow("still away");
  await idle;
});

it("reports a call whose charge cannot be computed once, and renews all leases", async () => {
  const uncounted: unknown[] = [];
  const keep_alive = createHoldKeepAlive(ledger, (hold_id) => uncounted.push(hold_id));
  for (const hold_id of ["broken", "quiet", "counted"]) await hold(keep_alive, hold_id);
  keep_alive.watch("broken", () => {
    throw new TypeError("no counts");
  });
  keep_alive.watch("counted", () => charge(5));
  await vi.advanceTimersByTimeAsync(1_000);
  expect(noted.splice(0)).toEqual([[{ user_id: "u", hold_id: "counted", charge: charge(5) }]]);
  await vi.advanceTimersByTimeAsync(29_000);
  const renewed = ["broken", "quiet"].map((hold_id) => ({ user_id: "u", hold_id, charge: null }));
  expect(noted).toEqual([renewed]);
  expect(uncounted).toEqual(["broken"]);
});
