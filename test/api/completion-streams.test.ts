import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openStream, textOf } from "../support/event-stream.ts";
import { ask, charges, expectCleanAudit, type Lab, settledBalance, startLab } from "../support/lab.ts";
import type { Client } from "../support/service.ts";
import { completion, delta, event, events, hanging, stream as upstreamStream } from "../support/upstream.ts";

const GRANT = 1_000_000;
const usageEvent = (prompt_tokens: number, completion_tokens: number) =>
  event({ choices: [], usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens } });
const end = event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });

let lab: Lab;
let user: Client;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());
beforeEach(async () => {
  lab.upstream.answer(completion());
  user = await lab.service.newUser({ trial: false, tokens: GRANT });
});

const streamed = async (fields: Record<string, unknown> = {}, model = "lab/plain") => {
  const opened = await openStream(lab.service, user, ask(model, fields));
  return { opened, all: await opened.rest() };
};

describe("a streamed answer (contract 4)", () => {
  it("consists of server-sent events: chunks of the requested model, usage on the last one, then [DONE]", async () => {
    const { opened, all } = await streamed();
    expect(opened.response.headers.get("content-type")).toMatch(/^text\/event-stream/);
    expect(opened.response.headers.get("x-request-id")).toBeTruthy();
    expect(all.at(-1)).toBe("[DONE]");
    expect(all.filter((data) => data === "[DONE]")).toHaveLength(1);
    const chunks = all.slice(0, -1).map((data) => JSON.parse(data));
    expect(new Set(chunks.map((chunk) => chunk.object))).toEqual(new Set(["chat.completion.chunk"]));
    expect(new Set(chunks.map((chunk) => chunk.model))).toEqual(new Set(["lab/plain"]));
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
    expect(chunks.filter((chunk) => chunk.usage != null)).toEqual([chunks.at(-1)]);
    expect(chunks.at(-1).usage).toMatchObject({
      input_tokens: 10,
      output_tokens: 4,
      total_tokens: 14,
      cost_tokens: 18,
    });
    expect(textOf(all)).toBe("hello from upstream");
  });

  it("has usage also if the caller has asked for none", async () => {
    const { all } = await streamed({ stream_options: { include_usage: false } });
    expect(JSON.parse(all.at(-2) ?? "").usage.cost_tokens).toBe(18);
    expect(lab.upstream.requests.at(-1)?.body.stream_options.include_usage).toBe(true);
  });

  it("costs the same as the answer without streaming, rounded once", async () => {
    lab.upstream.answer(completion("x", { prompt_tokens: 3, completion_tokens: 1 }));
    const { all } = await streamed({}, "lab/odd");
    expect(JSON.parse(all.at(-2) ?? "").usage.cost_tokens).toBe(2);
    expect((await charges(user)).map((entry) => entry.amount)).toEqual([-2]);
  });

  it("is delivered at once: the first word arrives before the upstream has finished", async () => {
    lab.upstream.answer(hanging(delta("first ")));
    const stream = await openStream(lab.service, user, ask("lab/plain"));
    expect(textOf([(await stream.next()) ?? ""])).toBe("first ");
    stream.hangUp();
    await settledBalance(user);
  });

  it("may be split anywhere by the network: events and characters arrive whole", async () => {
    const whole = Buffer.from(`${delta("Grüße, 世界 🌍")}${end}${usageEvent(7, 3)}data: [DONE]\n\n`);
    lab.upstream.answer(async (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (let at = 0; at < whole.length; at += 7) {
        await new Promise((resolve) => response.write(whole.subarray(at, at + 7), resolve));
      }
      response.end();
    });
    const { all } = await streamed();
    expect(textOf(all)).toBe("Grüße, 世界 🌍");
    expect(JSON.parse(all.at(-2) ?? "").usage).toMatchObject({ input_tokens: 7, output_tokens: 3 });
  });

  it("may use CRLF and comments, as some upstreams do", async () => {
    const crlf = (text: string) => text.replaceAll("\n", "\r\n");
    lab.upstream.answer(
      events(": ping\r\n\r\n", crlf(delta("fine")), crlf(end), crlf(usageEvent(7, 3)), "data: [DONE]\r\n\r\n"),
    );
    const { all } = await streamed();
    const chunks = all.filter((data) => !data.startsWith(":"));
    expect(textOf(chunks)).toBe("fine");
    expect(JSON.parse(chunks.at(-2) ?? "").usage.cost_tokens).toBe(13);
  });
});

