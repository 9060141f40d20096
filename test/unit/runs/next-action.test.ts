import { describe, expect, test } from "vitest";
import { newConfig } from "../../../src/agents/definitions/agent-config.ts";
import { decideNext, type Progress, REPEATED_CALL } from "../../../src/agents/runs/next-action.ts";
import { buildTranscript, type PastStep } from "../../../src/agents/runs/transcript.ts";
import type { ToolCall } from "../../../src/api/contract/completions.ts";

const config = newConfig({ name: "Scout", model_id: "m", system_prompt: "Be brief.", run_prompt: "Look." });
const call = (id: string, url = "https://a.example/"): ToolCall => ({
  id,
  type: "function",
  function: { name: "web_fetch", arguments: JSON.stringify({ url }) },
});
const step = (fields: Partial<PastStep>): PastStep => ({
  type: "tool",
  name: "web_fetch",
  status: "succeeded",
  arguments: null,
  result: null,
  error: null,
  ...fields,
});
const asked = (...tool_calls: ToolCall[]) =>
  step({ type: "model", name: "m", result: { role: "assistant", content: null, tool_calls } });
const said = (content: string | null) => step({ type: "model", name: "m", result: { role: "assistant", content } });
const fetched = (result: string, url = "https://a.example/") => step({ arguments: { url }, result });

function next(steps: PastStep[], more: Partial<Progress> = {}) {
  return decideNext({ limits: config.limits, steps, elapsed_ms: 0, ...more });
}

describe("a run", () => {
  test("begins with the model", () => {
    expect(next([])).toEqual({ do: "call_model", after_ms: 0 });
  });

  test("ends with the model's text when it calls no tool", () => {
    expect(next([said("Done.")])).toEqual({ do: "succeed", output: "Done.", output_json: null });
    expect(next([said(null)])).toEqual({ do: "succeed", output: "", output_json: null });
  });

  test("executes each call of an answer in turn, then calls the model again", () => {
    const answer = asked(call("1"), call("2", "https://b.example/"));
    expect(next([answer])).toEqual({ do: "call_tool", call: call("1"), nth: 0, approval: null });
    expect(next([answer, fetched("A")])).toEqual({
      do: "call_tool",
      call: call("2", "https://b.example/"),
      nth: 1,
      approval: null,
    });
    expect(next([answer, fetched("A"), fetched("B")])).toEqual({ do: "call_model", after_ms: 0 });
  });

  test("continues after a tool's error, which the model reads", () => {
    const failed = step({ status: "failed", error: { code: "egress_refused", message: "private address" } });
    expect(next([asked(call("1")), failed])).toEqual({ do: "call_model", after_ms: 0 });
    const messages = buildTranscript(
      config,
      { messages: null, request_id: null, api_key_id: null, key_budget_tokens: null, ticket: null },
      [asked(call("1")), failed],
    );
    expect(messages.at(-1)).toEqual({ role: "tool", tool_call_id: "1", content: "Error: private address" });
  });

  test.each([
    ["secret_reflected", "a secret came back to"],
    ["unsafe_content", "returned an attack, with strict safety"],
  ])("ends with %s: a tool that %s, and the model is not called again", (code) => {
    const error = { code, message: "KEY came back" };
    expect(next([asked(call("1")), step({ status: "failed", error })])).toEqual({ do: "fail", error });
  });

  test("repeats an interrupted call to an MCP server only if its owner has set that it has no effects", () => {
    const interrupted = step({ name: "every__echo", status: "running" });
    const asking = asked(call("1"));
    expect(next([asking, { ...interrupted, internal: { repeatable: true } } as PastStep])).toMatchObject({
      do: "call_tool",
    });
    expect(next([asking, { ...interrupted, internal: { repeatable: false } } as PastStep])).toMatchObject({
      do: "fail",
      error: { code: "effect_unknown" },
    });
  });

  test("ends with a failed model step's error", () => {
    const error = { code: "model_unavailable", message: "down" };
    expect(next([step({ type: "model", status: "failed", error })])).toEqual({ do: "fail", error });
  });
});

describe("caps", () => {
  const failure = (code: string) => ({ do: "fail", error: expect.objectContaining({ code }) });
  const limits = { ...config.limits, max_steps: 2, max_run_seconds: 10 };

  test("stop a run without remaining steps or time", () => {
    expect(next([asked(call("1")), fetched("A")], { limits })).toEqual(failure("max_steps"));
    expect(next([], { limits, elapsed_ms: 10_000 })).toEqual(failure("timeout"));
  });

  test("never discard an existing answer", () => {
    const over = { limits, elapsed_ms: 99_000 };
    expect(next([asked(call("1")), fetched("A"), said("Late.")], over)).toEqual({
      do: "succeed",
      output: "Late.",
      output_json: null,
    });
  });
});

