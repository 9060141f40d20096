import { describe, expect, it } from "vitest";
import { createFairQueue, QueueRefused } from "../../../src/platform/lib/fair-queue.ts";

const NEVER = new AbortController().signal;

/** A queue whose work begins in the order of `begun`, and ends when the test says so. */
function started(limits: { slots: number; slots_each?: number; waiting?: number; waiting_each?: number }) {
  const queue = createFairQueue({ waiting: 100, waiting_each: 100, ...limits });
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const enter = (name: string, signal = NEVER) =>
    queue.run(name.charAt(0), signal, () => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.set(name, resolve));
    });
  const end = async (name: string) => {
    ends.get(name)?.();
    await new Promise(setImmediate);
  };
  return { queue, begun, enter, end };
}

describe("a fair queue", () => {
  it("does one piece of work per user at a time, users in turn, also if one user has many", async () => {
    const { begun, enter, end } = started({ slots: 2 });
    const all = ["a1", "a2", "a3", "b1", "b2", "c1"].map((name) => enter(name));
    await new Promise(setImmediate);
    expect(begun).toEqual(["a1", "b1"]);
    for (const name of ["a1", "b1", "c1", "a2", "b2", "a3"]) await end(name);
    await Promise.all(all);
    expect(begun).toEqual(["a1", "b1", "c1", "a2", "b2", "a3"]);
  });

  it("does as many pieces of one user at a time as it may, and keeps the other slots free", async () => {
    const { queue, begun, enter, end } = started({ slots: 3, slots_each: 2 });
    const all = ["a1", "a2", "a3", "b1"].map((name) => enter(name));
    await new Promise(setImmediate);
    expect(begun).toEqual(["a1", "a2", "b1"]);
    expect(queue.isWanted()).toBe(false);
    for (const name of ["a1", "a2", "a3", "b1"]) await end(name);
    await Promise.all(all);
    expect(begun).toEqual(["a1", "a2", "b1", "a3"]);
  });

  it("reports whether another user waits, but not a user's own next work", async () => {
    const { queue, enter } = started({ slots: 1 });
    enter("a1");
    enter("a2");
    expect(queue.isWanted()).toBe(false);
    enter("b1");
    expect(queue.isWanted()).toBe(true);
  });

  it("refuses work beyond its limits, and work that is aborted while it waits", async () => {
    const { begun, enter, end } = started({ slots: 1, waiting: 3, waiting_each: 1 });
    const first = enter("a1");
    const aborted = new AbortController();
    const waiting = enter("a2", aborted.signal);
    await expect(enter("a3")).rejects.toThrow(QueueRefused);
    aborted.abort();
    await expect(waiting).rejects.toThrow(QueueRefused);
    const [b, c, d] = [enter("b1"), enter("c1"), enter("d1")];
    await expect(enter("e1")).rejects.toThrow(QueueRefused);
    for (const name of ["a1", "b1", "c1", "d1"]) await end(name);
    await Promise.all([first, b, c, d]);
    expect(begun).toEqual(["a1", "b1", "c1", "d1"]);
  });
});
