import { expect, test } from "vitest";
import { isTurnUsed, untilTurn } from "../../../src/platform/lib/event-loop-turn.ts";

/** Works in slices until its time is over. */
async function longWork(ms: number): Promise<void> {
  const until = performance.now() + ms;
  while (performance.now() < until) if (isTurnUsed()) await untilTurn();
}

test("work that waits for a turn is not delayed by work that began earlier", async () => {
  const order: string[] = [];
  const long = [longWork(300), longWork(300)].map((work) => work.then(() => order.push("long")));
  const short = untilTurn().then(() => order.push("short"));
  await Promise.all([...long, short]);
  expect(order).toEqual(["short", "long", "long"]);
});
