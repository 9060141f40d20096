import { expect, test } from "vitest";
import type { Turn } from "../../../src/agents/chat/chat.service.ts";
import { createChatEvents } from "../../../src/agents/chat/chat-events.ts";
import { createChatWriter } from "../../../src/gateway/completions/chat-writer.ts";
import { writtenEvents } from "../../../src/gateway/completions/endpoint.ts";
import { DatabaseAwayError } from "../../../src/kernel/sql-state.ts";

test.each([
  ["overloaded", "the database", new DatabaseAwayError(new Error("connect ECONNREFUSED"))],
  ["internal", "a defect", new TypeError("a bug")],
])("a turn whose stream has begun ends with an event of the code %s after a failure of %s", async (code, _, thrown) => {
  const finished = Promise.withResolvers<never>();
  const run = { id: "r", queued_at: "2026-01-01T00:00:00.000Z", model_id: "lab/plain" };
  const events = createChatEvents();
  events.onText("Hello");
  const parts = await events.open({ run, thread_id: null, finished: finished.promise } as unknown as Turn);
  finished.reject(thrown);
  const writer = createChatWriter({ request_id: "request", include_usage: false });
  const feed = writtenEvents({ next: () => parts.next(), leave: events.leave }, writer);
  let text = "";
  for (let step = await feed.next(); step.done !== true; step = await feed.next()) text += step.value;
  expect(text).toContain("Hello");
  expect(text).toContain(`"code":"${code}"`);
  expect(text).not.toContain(thrown.message);
  expect(feed.failure()).toBe(code);
});
