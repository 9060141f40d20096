import { expect, test } from "vitest";
import { type Chat, createChat } from "../../../src/agents/chat/chat.service.ts";
import { agentErrors } from "../../../src/agents/definitions/errors.ts";
import type { RunResult } from "../../../src/agents/runs/run-work.ts";
import type { ClaimedRun } from "../../../src/agents/runs/runs.types.ts";
import { errors, type PurserError } from "../../../src/kernel/errors.ts";

type Deps = Parameters<typeof createChat>[0];

/** The error with which the only turn of a conversation fails. */
async function failureOf(scheduling: (chat: () => Chat) => object): Promise<PurserError> {
  const agents = {
    ready: async () => ({ user_id: "u", id: "a" }),
    newRun: (_agent: unknown, _trigger: string, engine_input: object) => ({
      user_id: "u",
      agent_id: "a",
      engine_input,
    }),
  };
  const chat: Chat = createChat({
    agents,
    runs: scheduling(() => chat),
    threads: {},
    worker_id: "w",
    takesPictures: () => true,
    url: () => "",
  } as unknown as Deps);
  const caller = { user_id: "u", api_key_id: null, key_budget_tokens: null, scopes: [] };
  const asked = {
    messages: [{ role: "user" as const, content: "x" }],
    stream: false,
    on_disconnect: "cancel" as const,
  };
  const options = { request_id: "q", signal: new AbortController().signal, onText: null };
  const turn = await chat.turn(caller, "a", asked, options);
  return turn.finished.then(
    () => expect.fail("it was answered"),
    (error) => error,
  );
}

// No slot becomes free here. The test does not really wait for 30 seconds.

test("a chat that gets no slot in 30 seconds is cancelled and answered 429 with Retry-After", async () => {
  const run = { id: "r", agent_id: "a", status: "queued", finished_at: null };
  const waited: number[] = [];
  const cancelled: string[] = [];
  const failed = await failureOf(() => ({
    startRun: async () => ({ refusal: null, run }),
    waitFinished: async (_user: string, _run: string, timeout_ms: number) => {
      waited.push(timeout_ms);
      return false;
    },
    getRun: async () => run,
    requestCancel: async (_agent: unknown, run_id: string) => cancelled.push(run_id),
  }));
  expect(failed.shape).toMatchObject({ status: 429, code: "rate_limited", retry_after_s: 1 });
  expect([waited, cancelled]).toEqual([[30_000], ["r"]]);
});

const bug = new Error("a bug");
// The log counts a failure with a cause as the service's own.
test.each([
  ["max_steps", null, 409, undefined],
  ["insufficient_tokens", agentErrors.agentDisabled(), 409, undefined],
  ["model_unavailable", errors.upstream("It failed.", "the provider answered 500"), 502, "the provider answered 500"],
  ["internal", bug, 500, bug],
])(
  "a turn that fails with %s has a cause only if the failure is not the user's",
  async (code, thrown, status, cause) => {
    const run = { id: "r", agent_id: "a", status: "failed", error: { code, message: "x" }, finished_at: "now" };
    let queued: ClaimedRun;
    const failed = await failureOf((chat) => ({
      startRun: async (claimed: ClaimedRun) => {
        queued = { ...claimed, has_caller: true };
        return { refusal: null, run };
      },
      waitFinished: async () =>
        chat()
          .findListener(queued)
          ?.onEnd({ thrown } as RunResult),
      getRun: async () => ({ ...run, usage: { cost_tokens: 0 }, steps: [] }),
    }));
    expect(failed.shape).toMatchObject({ status, has_acted: false, metadata: { run_id: "r" } });
    expect(failed.cause).toBe(cause);
  },
);
