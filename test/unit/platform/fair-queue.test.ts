import { expect, it } from "vitest";
import { createFairQueue } from "../../../src/platform/fair-queue.ts";

const LIMITS = { running: 2, waiting: 6, waiting_per_user: 3 };
/** A queue whose jobs end when the test says so, and the order in which they began. */
function setUp() {
  const queue = createFairQueue(LIMITS);
  const began: string[] = [];
  const ends = new Map<string, () => void>();
  const add = (user: string, name: string) =>
    queue.run(user, async () => {
      began.push(name);
      await new Promise<void>((resolve) => ends.set(name, resolve));
      return name;
    });
  const end = async (name: string) => {
    ends.get(name)?.();
    await new Promise(setImmediate);
  };
  return { add, end, began, queue };
}

it("one user's jobs run one at a time, and another user's job does not wait for them", async () => {
  const { add, end, began } = setUp();
  const jobs = [add("eve", "eve 1"), add("eve", "eve 2"), add("eve", "eve 3"), add("ada", "ada 1")];
  await new Promise(setImmediate);
  expect(began).toEqual(["eve 1", "ada 1"]);
  for (const name of ["eve 1", "ada 1", "eve 2", "eve 3"]) await end(name);
  expect(await Promise.all(jobs)).toEqual(["eve 1", "eve 2", "eve 3", "ada 1"]);
});

it("users take turns, however many jobs one of them has waiting", async () => {
  const { add, end, began } = setUp();
  for (const [user, count] of [
    ["eve", 4],
    ["mal", 1],
    ["ada", 1],
    ["bob", 1],
  ] as const) {
    for (let n = 1; n <= count; n += 1) void add(user, `${user} ${n}`);
  }
  await new Promise(setImmediate);
  for (const name of ["eve 1", "mal 1", "ada 1", "bob 1", "eve 2"]) await end(name);
  expect(began).toEqual(["eve 1", "mal 1", "ada 1", "bob 1", "eve 2", "eve 3"]);
});

it("a user's further jobs are not run once too many of them wait, and others' still are", async () => {
  const { add, end } = setUp();
  const [first, ...more] = Array.from({ length: 5 }, (_, n) => add("eve", `eve ${n}`));
  const ada = add("ada", "ada 1");
  await new Promise(setImmediate);
  expect(await more.at(-1)).toBeNull();
  for (const name of ["eve 0", "ada 1"]) await end(name);
  expect(await Promise.all([first, ada])).toEqual(["eve 0", "ada 1"]);
});

it("a job that fails gives its place to the next one", async () => {
  const { add, end, queue } = setUp();
  const failed = queue.run("eve", () => Promise.reject(new Error("broken")));
  const next = add("eve", "eve 2");
  await expect(failed).rejects.toThrow("broken");
  await new Promise(setImmediate);
  await end("eve 2");
  expect(await next).toBe("eve 2");
});
