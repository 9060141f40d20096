import { expect, test } from "vitest";
import { createChat } from "../../../src/agents/chat.service.ts";
import type { PurserError } from "../../../src/errors.ts";

type Deps = Parameters<typeof createChat>[0];

// A place never becomes free here; the half minute itself is waited for by nobody.

test("a chat for which no place becomes free in 30 seconds is cancelled and answered 429 with Retry-After", async () => {
  const run = { id: "r", agent_id: "a", status: "queued", finished_at: null };
  const waited: number[] = [];
  const cancelled: string[] = [];
  const deps = {
    runs: { ready: async () => ({ user_id: "u", id: "a" }), newRun: () => ({ user_id: "u", agent_id: "a" }) },
    scheduling: {
      enqueueChat: async () => run,
      waitFinished: async (_user: string, _run: string, timeout_ms: number) => {
        waited.push(timeout_ms);
        return false;
      },
      getRun: async () => run,
      requestCancel: async (_agent: unknown, run_id: string) => cancelled.push(run_id),
    },
    threads: {},
    worker_id: "w",
  };
  const caller = { user_id: "u", api_key_id: null, key_budget_tokens: null, scopes: [] };
  const chat = { messages: [{ role: "user" as const, content: "x" }], stream: false, on_disconnect: "cancel" as const };
  const options = { request_id: "q", signal: new AbortController().signal, onText: null };
  const turn = await createChat(deps as unknown as Deps).turn(caller, "a", chat, options);
  const failed: PurserError = await turn.finished.then(
    () => expect.fail("it was answered"),
    (error) => error,
  );
  expect(failed.shape).toMatchObject({ status: 429, code: "rate_limited", retry_after_s: 1 });
  expect([waited, cancelled]).toEqual([[30_000], ["r"]]);
});
