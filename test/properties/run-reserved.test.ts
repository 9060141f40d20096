import { expect, test } from "vitest";
import { newId } from "../../src/platform/lib/ids.ts";
import { LIMITS, useQueue } from "./run-queue-fixture.ts";

const queue = useQueue();

test("a worker for reserved runs leaves all other runs to others, however long those wait", async () => {
  const waiting = [await queue.enqueue()];
  for (let n = 0; n < 20; n += 1) waiting.push(await queue.enqueue({ user_id: newId(), agent_id: newId() }));
  const reserved = { worker_id: "api-1", for_ms: 60_000 };
  const chat = { ...queue.agent, trigger: "chat" as const };
  const own = await queue.scheduling.start({ ...chat, reserved });
  await queue.scheduling.start({ ...chat, reserved: { ...reserved, worker_id: "api-2" } });
  const idsOf = async (worker_id: string, reserved_only: boolean) =>
    (await queue.scheduling.claim(worker_id, 50, LIMITS, reserved_only)).map(({ lease }) => lease.run_id);
  expect(await idsOf("api-1", true)).toEqual([own.id]);
  expect(await idsOf("api-1", true)).toEqual([]);
  expect((await idsOf("worker-1", false)).toSorted()).toEqual(waiting.map(({ id }) => id).toSorted());
});
