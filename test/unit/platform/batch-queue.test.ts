import { expect, test } from "vitest";
import { createBatches } from "../../../src/platform/db/batch-queue.ts";

const refusal = Object.assign(new Error("duplicate key"), { code: "23505" });

test("items that arrive during a batch are the next batch, up to the limit, and are answered in order", async () => {
  const batches: number[][] = [];
  const double = createBatches(3, async (items: number[]) => {
    batches.push(items);
    return items.map((item) => item * 2);
  });
  expect(await Promise.all([1, 2, 3, 4, 5].map(double))).toEqual([2, 4, 6, 8, 10]);
  expect(await double(6)).toBe(12);
  expect(batches).toEqual([[1, 2, 3], [4, 5], [6]]);
});

test.each([
  ["the database refuses", refusal],
  ["cannot be written as JSON", new RangeError("Maximum call stack size exceeded")],
])("of a batch that %s, only the item at fault fails", async (_why, error) => {
  const write = createBatches(8, async (items: string[]) => {
    if (items.includes("bad")) throw error;
    return items;
  });
  const outcomes = await Promise.allSettled(["a", "bad", "b"].map(write));
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
});

test.each([undefined, "EPIPE", "08006", "57P01", "25P03"])(
  "a batch whose answer was lost (code %s) is not sent again, because it may have been executed",
  async (code) => {
    let calls = 0;
    const write = createBatches(8, async () => {
      calls += 1;
      throw Object.assign(new Error("the connection dropped"), { code });
    });
    const outcomes = await Promise.allSettled(["a", "b"].map(write));
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(calls).toBe(1);
  },
);