describe("a model call that failed", () => {
  const error = { code: "model_unavailable", message: "down" };
  const failed = (retry_in_ms: number | null) => ({
    ...step({ type: "model", status: "failed", error }),
    internal: { retry_in_ms },
  });
  const again = (after_ms: number) => ({ do: "call_model", after_ms });

  test("is retried twice with growing pauses, and then fails the run", () => {
    expect(next([failed(0)])).toEqual(again(500));
    expect(next([failed(0), failed(0)])).toEqual(again(2_000));
    expect(next([failed(0), failed(0), failed(0)])).toEqual({ do: "fail", error });
    const answered = [failed(0), failed(0), asked(call("1")), fetched("A")];
    expect(next([...answered, failed(0)])).toEqual(again(500));
  });

  test("during its answer, which is charged, is retried once", () => {
    const broken = { ...failed(0), result: { role: "assistant", content: "Once" } };
    expect(next([failed(0), broken])).toEqual(again(2_000));
    expect(next([broken, broken])).toEqual({ do: "fail", error });
  });

  test("is retried after its provider's Retry-After, unless that is too late", () => {
    expect(next([failed(7_000)])).toEqual(again(7_000));
    const limits = { ...config.limits, max_run_seconds: 10 };
    expect(next([failed(7_000)], { limits, elapsed_ms: 3_000 })).toEqual({ do: "fail", error });
    expect(next([failed(null)])).toEqual({ do: "fail", error });
  });

  test("does not count as a step of max_steps, and the model never reads it", () => {
    const limits = { ...config.limits, max_steps: 1 };
    expect(next([failed(0)], { limits })).toEqual(again(500));
    const broken = { ...failed(0), result: { role: "assistant", content: "Once upon" } };
    const input = { messages: null, request_id: null, api_key_id: null, key_budget_tokens: null, ticket: null };
    expect(buildTranscript(config, input, [broken]).map(({ role }) => role)).toEqual(["system", "user"]);
  });

  test("because its process ended is retried at once", () => {
    const stopped = step({ type: "model", status: "cancelled", result: { role: "assistant", content: "Once" } });
    expect(next([stopped])).toEqual(again(0));
    expect(next([asked(call("1")), fetched("A"), stopped])).toEqual(again(0));
  });
});

describe("a repeated call (pi#9637, agno#6984)", () => {
  const rounds = (count: number) =>
    Array.from({ length: count }, (_, round) => [asked(call(String(round))), fetched("A")]).flat();
  const refused = step({
    arguments: { url: "https://a.example/" },
    status: "failed",
    error: { code: REPEATED_CALL, message: "stop" },
  });

  test("is refused the sixth time, and the model gets the error", () => {
    expect(next([...rounds(4), asked(call("x"))])).toMatchObject({ do: "call_tool" });
    expect(next([...rounds(5), asked(call("x"))])).toMatchObject({ do: "reject_tool", error: { code: REPEATED_CALL } });
  });

  test("fails the run if the model continues", () => {
    expect(next([...rounds(5), asked(call("x")), refused, asked(call("y"))])).toMatchObject({
      do: "fail",
      error: { code: "tool_failed" },
    });
  });

  test("does not affect other calls", () => {
    expect(next([...rounds(5), asked(call("x", "https://c.example/"))])).toMatchObject({ do: "call_tool" });
  });
});

describe("after a crash", () => {
  const interrupted = step({ status: "running", arguments: { url: "https://a.example/" } });

  test("a model call without a recorded answer is repeated", () => {
    expect(next([step({ type: "model", status: "running" })])).toEqual({ do: "call_model", after_ms: 0 });
  });

  test("a read-only fetch is repeated, and another one fails the run as effect_unknown (agent-framework#3938)", () => {
    expect(next([asked(call("1")), interrupted])).toEqual({ do: "call_tool", call: call("1"), nth: 0, approval: null });
    const posted = { ...interrupted, arguments: { url: "https://a.example/", method: "POST" } };
    expect(next([asked(call("1")), posted])).toMatchObject({ do: "fail", error: { code: "effect_unknown" } });
  });

  test("a webhook is sent again, because its receiver recognises its webhook-id", () => {
    const hook: ToolCall = { id: "1", type: "function", function: { name: "send_webhook", arguments: "{}" } };
    const sent = step({ name: "send_webhook", status: "running", arguments: {} });
    expect(next([asked(hook), sent])).toEqual({ do: "call_tool", call: hook, nth: 0, approval: null });
  });
});

describe("the transcript", () => {
  test("rebuilds the conversation from the steps, each answer under its call's id", () => {
    const steps = [asked(call("1"), call("2", "https://b.example/")), fetched("A"), fetched("B"), said("Done.")];
    const input = { messages: null, request_id: null, api_key_id: null, key_budget_tokens: null, ticket: null };
    expect(buildTranscript(config, input, steps)).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "Look." },
      { role: "assistant", content: null, tool_calls: [call("1"), call("2", "https://b.example/")] },
      { role: "tool", tool_call_id: "1", content: "A" },
      { role: "tool", tool_call_id: "2", content: "B" },
      { role: "assistant", content: "Done." },
    ]);
  });

  test("names missing tools in the system prompt, not as an answer to a call", () => {
    const error = { code: "mcp_failed", message: "the MCP server quay could not be used: it is closed" };
    const steps = [step({ name: "quay", status: "failed", error }), asked(call("1")), fetched("A")];
    const input = { messages: null, request_id: null, api_key_id: null, key_budget_tokens: null, ticket: null };
    expect(buildTranscript(config, input, steps)).toEqual([
      {
        role: "system",
        content: expect.stringMatching(/^Be brief\.\n\nThe tools of the MCP server quay .* it is closed\./),
      },
      { role: "user", content: "Look." },
      { role: "assistant", content: null, tool_calls: [call("1")] },
      { role: "tool", tool_call_id: "1", content: "A" },
    ]);
  });

  test("of a chat has its messages instead of the run_prompt", () => {
    const input = {
      messages: [{ role: "user" as const, content: "Hi" }],
      request_id: null,
      api_key_id: null,
      key_budget_tokens: null,
      ticket: null,
    };
    expect(buildTranscript(config, input, [])).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hi" },
    ]);
  });
});
