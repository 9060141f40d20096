import { beforeEach, describe, expect, test } from "vitest";
import { settledBalance, useLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, delta, event, hanging, json, type Reply } from "../support/upstream.ts";

// The end of a turn whose caller disconnects, and the errors of failing turns.

let user: Client;
let agent: string;

const lab = useLab();
beforeEach(async () => {
  lab.upstream.answer(completion());
  lab.upstream.requests.length = 0;
  user = await lab.service.newUser({ trial: false, tokens: 1_000_000 });
  agent = `/api/v1/agents/${(await user.post("/api/v1/agents", { name: "Scout", model_id: "lab/plain" })).body.id}`;
});

const hello = { messages: [{ role: "user", content: "Hello?" }] };
const role = event({ choices: [{ index: 0, delta: { role: "assistant" }, finish_reason: null }] });
const lastRun = async () => (await user.get(`${agent}/runs`)).body.runs[0];

/** Sends a request, waits until the model has it, and disconnects. */
async function hangUpOn(body: object, headers: Record<string, string> = {}): Promise<void> {
  const connection = new AbortController();
  const answer = fetch(`${lab.service.url}${agent}/chat`, {
    method: "POST",
    headers: { Authorization: `Bearer ${user.key}`, "Content-Type": "application/json", ...headers },
    body: JSON.stringify({ ...hello, ...body }),
    signal: connection.signal,
  });
  answer.catch(() => {});
  await lab.upstream.until(() => lab.upstream.requests.length === 1);
  if ("stream" in body) await (await answer).body?.getReader().read();
  connection.abort();
}

/** Streams a few words, and the rest when the test releases it. */
function inTwoParts(): { reply: Reply; goOn(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const reply: Reply = async (response, request) => {
    await hanging(role, delta("a few words"))(response, request);
    await promise;
    const end = event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
    const usage = event({ choices: [], usage: { prompt_tokens: 10, completion_tokens: 9 } });
    response.end(`${delta(" and more")}${end}${usage}data: [DONE]\n\n`);
  };
  return { reply, goOn: resolve };
}

describe("a caller that disconnects", () => {
  const kinds: [string, object][] = [
    ["in one piece", {}],
    ["streamed", { stream: true }],
  ];
  test.each(kinds)(
    "cancels the turn, %s: the provider's call is aborted and its output so far is charged",
    async (_kind, body) => {
      lab.upstream.answer(inTwoParts().reply);
      const before = lab.upstream.hangUps;
      await hangUpOn({ ...body, thread_id: "t" });
      await lab.upstream.until(() => lab.upstream.hangUps > before);
      await expect.poll(async () => (await lastRun()).status).toBe("cancelled");
      const { usage } = await lastRun();
      expect(usage.cost_tokens).toBeGreaterThan(0);
      expect(await settledBalance(user)).toBe(1_000_000 - usage.cost_tokens);
      expect((await user.get(`${agent}/threads/t`)).body.messages).toEqual([]);
    },
  );

  test("before the answer gets it by a retry with the same Idempotency-Key", async () => {
    const key = { "Idempotency-Key": "again" };
    lab.upstream.answer(inTwoParts().reply, completion("Hello."));
    await hangUpOn({}, key);
    await expect.poll(async () => (await lastRun()).status).toBe("cancelled");
    const again = () => user.post(`${agent}/chat`, hello, key);
    await expect.poll(async () => (await again()).body.choices?.[0].message.content).toBe("Hello.");
  });

  test.each(kinds)("with on_disconnect continue lets the turn finish, %s", async (_kind, body) => {
    const { reply, goOn } = inTwoParts();
    lab.upstream.answer(reply);
    await hangUpOn({ ...body, thread_id: "t", on_disconnect: "continue" });
    expect((await lastRun()).status).toBe("running");
    goOn();
    await expect.poll(async () => (await lastRun()).status).toBe("succeeded");
    const run = await lastRun();
    expect((await user.get(`${agent}/runs/${run.id}`)).body).toMatchObject({
      output: "a few words and more",
      usage: { cost_tokens: 28 },
    });
    const { messages } = (await user.get(`${agent}/threads/t`)).body;
    expect(messages.at(-1)).toMatchObject({ role: "assistant", content: "a few words and more", run_id: run.id });
    expect(await settledBalance(user)).toBe(1_000_000 - 28);
  });
});

describe("a turn that fails", () => {
  test("names its run, whose record has the same error", async () => {
    lab.upstream.answer(json({ error: { message: "no" } }, 400));
    const { status, body } = await user.post(`${agent}/chat`, hello);
    expect(status).toBeGreaterThanOrEqual(400);
    const run = await lastRun();
    expect(body.error.metadata.run_id).toBe(run.id);
    expect(run).toMatchObject({ status: "failed", error: { code: expect.any(String) } });
  });

  test("by its time limit is 504 with the limit's name, and its output so far is charged", async () => {
    await user.request("PUT", agent, { limits: { max_run_seconds: 1 } });
    lab.upstream.answer(hanging(role, delta("a few words")));
    const { status, body } = await user.post(`${agent}/chat`, hello);
    expect([status, body.error.code]).toEqual([504, "upstream_timeout"]);
    expect(body.error.message).toContain("max_run_seconds");
    expect((await lastRun()).error.code).toBe("timeout");
    expect(await settledBalance(user)).toBeLessThan(1_000_000);
  });

  test("after its first text ends with an error event, and without [DONE]", async () => {
    await user.request("PUT", agent, { limits: { max_run_seconds: 1 } });
    lab.upstream.answer(hanging(role, delta("a few words")));
    const { status, body } = await user.post(`${agent}/chat`, { ...hello, stream: true });
    expect(status).toBe(200);
    const events = body.split("\n\n").filter((text: string) => text !== "");
    expect(JSON.parse(events.at(-1).slice(6)).error).toMatchObject({ code: "upstream_timeout", type: "api_error" });
    expect(body).not.toContain("[DONE]");
  });

  test("with a disabled agent is rejected, streamed or not, before anything is queued", async () => {
    await user.request("PUT", agent, { is_active: false });
    for (const stream of [false, true]) {
      const { status, body } = await user.post(`${agent}/chat`, { ...hello, stream, thread_id: "t" });
      expect([status, body.error.code]).toEqual([409, "agent_disabled"]);
    }
    expect(await lastRun()).toBeUndefined();
    expect((await user.get(`${agent}/threads`)).body.threads).toEqual([]);
  });
});