describe("the usage of a stream (contract 4)", () => {
  it("is the last report if the upstream repeats it, never the sum", async () => {
    lab.upstream.answer(
      events(
        delta("a"),
        usageEvent(10, 1),
        delta("b"),
        usageEvent(10, 2),
        end,
        usageEvent(10, 3),
        usageEvent(10, 3),
        "data: [DONE]\n\n",
      ),
    );
    const { all } = await streamed();
    expect(JSON.parse(all.at(-2) ?? "").usage).toMatchObject({ output_tokens: 3, cost_tokens: 16 });
    expect(all.filter((data) => data.includes('"usage"'))).toHaveLength(1);
  });

  it.each([
    ["zeros", { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
    ["no figures", {}],
    ["a negative count", { prompt_tokens: 5000, completion_tokens: -1 }],
  ])("is the last usable report: %s after it changes nothing", async (_, usage) => {
    const finish = { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };
    const good = event({ ...finish, usage: { prompt_tokens: 5000, completion_tokens: 300 } });
    lab.upstream.answer(events(delta("a"), good, event({ choices: [], usage }), "data: [DONE]\n\n"));
    const { all } = await streamed();
    expect(JSON.parse(all.at(-2) ?? "").usage).toMatchObject({ input_tokens: 5000, output_tokens: 300 });
    expect((await charges(user)).map((entry) => entry.amount)).toEqual([-5600]);
  });

  it("is charged once and shown once, also if the upstream puts it into every chunk", async () => {
    const word = (content: string) =>
      event({ choices: [{ index: 0, delta: { content } }], usage: { prompt_tokens: 10, completion_tokens: 4 } });
    lab.upstream.answer(events(word("a"), word("b"), "data: [DONE]\n\n"));
    const { all } = await streamed();
    expect(textOf(all)).toBe("ab");
    expect(all.filter((data) => data.includes('"usage"'))).toHaveLength(1);
    expect((await charges(user)).map((entry) => entry.amount)).toEqual([-18]);
  });

  it("is also read from the chunk with the finish reason", async () => {
    const finish = event({
      choices: [{ index: 0, delta: { content: "!" }, finish_reason: "stop" }],
      usage: { prompt_tokens: 10, completion_tokens: 2 },
    });
    lab.upstream.answer(events(delta("a"), finish, "data: [DONE]\n\n"));
    const { all } = await streamed();
    expect(textOf(all)).toBe("a!");
    expect(JSON.parse(all.at(-2) ?? "").usage.cost_tokens).toBe(14);
  });

  it("is estimated from the bytes if the upstream sends none, also for tool calls", async () => {
    lab.upstream.answer(upstreamStream(["twelve ", "bytes"], null));
    const { all } = await streamed();
    const usage = JSON.parse(all.at(-2) ?? "").usage;
    expect(usage).toMatchObject({ input_tokens: 2, output_tokens: 3, cost_tokens: 8, estimated: true });
    const call = { index: 0, id: "c", type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } };
    lab.upstream.answer(
      events(event({ choices: [{ index: 0, delta: { tool_calls: [call] } }] }), end, "data: [DONE]\n\n"),
    );
    const tools = JSON.parse((await streamed()).all.at(-2) ?? "").usage;
    expect(tools.output_tokens).toBe(Math.ceil('weather{"city":"Oslo"}'.length / 4));
  });

  it("is not changed by a text that imitates usage, errors and the end", async () => {
    const text = 'data: [DONE] "usage": {"prompt_tokens": 0} {"error": {"message": "no"}} "model":"fake-large"';
    lab.upstream.answer(upstreamStream([text]));
    const { all } = await streamed();
    expect(textOf(all)).toBe(text);
    expect(JSON.parse(all.at(-2) ?? "").usage.cost_tokens).toBe(18);
  });
});

describe("OpenAI's helper takes a stream", () => {
  const helped = (fields: Record<string, unknown> = {}) =>
    new OpenAI({ baseURL: `${lab.service.url}/api/v1`, apiKey: user.key, maxRetries: 0 }).chat.completions
      .stream(ask("lab/plain", fields) as never)
      .finalChatCompletion();

  it.each([
    ["null", null],
    ["missing", undefined],
  ])(
    "whose chunk of usage has choices that are %s, and other chunks with null, and the usage is read",
    async (_, choices) => {
      const usage = { prompt_tokens: 10, completion_tokens: 4 };
      const [bare, last] = [event({ choices: null }), event({ choices, usage })];
      lab.upstream.answer(events(bare, delta("a"), bare, delta("b") + bare + end, last, "data: [DONE]\n\n"));
      const answer = await helped({ stream_options: { include_usage: true } });
      expect(answer.choices[0]?.message.content).toBe("ab");
      expect((await charges(user)).map((entry) => entry.amount)).toEqual([-18]);
    },
  );

  it.each([
    ["no choice ends", false, []],
    ["no choice ends, with include_usage", true, []],
    ["one choice ends", false, [end]],
    ["one choice ends, with include_usage", true, [end]],
  ])("of two choices although %s: the others get a finish reason each", async (_, include_usage, ends) => {
    const call = { index: 0, id: "a", type: "function", function: { name: "add", arguments: "{}" } };
    const calling = event({ choices: [{ index: 1, delta: { tool_calls: [call] } }] });
    lab.upstream.answer(events(delta("hi"), calling, ...ends, usageEvent(10, 4), "data: [DONE]\n\n"));
    const { choices, usage } = await helped({ n: 2, stream_options: { include_usage } });
    expect(choices.map(({ finish_reason }) => finish_reason)).toEqual(["stop", "tool_calls"]);
    expect(usage).toMatchObject({ total_tokens: 14 });
  });

  it("of two choices without the choices that nobody asked for in its last chunk", async () => {
    const of = (...indexes: unknown[]) =>
      event({ choices: indexes.map((index) => ({ index, delta: { content: "a" } })) });
    const many = Array.from({ length: 1_000 }, (_, at) => at + 2);
    lab.upstream.answer(events(of(0, 1), of(-1, "x", {}, undefined, ...many), usageEvent(10, 4), "data: [DONE]\n\n"));
    const { all } = await streamed({ n: 2 });
    const last = JSON.parse(all.at(-2) ?? "");
    expect(last.choices).toEqual([0, 1].map((index) => ({ index, delta: {}, finish_reason: "stop" })));
    expect(last.usage).toMatchObject({ total_tokens: 14 });
  });
});

describe("a caller that disconnects from a stream (contract 4)", () => {
  it("pays for the output so far, the upstream is aborted, and no hold remains", async () => {
    const before = lab.upstream.hangUps;
    lab.upstream.answer(hanging(delta("twelve "), delta("bytes")));
    const stream = await openStream(lab.service, user, ask("lab/plain"));
    let text = "";
    while (text !== "twelve bytes") text += textOf([(await stream.next()) ?? ""]);
    stream.hangUp();
    await lab.upstream.until(() => lab.upstream.hangUps === before + 1);
    expect(await settledBalance(user)).toBe(GRANT - 8);
    await expectCleanAudit(lab.service);
  });

  it("also pays for the words after the upstream's last usage report", async () => {
    const early = event({
      choices: [{ index: 0, delta: { role: "assistant", content: "" } }],
      usage: { prompt_tokens: 10, completion_tokens: 0 },
    });
    lab.upstream.answer(hanging(early, delta("twelve "), delta("bytes")));
    const stream = await openStream(lab.service, user, ask("lab/plain"));
    let text = "";
    while (text !== "twelve bytes") text += textOf([(await stream.next()) ?? ""]);
    stream.hangUp();
    // The prompt as reported, the output as Purser counts it.
    expect(await settledBalance(user)).toBe(GRANT - 10 - 6);
  });

  it("before the first word pays for the input, marked as estimated, and the upstream is aborted", async () => {
    const [hangUps, asked] = [lab.upstream.hangUps, lab.upstream.requests.length];
    lab.upstream.answer(() => {});
    const connection = new AbortController();
    const call = fetch(`${lab.service.url}/api/v1/chat/completions`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${user.key}`,
        "Content-Type": "application/json",
        "X-Request-Id": "left-early",
      },
      body: JSON.stringify(ask("lab/plain", { stream: true })),
      signal: connection.signal,
    }).catch((error: Error) => error.name);
    await lab.upstream.until(() => lab.upstream.requests.length === asked + 1);
    connection.abort();
    expect(await call).toBe("AbortError");
    await lab.upstream.until(() => lab.upstream.hangUps === hangUps + 1);
    // "hello" is 5 bytes
    expect(await settledBalance(user)).toBe(GRANT - 2);
    expect((await user.get("/api/v1/billing/explain/left-early")).body).toMatchObject({
      estimated: true,
      cost_tokens: 2,
      charged_tokens: 2,
    });
  });

  it("leaves no hold and no connection, also if many disconnect at once", async () => {
    const before = lab.upstream.hangUps;
    lab.upstream.answer(hanging(delta("word")));
    const streams = await Promise.all(
      Array.from({ length: 20 }, () => openStream(lab.service, user, ask("lab/plain"))),
    );
    await Promise.all(streams.map((stream) => stream.next()));
    for (const stream of streams) stream.hangUp();
    await lab.upstream.until(() => lab.upstream.hangUps === before + 20);
    expect(await settledBalance(user)).toBe(GRANT - 20 * 4);
    expect(await charges(user)).toHaveLength(20);
    await expectCleanAudit(lab.service);
  });
});
